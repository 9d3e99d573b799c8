//! How a program tells which databases exist, if they come and go while it runs.

use std::time::Duration;

use crate::store::Store;
use crate::support::error::{Error, Result};
use crate::tenancy::StoreKey;

/// Lists the databases, and opens them.
///
/// ```
/// use postroom::{Error, Result};
/// use postroom::sqlite::{SqliteOptions, SqliteStore};
/// use postroom::tenancy::{Discovery, StoreKey};
/// use std::path::PathBuf;
///
/// /// One file for each tenant, all in one folder.
/// struct Folder(PathBuf);
///
/// impl Discovery for Folder {
///     type Store = SqliteStore;
///     type Config = PathBuf;
///
///     async fn discover(&self) -> Result<Vec<(StoreKey, PathBuf)>> {
///         let mut found = Vec::new();
///         for file in std::fs::read_dir(&self.0).map_err(Error::callback)? {
///             let path = file.map_err(Error::callback)?.path();
///             if path.extension().is_some_and(|extension| extension == "db") {
///                 let tenant = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
///                 found.push((tenant.into(), path));
///             }
///         }
///         Ok(found)
///     }
///
///     async fn open(&self, key: &StoreKey, path: &PathBuf) -> Result<SqliteStore> {
///         SqliteOptions::new(path).name(key.as_str()).deploy_schema(true).open().await
///     }
/// }
/// ```
pub trait Discovery: Send + Sync + 'static {
    /// The type of the stores.
    type Store: Store + Clone;

    /// What is needed to open a database, such as a path or an address. A store whose configuration stays the same is
    /// not touched. If its configuration changes, the store is drained, closed and opened again.
    type Config: Clone + PartialEq + Send + Sync + 'static;

    /// Returns every database with its key. Return an error rather than an incomplete list: a store that is missing
    /// from the list is closed, while after an error everything stays as it is. [`Error::callback`] converts any error.
    fn discover(&self) -> impl Future<Output = Result<Vec<(StoreKey, Self::Config)>>> + Send;

    /// Opens a database. The store's name must be its key.
    fn open(&self, key: &StoreKey, config: &Self::Config) -> impl Future<Output = Result<Self::Store>> + Send;
}

/// How often to discover.
///
/// ```
/// use std::time::Duration;
/// use postroom::tenancy::DiscoveryOptions;
///
/// let options = DiscoveryOptions::default().refresh(Duration::from_secs(60)).open_timeout(Duration::from_secs(5));
/// assert_eq!(options.refresh_interval(), Duration::from_secs(60));
/// ```
#[derive(Clone, Debug)]
pub struct DiscoveryOptions {
    pub(super) refresh: Duration,
    pub(super) open_timeout: Duration,
}

impl Default for DiscoveryOptions {
    fn default() -> Self {
        Self { refresh: Duration::from_secs(300), open_timeout: Duration::from_secs(10) }
    }
}

impl DiscoveryOptions {
    /// Sets how often to ask which databases exist; every 5 minutes by default.
    #[must_use]
    pub fn refresh(mut self, interval: Duration) -> Self {
        self.refresh = interval;
        self
    }

    /// Returns how often to ask.
    pub fn refresh_interval(&self) -> Duration {
        self.refresh
    }

    /// Sets how long opening a store may take before it is left for the next refresh; 10 s by default.
    #[must_use]
    pub fn open_timeout(mut self, timeout: Duration) -> Self {
        self.open_timeout = timeout;
        self
    }

    pub(super) fn checked(self) -> Result<Self> {
        if self.refresh.is_zero() || self.open_timeout.is_zero() {
            return Err(Error::invalid("the refresh interval and the time to open a store must be longer than zero"));
        }
        Ok(self)
    }
}

/// The changes of a refresh.
///
/// ```
/// use postroom::tenancy::Refreshed;
///
/// fn log(refreshed: &Refreshed) {
///     for (key, error) in &refreshed.failed {
///         println!("{}: {error}", key.as_str());
///     }
///     println!("{} came, {} went, {} stayed", refreshed.added.len(), refreshed.removed.len(), refreshed.kept);
/// }
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Refreshed {
    /// Stores that were opened.
    pub added: Vec<StoreKey>,
    /// Stores that are being drained and closed: they are gone, or their configuration changed.
    pub removed: Vec<StoreKey>,
    /// Stores that could not be opened. The next refresh tries them again.
    pub failed: Vec<(StoreKey, Error)>,
    /// The number of stores that did not change.
    pub kept: usize,
}

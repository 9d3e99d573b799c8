//! What a program tells about its databases when they come and go while it runs.

use std::time::Duration;

use crate::store::Store;
use crate::support::error::{Error, Result};
use crate::tenancy::StoreKey;

/// Finds the databases there are, and opens them.
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
    /// What is opened.
    type Store: Store + Clone;

    /// What is needed to open one: a path, an address. A store whose configuration stays the same is left as it is; one
    /// whose configuration changes is drained and closed, and opened anew.
    type Config: Clone + PartialEq + Send + Sync + 'static;

    /// Every database there is, each under a key of its own. Fail rather than leave some out: what is missing is
    /// closed, while after an error everything stays as it is. [`Error::callback`] makes any error fit.
    fn discover(&self) -> impl Future<Output = Result<Vec<(StoreKey, Self::Config)>>> + Send;

    /// Opens one. The store must be named after its key.
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
    /// How often to ask which databases there are: 5 minutes.
    #[must_use]
    pub fn refresh(mut self, interval: Duration) -> Self {
        self.refresh = interval;
        self
    }

    /// How often that is.
    pub fn refresh_interval(&self) -> Duration {
        self.refresh
    }

    /// How long opening a store may take before it is left for the next refresh: 10 s.
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

/// What a refresh changed.
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
    /// Stores that are drained and closed: they are gone, or their configuration changed.
    pub removed: Vec<StoreKey>,
    /// Stores that could not be opened; they are tried again with the next refresh.
    pub failed: Vec<(StoreKey, Error)>,
    /// How many stayed as they were.
    pub kept: usize,
}

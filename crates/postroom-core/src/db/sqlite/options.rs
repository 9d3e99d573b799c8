//! How to open a SQLite store.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::db::sqlite::SqliteStore;
use crate::sql::TableNames;
use crate::sql::dialect::Fence;
#[cfg(feature = "testing")]
use crate::store::sabotage::Sabotage;
use crate::support::clock::Clock;
use crate::support::error::{Error, Result};

/// What survives a power cut.
///
/// ```no_run
/// # async fn f() -> postroom::Result<()> {
/// use postroom::sqlite::{Durability, SqliteOptions};
///
/// // A cache that is filled anew after a power cut: faster commits are worth more.
/// let store = SqliteOptions::new("cache.db").durability(Durability::Normal).open().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Everything that was acknowledged: each group of commits waits for the disk.
    #[default]
    Full,
    /// Not the last moments: acknowledged work may be gone after a power cut, though not after a crash of the program.
    Normal,
}

/// How to open a SQLite store.
///
/// ```no_run
/// # async fn open() -> postroom::Result<()> {
/// let store = postroom::sqlite::SqliteOptions::new("orders.db").deploy_schema(true).open().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) tables: TableNames,
    pub(crate) durability: Durability,
    pub(crate) deploy_schema: bool,
    pub(crate) create_file: bool,
    pub(crate) clock: Clock,
    pub(crate) dead_letter_topic: Option<String>,
    pub(crate) idle: Duration,
    pub(crate) watch: bool,
    #[cfg(feature = "testing")]
    pub(crate) sabotage: Option<Sabotage>,
}

impl SqliteOptions {
    /// A store in the file at `path`, beside whatever tables are there.
    pub fn new(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_path_buf();
        let name = path.file_stem().map_or_else(|| "sqlite".into(), |stem| stem.to_string_lossy().into_owned());
        Self {
            path,
            name,
            tables: TableNames::default(),
            durability: Durability::Full,
            deploy_schema: false,
            create_file: true,
            clock: Clock::Database,
            dead_letter_topic: None,
            idle: Duration::from_secs(10),
            watch: true,
            #[cfg(feature = "testing")]
            sabotage: None,
        }
    }

    /// What the store is called in logs; the file's name unless told otherwise.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// What the tables are called.
    #[must_use]
    pub fn tables(mut self, tables: TableNames) -> Self {
        self.tables = tables;
        self
    }

    /// What survives a power cut; everything unless told otherwise.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Whether to create tables that are missing. Off unless told otherwise: then they must be there.
    #[must_use]
    pub fn deploy_schema(mut self, deploy: bool) -> Self {
        self.deploy_schema = deploy;
        self
    }

    /// Whether to create the file when it is missing; on unless told otherwise.
    #[must_use]
    pub fn create_file(mut self, create: bool) -> Self {
        self.create_file = create;
        self
    }

    /// Where the time comes from.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Enqueues an event under this topic, in the same transaction, whenever a message is given up.
    #[must_use]
    pub fn dead_letters(mut self, topic: impl Into<String>) -> Self {
        self.dead_letter_topic = Some(topic.into());
        self
    }

    /// After how long without work the writer thread ends, at the latest: 10 s. It starts again by itself, and ends
    /// sooner when it had little to do.
    #[must_use]
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// Whether to watch the file for commits of other processes; on unless told otherwise. Workers poll as well.
    #[must_use]
    pub fn watch(mut self, watch: bool) -> Self {
        self.watch = watch;
        self
    }

    /// Takes a guard away, to show that a test notices.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn sabotage(mut self, sabotage: Option<Sabotage>) -> Self {
        self.sabotage = sabotage;
        self
    }

    /// Looks at the file without opening a store: what about it can lose messages or hold them up. Nothing is created
    /// or changed.
    pub async fn examine(self) -> Result<crate::db::doctor::Report> {
        crate::db::sqlite::examine::examine(self).await
    }

    /// Opens the store: checks the library, the file and the schema.
    pub async fn open(self) -> Result<SqliteStore> {
        if self.idle.is_zero() {
            return Err(Error::invalid("the writer's idle time must be longer than zero"));
        }
        Box::pin(SqliteStore::open(self)).await
    }

    /// The statement in front of every settle: the lease is still held.
    pub(crate) fn fence(&self) -> Fence {
        #[cfg(feature = "testing")]
        if self.sabotage == Some(Sabotage::Fencing) {
            return crate::db::sqlite::dialect::NO_FENCE;
        }
        crate::db::sqlite::dialect::SQLITE.fence
    }

    pub(crate) fn ack_outside(&self) -> bool {
        #[cfg(feature = "testing")]
        return self.sabotage == Some(Sabotage::AckOutside);
        #[cfg(not(feature = "testing"))]
        false
    }
}

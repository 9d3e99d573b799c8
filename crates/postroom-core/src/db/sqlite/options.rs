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
    /// Everything that was acknowledged survives: each group of commits waits for the disk.
    #[default]
    Full,
    /// All but the last moments survive: acknowledged work may be lost in a power cut, but not in a crash of the
    /// program.
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

    crate::setters! {
        /// The name of the store in logs. The default is the name of the file.
        pub fn name(mut self, name: impl Into<String>) { self.name = name.into(); }

        /// The names of the tables.
        pub fn tables(mut self, tables: TableNames) { self.tables = tables; }

        /// What survives a power cut. The default is everything.
        pub fn durability(mut self, durability: Durability) { self.durability = durability; }

        /// Whether to create missing tables, and to carry older ones to the newest version. The default is no: then
        /// they must exist, with a version that this program works with.
        pub fn deploy_schema(mut self, deploy: bool) { self.deploy_schema = deploy; }

        /// Whether to create a missing file. The default is yes.
        pub fn create_file(mut self, create: bool) { self.create_file = create; }

        /// The clock that the store uses.
        pub fn clock(mut self, clock: Clock) { self.clock = clock; }

        /// Enqueues an event under this topic, in the same transaction, whenever a message becomes a dead letter.
        pub fn dead_letters(mut self, topic: impl Into<String>) { self.dead_letter_topic = Some(topic.into()); }

        /// How long the writer thread stays without work, at most. The default is 10 s. It starts again by itself, and
        /// ends sooner if it had little to do.
        pub fn idle(mut self, idle: Duration) { self.idle = idle; }

        /// Whether to watch the file for commits of other processes. The default is yes. Workers also poll.
        pub fn watch(mut self, watch: bool) { self.watch = watch; }

        /// Removes a guard, to show that a test notices it.
        #[cfg(feature = "testing")]
        pub fn sabotage(mut self, sabotage: Option<Sabotage>) { self.sabotage = sabotage; }
    }

    /// Examines the file without opening a store: what about it can lose messages or hold them up. Nothing is created
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

    /// The condition in every settle that checks that the lease is still held.
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

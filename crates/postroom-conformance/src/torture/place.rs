//! Where a run takes place: two databases, the producer's book, and what is written into them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use postroom::testing::Sabotage;
use postroom::{MessageId, SqliteOptions, SqliteStore};
use rusqlite::Connection;

/// Handled on the writer thread.
pub(crate) const TOPIC_BLOCKING: &str = "order.placed";
/// Handled by an async handler.
pub(crate) const TOPIC_ASYNC: &str = "order.audited";
/// The service the orders come from, and the one they go to.
pub(crate) const SOURCE: &str = "orders";
pub(crate) const DESTINATION: &str = "ledger";

const ORDERS_SCHEMA: &str = "
    CREATE TABLE orders (id INTEGER PRIMARY KEY, message_id TEXT NOT NULL) STRICT;
    CREATE TABLE stale_settles (seq INTEGER NOT NULL) STRICT;
    CREATE TRIGGER outbox_fence AFTER UPDATE OF state ON outbox_messages
    WHEN OLD.state = 1 AND NEW.state > 1 AND NEW.processed_by IS NOT OLD.owner
    BEGIN INSERT INTO stale_settles (seq) VALUES (NEW.seq); END;";

// No unique constraint on purpose: a second effect has to show.
const LEDGER_SCHEMA: &str = "
    CREATE TABLE effects (message_id TEXT NOT NULL, worker INTEGER NOT NULL, at INTEGER NOT NULL) STRICT;
    CREATE INDEX effects_message ON effects (message_id);
    CREATE TABLE stale_settles (seq INTEGER NOT NULL) STRICT;
    CREATE TRIGGER inbox_fence AFTER UPDATE OF state ON inbox_messages
    WHEN OLD.state = 1 AND NEW.state > 1 AND NEW.processed_by IS NOT OLD.owner
    BEGIN INSERT INTO stale_settles (seq) VALUES (NEW.seq); END;";

/// The folder of one run, and what was taken away from the library in it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    pub(crate) seed: u64,
    pub(crate) messages: u64,
    pub(crate) sabotage: Option<Sabotage>,
}

impl Place {
    pub(crate) fn orders_path(&self) -> PathBuf {
        self.dir.join("orders.db")
    }

    pub(crate) fn ledger_path(&self) -> PathBuf {
        self.dir.join("ledger.db")
    }

    pub(crate) fn book_path(&self) -> PathBuf {
        self.dir.join("book")
    }

    pub(crate) async fn orders(&self) -> Result<SqliteStore> {
        self.open(&self.orders_path(), false).await
    }

    pub(crate) async fn ledger(&self) -> Result<SqliteStore> {
        self.open(&self.ledger_path(), false).await
    }

    async fn open(&self, path: &Path, deploy: bool) -> Result<SqliteStore> {
        let options = SqliteOptions::new(path).deploy_schema(deploy).sabotage(self.sabotage);
        options.open().await.with_context(|| format!("cannot open {}", path.display()))
    }

    /// Creates both databases with their tables.
    pub(crate) fn create(&self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        for (path, schema) in [(self.orders_path(), ORDERS_SCHEMA), (self.ledger_path(), LEDGER_SCHEMA)] {
            let store = runtime.block_on(self.open(&path, true))?;
            runtime.block_on(store.write(|tx| Ok(tx.execute_batch(schema)?)))?;
        }
        Ok(())
    }

    /// The same order always has the same message id: placed again, it is recognised.
    pub(crate) fn message_id(&self, order: u64) -> Result<MessageId> {
        let mut random = fastrand::Rng::with_seed(self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ order);
        let uuid = uuid::Builder::from_random_bytes(random.u128(..).to_be_bytes()).into_uuid();
        Ok(MessageId::from_uuid(uuid)?)
    }
}

/// A connection of the crash test's own. It asks a busy database again at once: the children do so too.
pub(crate) fn connect(path: &Path) -> Result<Connection> {
    let conn = Connection::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    conn.busy_handler(Some(|tries| {
        super::pace::wait(Duration::from_micros(200));
        tries < 50_000
    }))?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    Ok(conn)
}

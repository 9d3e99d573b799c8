//! Where a run takes place: two databases, the producer's book, and what is written into them.

use std::path::{Path, PathBuf};

use anyhow::Result;
use postroom::testing::Sabotage;
use postroom::{MessageId, NewMessage};

use super::ground::{Base, Database, Ground, Order};

/// Handled on the writer thread, where there is one.
pub(crate) const TOPIC_BLOCKING: &str = "order.placed";
/// Handled by an async handler.
pub(crate) const TOPIC_ASYNC: &str = "order.audited";
/// The service the orders come from, and the one they go to.
pub(crate) const SOURCE: &str = "orders";
pub(crate) const DESTINATION: &str = "ledger";
/// Every so manieth order is for the async handler.
const ASYNC_EVERY: u64 = 10;

const ORDERS_SCHEMA: &str = "CREATE TABLE orders (id BIGINT PRIMARY KEY, message_id VARCHAR(36) NOT NULL)";

// No unique constraint on purpose: a second effect has to show.
const LEDGER_SCHEMA: &str = "
    CREATE TABLE effects (message_id VARCHAR(36) NOT NULL, worker BIGINT NOT NULL, at BIGINT NOT NULL);
    CREATE INDEX effects_message ON effects (message_id)";

const STALE_SETTLES: &str = "CREATE TABLE stale_settles (seq BIGINT NOT NULL)";

/// The folder of one run, the server if it has one, and what was taken away from the library.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    pub(crate) database: Database,
    /// The server's URL.
    pub(crate) server: Option<String>,
    pub(crate) seed: u64,
    pub(crate) messages: u64,
    /// How many lanes the orders take in turn; none at zero.
    pub(crate) lanes: u64,
    pub(crate) sabotage: Option<Sabotage>,
    /// Where the sender finds the receiver, when they are separate services.
    pub(crate) peer: Option<String>,
}

impl Place {
    /// The file of a database, where databases are files.
    pub(crate) fn path(&self, base: Base) -> PathBuf {
        self.dir.join(base.name()).with_extension("db")
    }

    /// Where the receiver listens.
    pub(crate) fn socket_path(dir: &Path) -> PathBuf {
        dir.join("wire").join("ledger.sock")
    }

    pub(crate) fn book_path(&self) -> PathBuf {
        self.dir.join("book")
    }

    /// Creates both databases with their tables.
    pub(crate) async fn create<G: Ground>(&self) -> Result<()> {
        G::create(self).await?;
        for (base, schema) in [(Base::Orders, ORDERS_SCHEMA), (Base::Ledger, LEDGER_SCHEMA)] {
            G::open(self, base, true).await?;
            let mut conn = G::connect(self, base).await?;
            for sql in [schema, STALE_SETTLES, &G::fence(base.queue())] {
                G::say(&mut conn, sql).await?;
            }
        }
        Ok(())
    }

    /// The same order always has the same message id: placed again, it is recognised.
    pub(crate) fn message_id(&self, order: u64) -> Result<MessageId> {
        let mut random = fastrand::Rng::with_seed(self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ order);
        let uuid = uuid::Builder::from_random_bytes(random.u128(..).to_be_bytes()).into_uuid();
        Ok(MessageId::from_uuid(uuid)?)
    }

    /// The next order of a lane is placed when the one before it is known to be stored, so their numbers are the order
    /// of their commits.
    pub(crate) fn lane(&self, order: u64) -> Option<u64> {
        order.checked_rem(self.lanes)
    }

    pub(crate) fn order(&self, number: u64) -> Result<Order> {
        let id = self.message_id(number)?;
        let topic = if number.is_multiple_of(ASYNC_EVERY) { TOPIC_ASYNC } else { TOPIC_BLOCKING };
        let message = NewMessage::new(topic, number.to_string()).id(id).to(DESTINATION);
        let message = message.lane(self.lane(number).map(|lane| format!("lane-{lane}")).unwrap_or_default());
        let insert = format!("INSERT INTO orders (id, message_id) VALUES ({number}, '{id}')");
        Ok(Order { number, message, insert })
    }
}

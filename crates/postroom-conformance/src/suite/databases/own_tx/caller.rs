//! A program with its own connection beside the store, with any driver.

use postroom::queue::{Enqueued, Lease};
use postroom::{Inbox, Incoming, NewMessage, Outbox};

use crate::harness::{Stage, Testable};

/// The program's own table.
pub(super) const ORDERS: &str = "CREATE TABLE IF NOT EXISTS orders (id INTEGER)";
pub(super) const ORDER: &str = "INSERT INTO orders VALUES (7)";
pub(super) const ORDERS_COUNT: &str = "SELECT count(*) FROM orders";

/// The program.
pub(super) trait Caller: Send + Sized {
    /// The database it shares with the store.
    type Backend: Testable;
    /// Its transaction: dropped without an end, it is rolled back.
    type Tx<'c>: CallersTx
    where
        Self: 'c;
    /// Takes the store's outbox away.
    const DROP_OUTBOX: &'static str;

    fn connect(stage: &Stage<Self::Backend>) -> impl Future<Output = anyhow::Result<Self>> + Send;

    fn begin(&mut self) -> impl Future<Output = anyhow::Result<Self::Tx<'_>>> + Send;

    /// Runs a statement of the program's own, outside any transaction.
    fn say(&mut self, sql: &'static str) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// How many orders are stored.
    fn orders(&mut self) -> impl Future<Output = anyhow::Result<i64>> + Send;
}

/// What the program does in its transaction.
pub(super) trait CallersTx: Send {
    /// Its own write.
    fn order(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;

    fn enqueue(
        &mut self,
        outbox: &Outbox,
        message: &NewMessage,
    ) -> impl Future<Output = postroom::Result<Enqueued>> + Send;

    fn accept(&mut self, inbox: &Inbox, incoming: &Incoming) -> impl Future<Output = postroom::Result<bool>> + Send;

    fn ack(
        &mut self,
        inbox: &Inbox,
        lease: &Lease,
        response: Option<&str>,
    ) -> impl Future<Output = postroom::Result<()>> + Send;

    fn commit(self) -> impl Future<Output = anyhow::Result<()>> + Send;

    fn roll_back(self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

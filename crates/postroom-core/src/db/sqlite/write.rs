//! The user's own writes on the writer thread: they share its fsync.

use std::sync::Arc;

use rusqlite::Connection;

use crate::db::sqlite::store::SqliteShared;
use crate::message::{Incoming, IntoMessage};
use crate::store::{Arrival, Stored};
use crate::support::error::Result;

/// A transaction on the writer thread. It derefs to a [`rusqlite::Connection`]; beginning or ending a transaction on it
/// is refused, because the work of others commits with it.
///
/// ```
/// use postroom::{NewMessage, Result};
/// use postroom::sqlite::{SqliteStore, WriteTx};
///
/// fn place(tx: &WriteTx<'_>, order: i64) -> Result<()> {
///     tx.execute("INSERT INTO orders (id) VALUES (?1)", [order])?;
///     tx.enqueue(NewMessage::new("order.placed", order.to_string()))?;
///     Ok(())
/// }
/// # async fn f(store: SqliteStore) -> Result<()> {
/// store.write(|tx| place(tx, 7)).await?;
/// # Ok(()) }
/// ```
pub struct WriteTx<'c> {
    pub(crate) conn: &'c Connection,
    pub(crate) core: &'c Arc<SqliteShared>,
}

impl WriteTx<'_> {
    /// Enqueues a message in the outbox, in this transaction.
    pub fn enqueue(&self, message: impl IntoMessage) -> Result<Stored> {
        self.core.enqueue_on(self.conn, &message.into_message()?)
    }

    /// Stores an arrived message in the inbox, in this transaction; the first content wins.
    pub fn accept(&self, incoming: &Incoming) -> Result<Arrival> {
        self.core.accept_on(self.conn, incoming)
    }
}

impl std::ops::Deref for WriteTx<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.conn
    }
}

impl std::fmt::Debug for WriteTx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteTx").field("path", &self.core.path).finish()
    }
}

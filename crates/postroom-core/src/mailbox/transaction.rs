//! A transaction that belongs to an outbox. Its commit wakes the workers.

use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};

use crate::mailbox::outbox::Outbox;
use crate::message::IntoMessage;
use crate::sql::Tx;
use crate::store::Stored;
use crate::support::error::Result;

/// Where an outbox can begin a transaction: a pool of the caller.
///
/// ```
/// use postroom::{NewMessage, Outbox};
/// use postroom::sql::Begin;
///
/// /// Works with every pool that Postroom supports.
/// async fn announce(outbox: &Outbox, pool: &impl Begin) -> postroom::Result<()> {
///     let mut tx = outbox.begin(pool).await?;
///     tx.enqueue(NewMessage::new("shop.opened", "{}")).await?;
///     tx.commit().await
/// }
/// ```
pub trait Begin: Sync {
    /// The driver's transaction. Dropping it rolls back.
    type Tx: Commit;

    /// Begins a transaction that will write.
    fn begin(&self) -> impl Future<Output = Result<Self::Tx>> + Send;
}

/// A driver's transaction, which can commit or roll back.
///
/// ```
/// use postroom::{NewMessage, Result};
/// use postroom::queue::Stored;
/// use postroom::sql::{Commit, OutboxTx};
///
/// async fn told<T: Commit>(mut tx: OutboxTx<T>) -> Result<Stored> {
///     let stored = tx.enqueue(NewMessage::new("shop.opened", "{}")).await?;
///     tx.commit().await?;
///     Ok(stored)
/// }
/// ```
pub trait Commit: Tx + Sized {
    /// Commits the transaction.
    fn commit(self) -> impl Future<Output = Result<()>> + Send;

    /// Rolls back, and waits until that is done.
    fn roll_back(self) -> impl Future<Output = Result<()>> + Send;
}

/// A transaction of the caller that an outbox began: [`Outbox::begin`]. It derefs to the connection, for the caller's
/// own statements. Its commit wakes the workers. Dropping it rolls back and wakes nobody.
///
/// ```no_run
/// # async fn f(outbox: postroom::Outbox, pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use postroom::NewMessage;
///
/// let mut tx = outbox.begin(&pool).await?;
/// sqlx::query("INSERT INTO orders (id) VALUES ($1)").bind(7_i64).execute(&mut *tx).await?;
/// tx.enqueue(NewMessage::new("order.placed", "7")).await?;
/// tx.commit().await?; // both are stored, or neither; then the workers are woken
/// # Ok(()) }
/// ```
#[must_use = "it is rolled back unless it is committed"]
pub struct OutboxTx<T> {
    tx: T,
    outbox: Outbox,
    /// Whether the commit must wake workers.
    has_news: bool,
}

impl Outbox {
    /// Begins a transaction in the caller's pool: a `PgPool`, `MySqlPool` or `SqlitePool` of sqlx, connected to the
    /// database of this outbox's store. On SQLite it gets the right to write at once (BEGIN IMMEDIATE).
    pub async fn begin<P: Begin>(&self, pool: &P) -> Result<OutboxTx<P::Tx>> {
        Ok(OutboxTx::new(self, pool.begin().await?))
    }
}

impl<T> OutboxTx<T> {
    pub(crate) fn new(outbox: &Outbox, tx: T) -> Self {
        Self { tx, outbox: outbox.clone(), has_news: false }
    }

    /// Returns the driver's transaction, and a function to call after its commit. Call it even if the commit failed:
    /// the commit may have succeeded although its answer was lost.
    pub(crate) fn parts(self) -> (T, impl FnOnce()) {
        let (has_news, outbox) = (self.has_news, self.outbox);
        (self.tx, move || {
            if has_news {
                outbox.wake().ring_everywhere();
            }
        })
    }

    /// Returns what the next statement needs: the outbox that creates it, and the transaction that runs it.
    pub(crate) fn enqueuing(&mut self) -> (&Outbox, &mut T) {
        self.has_news = true;
        (&self.outbox, &mut self.tx)
    }
}

impl<T: Commit> OutboxTx<T> {
    /// Stores a message in the outbox, in this transaction.
    pub async fn enqueue(&mut self, message: impl IntoMessage) -> Result<Stored> {
        let message = message.into_message()?;
        let (outbox, tx) = self.enqueuing();
        outbox.store_in(tx, &message).await
    }

    /// Commits, and then wakes the workers.
    pub async fn commit(self) -> Result<()> {
        let (tx, wake) = self.parts();
        let committed = tx.commit().await;
        wake();
        committed
    }

    /// Rolls back, and waits until that is done. Dropping the transaction rolls back too, at the latest when its
    /// connection is used again.
    pub async fn rollback(self) -> Result<()> {
        self.tx.roll_back().await
    }
}

impl<T: Deref> Deref for OutboxTx<T> {
    type Target = T::Target;

    fn deref(&self) -> &T::Target {
        &self.tx
    }
}

impl<T: DerefMut> DerefMut for OutboxTx<T> {
    fn deref_mut(&mut self) -> &mut T::Target {
        &mut self.tx
    }
}

impl<T> fmt::Debug for OutboxTx<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxTx").field("outbox", &self.outbox).finish_non_exhaustive()
    }
}

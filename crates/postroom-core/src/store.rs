//! What a store must do. The doors ([`Outbox`](crate::Outbox), [`Inbox`](crate::Inbox)) check arguments and tell what
//! happened; a store only stores.

#[cfg(any(feature = "testing", test))]
pub(crate) mod sabotage;

pub(crate) mod admission;
pub(crate) mod audit;
pub(crate) mod failed;
pub(crate) mod filter;
pub(crate) mod holding;
pub(crate) mod holds;
pub(crate) mod marks;
pub(crate) mod memory;
pub(crate) mod operator;
#[cfg(any(feature = "sqlite", feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
pub(crate) mod outage;
pub mod questions;
pub(crate) mod record;
pub(crate) mod revival;
pub(crate) mod sql;
pub(crate) mod stored;
pub(crate) mod times;
pub(crate) mod wake;

pub use admission::Admission;
pub use audit::{Act, Audited};
pub(crate) use audit::{Deed, Operation};
pub use failed::{ERROR_GROUP_CHARS, Failed, FailedGroup};
pub use filter::Filter;
pub(crate) use holding::{Held, Holding};
pub use holds::Hold;
pub(crate) use holds::HoldChange;
pub use marks::{HandledMark, HandledMarks, Marked};
pub use memory::MemoryStore;
pub use operator::Operator;
use questions::Questions;
pub use record::{Failure, QueueStats, Record};
pub use revival::Revival;
pub use stored::{Arrival, Stored};
pub use times::Times;
pub use wake::{Wake, WakeListener};

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::message::{ContentHash, InboxKey, Incoming, NewMessage};
use crate::queue::{ClaimRequest, Claims, Lease, Queue, Reaped, Settle, Settled, State};
use crate::sql::Statement;
use crate::support::clock::Clock;
use crate::support::error::Result;

/// A future that can be stored and sent.
///
/// ```
/// use postroom::Message;
/// use postroom::store::BoxFuture;
/// use postroom::worker::{Delivery, Transport};
///
/// struct Printer;
///
/// impl Transport for Printer {
///     fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
///         Box::pin(async move {
///             println!("{}", message.topic);
///             Delivery::Accepted { response: None }
///         })
///     }
/// }
/// ```
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The contract of a backend. Each call is one transaction: all of it is stored when it returns, or nothing.
///
/// Call it through the doors ([`Outbox`](crate::Outbox), [`Inbox`](crate::Inbox)): they check the arguments and tell
/// what happened; a store only stores.
///
/// Implemented by the stores of this crate; its shape may change in any release.
///
/// ```
/// use std::sync::Arc;
/// use postroom::{Inbox, Outbox};
/// use postroom::store::{MemoryStore, Store};
///
/// // Whatever the database is: the two doors of one store.
/// fn doors(store: Arc<dyn Store>) -> (Outbox, Inbox) {
///     (Outbox::of(store.clone()), Inbox::of(store))
/// }
///
/// let (outbox, _) = doors(Arc::new(MemoryStore::new().named("shop")));
/// assert_eq!(outbox.queue().store_name(), "shop");
/// ```
pub trait Store: Questions + Times + fmt::Debug + Send + Sync + 'static {
    /// What this store is called in logs.
    fn name(&self) -> &str;

    /// The clock that judges due times, leases and retention.
    fn clock(&self) -> &Clock;

    /// Where workers hear that rows came in.
    fn wake(&self, queue: Queue) -> &Wake;

    #[doc(hidden)]
    /// What workers of this process hold: their leases are never taken for ones that ran out.
    fn holding(&self, queue: Queue) -> &Holding;

    /// Stores new messages; says of each whether it is new.
    fn enqueue(&self, messages: Vec<NewMessage>) -> BoxFuture<'_, Result<Vec<Stored>>>;

    /// Takes ready rows under a lease. Frees rows whose lease ran out and expires what is past its time on the way.
    fn claim(&self, queue: Queue, request: ClaimRequest) -> BoxFuture<'_, Result<Claims>>;

    /// Ends leases. A lease that is lost changes nothing and is counted.
    fn settle(&self, queue: Queue, settles: Arc<Vec<Settle>>) -> BoxFuture<'_, Result<Settled>>;

    /// Makes leases last until `lease` from now; says of each whether it still held.
    fn extend(&self, queue: Queue, leases: Vec<Lease>, lease: Duration) -> BoxFuture<'_, Result<Vec<bool>>>;

    /// Frees up to `limit` rows whose lease ran out.
    fn reap(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<Reaped>>;

    /// Expires up to `limit` ready rows that are past their time.
    fn expire(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<u64>>;

    /// Expires up to `limit` dead rows that are past their time, without loading what they hold.
    fn expire_dead(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<u64>>;

    /// Deletes up to `limit` rows that have been in that state for longer than `retention`: done, dead, expired,
    /// dismissed, or seen and not seen again since. Rows in other states are never deleted.
    fn purge(&self, queue: Queue, state: State, retention: Duration, limit: usize) -> BoxFuture<'_, Result<u64>>;

    #[doc(hidden)]
    /// What an operator does, and its entry in the audit trail: in one transaction.
    fn change(&self, queue: Queue, change: Operation, deed: Deed) -> BoxFuture<'_, Result<u64>>;

    /// The audit trail, from the newest entry back.
    fn audit(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<Vec<Audited>>>;

    /// Checks whether a message was handled before, and remembers that it was seen.
    fn see(&self, key: InboxKey, hash: Option<ContentHash>) -> BoxFuture<'_, Result<Sighting>>;

    /// Enqueues a message that arrived.
    fn put(&self, incoming: Incoming, mode: PutMode) -> BoxFuture<'_, Result<Arrival>>;

    /// Refuses a message that arrived for good: who sends it again is told the same.
    fn refuse(&self, incoming: Incoming, why: String) -> BoxFuture<'_, Result<Admission>>;

    /// Moves an inbox row by hand; false when there is none or it is done. A dismissed one can only become done.
    fn mark(&self, key: InboxKey, mark: ManualMove) -> BoxFuture<'_, Result<bool>>;

    /// The rows known by that id: at most one in the inbox, one for each destination in the outbox.
    fn find(&self, id: Identity) -> BoxFuture<'_, Result<Vec<Record>>>;

    /// Rows, in the order of their numbers.
    fn list(&self, queue: Queue, filter: Filter) -> BoxFuture<'_, Result<Vec<Record>>>;

    /// What went wrong with a row, oldest first, as far back as it is kept.
    fn failures(&self, queue: Queue, seq: i64) -> BoxFuture<'_, Result<Vec<Failure>>>;

    /// What became a dead letter, in the order of its rows, without what it holds. Only dead and expired rows are meant, or
    /// dismissed ones if the filter asks for them.
    fn failed(&self, queue: Queue, filter: Filter) -> BoxFuture<'_, Result<Vec<Failed>>>;

    /// What became a dead letter, by topic, other service and the beginning of the error: from the newest row back, until there
    /// are `rows` in one of the two states. What came last is the newest, whenever it became a dead letter.
    fn failed_groups(&self, queue: Queue, rows: usize) -> BoxFuture<'_, Result<Vec<FailedGroup>>>;

    #[doc(hidden)]
    /// Writes down which places a worker holds, and which no longer.
    fn hold(&self, queue: Queue, change: HoldChange) -> BoxFuture<'_, Result<()>>;

    /// Places that workers hold, and how many messages wait for each.
    fn holds(&self, queue: Queue) -> BoxFuture<'_, Result<Vec<Hold>>>;

    /// How many rows [`Store::expire`] would expire; not counted beyond `limit`.
    fn overdue(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<u64>>;

    /// How many done rows [`Store::purge`] would delete; not counted beyond `limit`.
    fn purgeable(&self, queue: Queue, retention: Duration, limit: usize) -> BoxFuture<'_, Result<u64>>;

    /// How many rows are in each state.
    fn stats(&self, queue: Queue) -> BoxFuture<'_, Result<QueueStats>>;

    /// How many rows wait or are worked on: cheap enough to ask often.
    fn backlog(&self, queue: Queue) -> BoxFuture<'_, Result<u64>>;

    /// How many rows there are in the inbox, whatever their state; estimated when there are many.
    fn inbox_size(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move { Ok(self.stats(Queue::Inbox).await?.total()) })
    }

    /// The statement that stores a message, for the caller's own transaction.
    fn insert_statement(&self, message: &NewMessage) -> Result<Statement>;

    /// The statement that enqueues a message that arrived, for the caller's own transaction.
    fn accept_statement(&self, incoming: &Incoming) -> Result<Statement>;

    /// The statement that acknowledges, for the caller's own transaction.
    fn ack_statement(&self, queue: Queue, lease: &Lease, response: Option<&str>) -> Result<Statement>;

    /// Takes the store's maintenance for this interval; false when another worker has it.
    fn take_maintenance(&self, interval: Duration) -> BoxFuture<'_, Result<bool>>;

    /// Whether the tables are still those that this program was written for.
    fn check_schema(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    #[doc(hidden)]
    /// What the store looks like from outside, without a call to the database; none where that cannot be told, or not
    /// yet for sure. While it stays the same nothing was committed, so that an idle worker need not ask.
    fn fingerprint(&self) -> Option<Fingerprint> {
        None
    }

    /// Lets go of files and connections, once the calls that are under way are answered.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// What a store looks like from outside: another one after every commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint(pub(crate) [u64; 5]);

/// What the inbox knew of a message.
///
/// ```
/// use postroom::InboxKey;
/// use postroom::message::hash_bytes;
/// use postroom::store::{MemoryStore, Store};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let (store, key) = (MemoryStore::new(), InboxKey::new("stripe", "evt_1")?);
/// store.see(key.clone(), Some(hash_bytes("1").into())).await?;
/// let again = store.see(key, Some(hash_bytes("2").into())).await?;
/// assert!(!again.done && again.hash_differs);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Sighting {
    /// It was handled before.
    pub done: bool,
    /// It came with another hash than the first time.
    pub hash_differs: bool,
}

/// What to do with a message whose key is known.
///
/// ```
/// use postroom::{InboxKey, Incoming};
/// use postroom::store::{Arrival, MemoryStore, PutMode, Store};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let incoming = Incoming::new(InboxKey::new("stripe", "evt_1")?, "payment.received", "{}");
/// assert_eq!(MemoryStore::new().put(incoming, PutMode::FirstWins).await?, Arrival::First);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PutMode {
    /// Other content replaces the stored one, unless it is done.
    Replace,
    /// The first content wins.
    FirstWins,
}

/// Where to move an inbox row by hand.
///
/// ```
/// use postroom::InboxKey;
/// use postroom::store::{ManualMove, MemoryStore, Store};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let (store, key) = (MemoryStore::new(), InboxKey::new("stripe", "evt_1")?);
/// store.see(key.clone(), None).await?;
/// assert!(store.mark(key.clone(), ManualMove::Processing).await?);
/// assert!(store.mark(key, ManualMove::Processed).await?);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ManualMove {
    /// Somebody handles it outside the queue.
    Processing,
    /// It was handled.
    Processed,
    /// It is given up.
    Dead {
        /// Why.
        error: Option<String>,
    },
}

/// What rows are looked up by.
///
/// ```
/// use postroom::InboxKey;
/// use postroom::store::{Identity, MemoryStore, Store};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let id = Identity::Inbox(InboxKey::new("stripe", "evt_1")?);
/// assert!(MemoryStore::new().find(id).await?.is_empty());
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Identity {
    /// A message or work item of the outbox.
    Outbox(uuid::Uuid),
    /// A message of the inbox.
    Inbox(InboxKey),
}

/// So many failures are kept for each message.
pub(crate) const FAILURES_KEPT: usize = 20;

#[cfg(test)]
fn _is_object_safe(_: std::sync::Arc<dyn Store>) {}

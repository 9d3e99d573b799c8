//! What a store must do. [`Outbox`](crate::Outbox) and [`Inbox`](crate::Inbox) check the arguments and report what
//! happened; a store only stores.

#[cfg(any(feature = "testing", test))]
pub(crate) mod sabotage;

pub(crate) mod admission;
pub(crate) mod audit;
pub(crate) mod cancel;
pub(crate) mod failed;
pub(crate) mod filter;
pub(crate) mod holding;
pub(crate) mod holds;
pub(crate) mod lanes;
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
pub(crate) mod unique;
pub(crate) mod wake;

pub use admission::Admission;
pub use audit::{Act, Audited};
pub(crate) use audit::{Deed, Operation};
pub use cancel::{Cancelled, CancelledLane};
pub(crate) use cancel::{LaneStep, LaneStepped, Stop, Target};
pub use failed::{ERROR_GROUP_CHARS, Failed, FailedGroup};
pub use filter::Filter;
pub(crate) use holding::{Held, Holding};
pub use holds::Hold;
pub(crate) use holds::HoldChange;
pub use lanes::{FirstInLane, Lane, LanePlace, Lanes};
pub use marks::{HandledMark, HandledMarks, Marked};
pub use memory::MemoryStore;
pub use operator::Operator;
use questions::Questions;
pub use record::{Failure, QueueStats, Record};
pub use revival::Revival;
pub use stored::{Arrival, Stored};
pub use times::Times;
pub(crate) use wake::News;
pub use wake::{Wake, WakeListener};

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::message::{ContentHash, InboxKey, Incoming, NewMessage, WorkItemId};
use crate::queue::{ClaimRequest, Claims, Lease, Queue, Reaped, Rule, Settle, Settled, State};
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

/// The contract of a backend. Each call is one transaction: all of it is stored when the call returns, or nothing.
///
/// Call it through [`Outbox`](crate::Outbox) and [`Inbox`](crate::Inbox). They check the arguments and report what
/// happened; a store only stores.
///
/// Implemented by the stores of this crate; its shape may change in any release.
///
/// ```
/// use std::sync::Arc;
/// use postroom::{Inbox, Outbox};
/// use postroom::store::{MemoryStore, Store};
///
/// // The outbox and the inbox of a store, on any database.
/// fn doors(store: Arc<dyn Store>) -> (Outbox, Inbox) {
///     (Outbox::of(store.clone()), Inbox::of(store))
/// }
///
/// let (outbox, _) = doors(Arc::new(MemoryStore::new().named("shop")));
/// assert_eq!(outbox.queue().store_name(), "shop");
/// ```
pub trait Store: Questions + Times + fmt::Debug + Send + Sync + 'static {
    /// Returns the name of this store in logs.
    fn name(&self) -> &str;

    /// Returns the clock for due times, leases and retention.
    fn clock(&self) -> &Clock;

    /// Returns the signal that wakes workers for new rows.
    fn wake(&self, queue: Queue) -> &Wake;

    #[doc(hidden)]
    /// Returns whether messages of one lane are handled in order.
    fn keeps_lanes(&self) -> bool {
        true
    }

    #[doc(hidden)]
    /// Notices that messages of lanes were settled: others have their turn now.
    fn lanes_settled(&self, queue: Queue) {
        self.wake(queue).ring();
    }

    #[doc(hidden)]
    /// Returns the rows that workers of this process hold. Their leases never count as run out.
    fn holding(&self, queue: Queue) -> &Holding;

    /// Stores new messages. Returns for each whether it is new.
    fn enqueue(&self, messages: Vec<NewMessage>) -> BoxFuture<'_, Result<Vec<Stored>>>;

    /// Claims ready rows under a lease. It also reaps rows whose lease ran out, and expires rows past their time to
    /// live.
    fn claim(&self, queue: Queue, request: ClaimRequest) -> BoxFuture<'_, Result<Claims>>;

    /// Settles leases. A lost lease is counted and changes nothing.
    fn settle(&self, queue: Queue, settles: Arc<Vec<Settle>>) -> BoxFuture<'_, Result<Settled>>;

    /// Renews leases until `lease` from now. Returns for each lease whether it was still held.
    fn extend(&self, queue: Queue, leases: Vec<Lease>, lease: Duration) -> BoxFuture<'_, Result<Vec<bool>>>;

    /// Returns up to `limit` rows whose lease ran out to the queue.
    fn reap(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<Reaped>>;

    /// Expires up to `limit` ready rows that are past their time to live.
    fn expire(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<u64>>;

    /// Expires up to `limit` dead rows that are past their time to live, without loading their content.
    fn expire_dead(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<u64>>;

    /// Deletes up to `limit` rows that have been in that state for longer than `retention`: done, dead, expired,
    /// dismissed, or seen and not seen again since. Rows in other states are never deleted.
    fn purge(&self, queue: Queue, state: State, retention: Duration, limit: usize) -> BoxFuture<'_, Result<u64>>;

    /// Drops the payloads of about `limit` more messages of the inbox that were done longer ago than `retention`.
    /// Returns how many payloads were dropped, or `None` if there are no such messages. Their keys, hashes and answers
    /// stay. Payloads of up to 1 kB stay too.
    fn drop_payloads(&self, retention: Duration, limit: usize) -> BoxFuture<'_, Result<Option<u64>>>;

    #[doc(hidden)]
    /// Applies an operator's change and adds its entry to the audit trail, in one transaction.
    fn change(&self, queue: Queue, change: Operation, deed: Deed) -> BoxFuture<'_, Result<u64>>;

    #[doc(hidden)]
    /// Cancels a message. On behalf of an operator, it adds an entry to the audit trail.
    fn cancel(&self, queue: Queue, target: Target, deed: Option<Deed>) -> BoxFuture<'_, Result<Cancelled>>;

    #[doc(hidden)]
    /// Does the same to some messages of a lane.
    fn cancel_lane(&self, queue: Queue, step: LaneStep, deed: Option<Deed>) -> BoxFuture<'_, Result<LaneStepped>>;

    #[doc(hidden)]
    /// Returns the messages in progress that are to stop.
    fn stops(&self, queue: Queue) -> BoxFuture<'_, Result<Vec<Stop>>>;

    #[doc(hidden)]
    /// Returns the message that has a unique key, or had it last.
    fn holder(&self, key: String) -> BoxFuture<'_, Result<Option<WorkItemId>>>;

    #[doc(hidden)]
    /// Forgets up to `limit` unique keys that no message has any more. Returns how many it looked at.
    fn sweep_keys(&self, limit: usize) -> BoxFuture<'_, Result<u64>>;

    #[doc(hidden)]
    /// Forgets about those that have ended.
    fn sweep_stops(&self, queue: Queue) -> BoxFuture<'_, Result<()>>;

    /// Returns the audit trail, newest entry first.
    fn audit(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<Vec<Audited>>>;

    /// Returns whether a message was handled before, and records that it was seen.
    fn see(&self, key: InboxKey, hash: Option<ContentHash>) -> BoxFuture<'_, Result<Sighting>>;

    /// Enqueues a message that arrived.
    fn put(&self, incoming: Incoming, mode: PutMode) -> BoxFuture<'_, Result<Arrival>>;

    /// Refuses an incoming message for good. If it is sent again, the sender gets the same answer.
    fn refuse(&self, incoming: Incoming, why: String) -> BoxFuture<'_, Result<Admission>>;

    /// Moves an inbox row by hand. Returns false if there is none or it is done. A dismissed row can only become done.
    fn mark(&self, key: InboxKey, mark: ManualMove) -> BoxFuture<'_, Result<bool>>;

    /// Returns the rows with that id: at most one in the inbox, one for each destination in the outbox.
    fn find(&self, id: Identity) -> BoxFuture<'_, Result<Vec<Record>>>;

    /// Returns rows, in the order of their numbers.
    fn list(&self, queue: Queue, filter: Filter) -> BoxFuture<'_, Result<Vec<Record>>>;

    /// Returns the failures of a row, oldest first, as far back as they are kept.
    fn failures(&self, queue: Queue, seq: i64) -> BoxFuture<'_, Result<Vec<Failure>>>;

    /// Returns dead letters without their content, in the order of their rows. These are dead and expired rows, or
    /// dismissed ones if the filter asks for them.
    fn failed(&self, queue: Queue, filter: Filter) -> BoxFuture<'_, Result<Vec<Failed>>>;

    /// Groups dead letters by topic, other service and the start of the error. It starts at the newest row and stops
    /// after `rows` rows in one of the two states. The newest row is the one that was stored last, whenever it became a
    /// dead letter.
    fn failed_groups(&self, queue: Queue, rows: usize) -> BoxFuture<'_, Result<Vec<FailedGroup>>>;

    #[doc(hidden)]
    /// Records the places that a worker holds, and those that it no longer holds.
    fn hold(&self, queue: Queue, change: HoldChange) -> BoxFuture<'_, Result<()>>;

    /// Returns the places that workers hold, and how many messages wait for each.
    fn holds(&self, queue: Queue) -> BoxFuture<'_, Result<Vec<Hold>>>;

    /// Returns what operators set for the queue and for parts of it.
    fn rules(&self, queue: Queue) -> BoxFuture<'_, Result<Vec<Rule>>>;

    /// Returns how many rows [`Store::expire`] would expire, counted up to `limit`.
    fn overdue(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<u64>>;

    /// Returns how many done rows [`Store::purge`] would delete, counted up to `limit`.
    fn purgeable(&self, queue: Queue, retention: Duration, limit: usize) -> BoxFuture<'_, Result<u64>>;

    /// Returns how many rows are in each state.
    fn stats(&self, queue: Queue) -> BoxFuture<'_, Result<QueueStats>>;

    /// Returns how many rows wait or are in progress. It is cheap enough to call often.
    fn backlog(&self, queue: Queue) -> BoxFuture<'_, Result<u64>>;

    /// Returns the number of rows in the inbox, in any state. It is an estimate if there are many.
    fn inbox_size(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move { Ok(self.stats(Queue::Inbox).await?.total()) })
    }

    /// Returns the statement that stores a message, for the caller's own transaction.
    fn insert_statement(&self, message: &NewMessage) -> Result<Statement>;

    /// Returns the statement that enqueues an incoming message, for the caller's own transaction.
    fn accept_statement(&self, incoming: &Incoming) -> Result<Statement>;

    /// Returns the statement that acknowledges, for the caller's own transaction.
    fn ack_statement(&self, queue: Queue, lease: &Lease, response: Option<&str>) -> Result<Statement>;

    /// Takes the store's maintenance for this interval. Returns false if another worker has it.
    fn take_maintenance(&self, interval: Duration) -> BoxFuture<'_, Result<bool>>;

    /// Checks that the tables still have the version that this program was written for.
    fn check_schema(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    #[doc(hidden)]
    /// Returns a fingerprint of the store without a call to the database, or `None` if there is none, or no reliable
    /// one yet. While it stays the same, nothing was committed, so an idle worker need not query.
    fn fingerprint(&self) -> Option<Fingerprint> {
        None
    }

    /// Closes files and connections after the calls in progress have been answered.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// A fingerprint of a store. It changes with every commit.
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
    /// The message was handled before.
    pub done: bool,
    /// The message arrived with a different hash than the first time.
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
    /// New content replaces the stored content, unless the message is done.
    Replace,
    /// The first content stays.
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
    /// The message is being handled outside the queue.
    Processing,
    /// The message was handled.
    Processed,
    /// The message is dead.
    Dead {
        /// The reason.
        error: Option<String>,
    },
}

/// The id by which rows are looked up.
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

/// How many failures are kept for each message.
pub(crate) const FAILURES_KEPT: usize = 20;

#[cfg(test)]
fn _is_object_safe(_: std::sync::Arc<dyn Store>) {}

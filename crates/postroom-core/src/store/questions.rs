//! What operators can ask about a running queue: what came and went last, what waits, and what happened since.

use std::fmt;

use crate::message::InboxKey;
use crate::queue::{Cause, Queue, State};
use crate::store::{BoxFuture, LanePlace, Lanes};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

/// The questions that a store answers for operators. None of them changes anything. Each reads a bounded number of
/// rows, unless its description says otherwise.
///
/// Implemented by the stores of this crate; its shape may change in any release. [`WorkQueue`](crate::WorkQueue) has
/// the same questions about one queue.
///
/// ```
/// use postroom::questions::Questions;
/// use postroom::queue::Queue;
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = MemoryStore::new();
/// assert_eq!(store.newest(Queue::Outbox).await?.row, None);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
pub trait Questions: Send + Sync {
    /// Returns the keys of the inbox that match a text: a message's id, or its source, a slash and its id. Searches the
    /// whole inbox.
    fn keys_of(&self, id: String) -> BoxFuture<'_, Result<Vec<InboxKey>>>;

    /// Returns the last row, the last failure, and when the last message was finished in each state.
    fn newest(&self, queue: Queue) -> BoxFuture<'_, Result<Newest>>;

    /// Returns when workers last did something.
    fn activity(&self, queue: Queue) -> BoxFuture<'_, Result<Activity>>;

    /// Returns how many ready messages are claimed before the one with this `visible_at` and number, counted up to
    /// `limit`.
    fn ahead_of(&self, queue: Queue, visible_at: Timestamp, seq: i64, limit: usize) -> BoxFuture<'_, Result<u64>>;

    /// Returns how many messages arrived and were done in a time span, from the newest `rows` rows of each.
    fn flow(&self, queue: Queue, from: Timestamp, until: Timestamp, rows: usize) -> BoxFuture<'_, Result<Flow>>;

    /// Counts ready or dead messages by topic and other service. It reads at most `rows` rows; ready ones from the
    /// front of the queue. Other states have no count.
    fn tally(&self, queue: Queue, state: State, rows: usize) -> BoxFuture<'_, Result<Vec<Tally>>>;

    /// Returns the last failed attempts, newest first.
    fn last_failures(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<Vec<LastFailure>>>;

    /// Returns up to `limit` occurrences after a place, in order, and those that were skipped before.
    fn occurrences(&self, queue: Queue, request: OccurrencesAfter) -> BoxFuture<'_, Result<Vec<Occurrence>>>;

    /// Returns how many messages to a service were done at that time or later. Counts all of them.
    fn count_delivered(&self, destination: String, since: Timestamp) -> BoxFuture<'_, Result<u64>>;

    /// Returns the number of the last of the next `limit` of these messages after a row, or `None` if there are none.
    fn delivered_up_to(
        &self,
        destination: String,
        since: Timestamp,
        after: i64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Option<i64>>>;

    /// Returns the deepest lanes, the blocked ones, and how many there are. [`Lanes`] says what is looked at.
    fn lanes(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<Lanes>>;

    /// Returns where the message of this row stands in its lane, or `None` if it is in none.
    fn lane_of(&self, queue: Queue, seq: i64) -> BoxFuture<'_, Result<Option<LanePlace>>>;
}

/// The end of a queue: its last row, its last failure, and the times of the last finished messages.
///
/// ```
/// use postroom::{NewMessage, Outbox};
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// outbox.enqueue(NewMessage::new("order.placed", "{}")).await?;
/// let newest = outbox.queue().newest().await?;
/// assert!(newest.row.is_some() && newest.created_at.is_some() && newest.done_at.is_none());
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Newest {
    /// The number of the last row.
    pub row: Option<i64>,
    /// When it was written.
    pub created_at: Option<Timestamp>,
    /// The number of the last failure.
    pub failure: Option<i64>,
    /// When the last message was done.
    pub done_at: Option<Timestamp>,
    /// When the last message became dead.
    pub dead_at: Option<Timestamp>,
    /// When the last message expired.
    pub expired_at: Option<Timestamp>,
    /// When the last message was dismissed.
    pub dismissed_at: Option<Timestamp>,
}

impl Newest {
    /// Returns when the last message entered that state, or `None` if no message is finished in it.
    pub fn finished_at(&self, state: State) -> Option<Timestamp> {
        match state {
            State::Done => self.done_at,
            State::Dead => self.dead_at,
            State::Expired => self.expired_at,
            State::Dismissed => self.dismissed_at,
            _ => None,
        }
    }

    /// Returns when something was last written or finished.
    pub fn at(&self) -> Option<Timestamp> {
        let finished = State::FINISHED.into_iter().map(|state| self.finished_at(state));
        finished.fold(self.created_at, Option::max)
    }
}

/// The last activity of workers.
///
/// ```
/// use postroom::Outbox;
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let activity = Outbox::new(MemoryStore::new()).queue().activity().await?;
/// assert_eq!((activity.held, activity.at()), (0, None));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Activity {
    /// How many messages have a valid lease, counted up to [`Activity::HELD_MAX`].
    pub held: u64,
    /// When the last of these was claimed.
    pub claimed_at: Option<Timestamp>,
    /// When the last message was done.
    pub done_at: Option<Timestamp>,
    /// When an attempt last failed.
    pub failed_at: Option<Timestamp>,
    /// When a worker last took the store's maintenance.
    pub maintained_at: Option<Timestamp>,
}

impl Activity {
    /// The most leases that are counted.
    pub const HELD_MAX: usize = 1000;

    /// Returns when a message was last claimed, done or failed.
    pub fn at(&self) -> Option<Timestamp> {
        self.claimed_at.max(self.done_at).max(self.failed_at)
    }
}

/// How many messages arrived and were done in a time span.
///
/// ```
/// use std::time::Duration;
/// use postroom::{NewMessage, Outbox};
/// use postroom::store::{MemoryStore, Store};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = MemoryStore::new();
/// let outbox = Outbox::new(store.clone());
/// outbox.enqueue(NewMessage::new("order.placed", "{}")).await?;
/// let now = store.clock().now();
/// let flow = outbox.queue().flow(now.minus(Duration::from_secs(10)), now, 1000).await?;
/// assert_eq!((flow.arrived.messages, flow.done.messages), (1, 0));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Flow {
    /// Messages that were written.
    pub arrived: Passed,
    /// Messages that were done.
    pub done: Passed,
}

/// How many messages passed in a time span.
///
/// ```
/// use postroom::questions::Passed;
///
/// assert_eq!(Passed::default().messages, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Passed {
    /// The number of messages.
    pub messages: u64,
    /// When the first of them passed.
    pub first_at: Option<Timestamp>,
}

/// The number of messages with the same topic and the same other service.
///
/// ```
/// use postroom::{NewMessage, Outbox};
/// use postroom::queue::State;
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// outbox.enqueue(NewMessage::new("order.placed", "{}").to("billing")).await?;
/// let tally = outbox.queue().tally(State::Ready, 1000).await?;
/// assert_eq!((tally[0].party.as_deref(), tally[0].messages), (Some("billing"), 1));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Tally {
    /// Their topic; `None` if it cannot be read.
    pub topic: Option<String>,
    /// Their destination or their source.
    pub party: Option<String>,
    /// The number of messages.
    pub messages: u64,
}

/// A failed attempt, and the topic of its message.
///
/// ```
/// use postroom::Outbox;
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// for failure in outbox.queue().last_failures(5).await? {
///     println!("{} {} failed: {:?}", failure.at, failure.topic.unwrap_or_default(), failure.cause);
/// }
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastFailure {
    /// When the attempt failed.
    pub at: Timestamp,
    /// The topic of its message; `None` if it cannot be read.
    pub topic: Option<String>,
    /// The number of the attempt.
    pub attempt: u32,
    /// The cause, as a code; `None` if another program, perhaps a newer one, wrote it.
    pub cause: Option<Cause>,
    /// The cause, in words.
    pub error: Option<String>,
}

// Error texts are the user's data, so they are never printed.
impl fmt::Debug for LastFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastFailure").field("at", &self.at).field("cause", &self.cause).finish_non_exhaustive()
    }
}

/// Selects occurrences.
///
/// ```
/// use postroom::questions::{OccurrencesAfter, Place};
///
/// let request = OccurrencesAfter::new(Place::Row { number: 7, skipped: vec![5] }, 100).with_payload(true);
/// assert_eq!((request.limit, request.with_payload), (100, true));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OccurrencesAfter {
    /// Only what happened after this place.
    pub place: Place,
    /// The most occurrences, apart from those that were skipped.
    pub limit: usize,
    /// Whether the payloads are included.
    pub with_payload: bool,
}

impl OccurrencesAfter {
    /// Selects what happened after that place, without payloads.
    pub fn new(place: Place, limit: usize) -> Self {
        Self { place, limit, with_payload: false }
    }

    /// Includes the payloads, or leaves them out.
    #[must_use]
    pub fn with_payload(mut self, with_payload: bool) -> Self {
        self.with_payload = with_payload;
        self
    }
}

/// A place in the sequence of what happens in a queue. Commits become visible out of order. A number that was skipped
/// may exist later, so it is queried again.
///
/// ```
/// use postroom::questions::Place;
/// use postroom::clock::Timestamp;
/// use postroom::queue::State;
///
/// let place = Place::Finished { state: State::Done, at: Timestamp::from_micros(0), row: 0 };
/// assert_ne!(place, Place::Failure { number: 0, skipped: Vec::new() });
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Place {
    /// A row that was written.
    Row {
        /// Its number.
        number: i64,
        /// Earlier numbers that did not exist.
        skipped: Vec<i64>,
    },
    /// An attempt that failed.
    Failure {
        /// Its number.
        number: i64,
        /// Earlier numbers that did not exist.
        skipped: Vec<i64>,
    },
    /// A message that was finished.
    Finished {
        /// Its state: one of [`State::FINISHED`].
        state: State,
        /// When it was finished.
        at: Timestamp,
        /// The number of its row.
        row: i64,
    },
}

/// Something that happened to a message.
///
/// ```
/// use postroom::questions::{OccurrencesAfter, Place};
/// use postroom::{NewMessage, Outbox};
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// outbox.enqueue(NewMessage::new("order.placed", "{}")).await?;
/// let begin = Place::Row { number: 0, skipped: Vec::new() };
/// let happened = outbox.queue().occurrences(OccurrencesAfter::new(begin, 100)).await?;
/// assert_eq!((happened[0].topic.as_str(), happened[0].payload_bytes), ("order.placed", 2));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occurrence {
    /// The number of its row, or of the failure.
    pub number: i64,
    /// The message's id; empty if it cannot be read.
    pub id: String,
    /// Its topic; empty if it cannot be read.
    pub topic: String,
    /// Its destination or its source.
    pub party: Option<String>,
    /// When it happened.
    pub at: Timestamp,
    /// The error, or the last error.
    pub error: Option<String>,
    /// The number of failed attempts; for a failure, the number of the attempt.
    pub attempts: u32,
    /// The size of its payload. SQL Server counts characters.
    pub payload_bytes: u64,
    /// Its payload, if it was requested.
    pub payload: Option<String>,
}

// Payloads and error texts are the user's data, so they are never printed.
impl fmt::Debug for Occurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Occurrence").field("number", &self.number).field("at", &self.at).finish_non_exhaustive()
    }
}

//! What operators ask about a queue while it works: what came and went last, what waits, what happened since.

use std::fmt;

use crate::message::InboxKey;
use crate::queue::{Cause, Queue, State};
use crate::store::BoxFuture;
use crate::support::clock::Timestamp;
use crate::support::error::Result;

/// The questions that a store answers for operators. None of them changes anything, and each looks at a bounded number
/// of rows, except where it says otherwise.
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
    /// The keys of the inbox that a text may stand for: a message's id, or its source, a slash and its id. Looks
    /// through the whole inbox.
    fn keys_of(&self, id: String) -> BoxFuture<'_, Result<Vec<InboxKey>>>;

    /// The last row, the last failure, and when the last message of each kind was finished.
    fn newest(&self, queue: Queue) -> BoxFuture<'_, Result<Newest>>;

    /// When workers last did something.
    fn activity(&self, queue: Queue) -> BoxFuture<'_, Result<Activity>>;

    /// How many ready messages are claimed before the one that stands at `visible_at` and has that number; not counted
    /// beyond `limit`.
    fn ahead_of(&self, queue: Queue, visible_at: Timestamp, seq: i64, limit: usize) -> BoxFuture<'_, Result<u64>>;

    /// What came in and what was done in a span of time, by the newest `rows` rows of each.
    fn flow(&self, queue: Queue, from: Timestamp, until: Timestamp, rows: usize) -> BoxFuture<'_, Result<Flow>>;

    /// Messages that are ready, from the front of the line, or dead, counted by topic and other service: `rows` of them
    /// at most. Of other states there is no such count.
    fn tally(&self, queue: Queue, state: State, rows: usize) -> BoxFuture<'_, Result<Vec<Tally>>>;

    /// The last failed attempts, newest first.
    fn last_failures(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<Vec<LastFailure>>>;

    /// What happened behind a place, in order: `limit` of it, and what was skipped before.
    fn occurrences(&self, queue: Queue, request: OccurrencesAfter) -> BoxFuture<'_, Result<Vec<Occurrence>>>;

    /// How many messages to a service were done at that time or later. Counts all of them.
    fn count_delivered(&self, destination: String, since: Timestamp) -> BoxFuture<'_, Result<u64>>;

    /// The number of the last of the next `limit` such messages behind a row; none when there are none.
    fn delivered_up_to(
        &self,
        destination: String,
        since: Timestamp,
        after: i64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Option<i64>>>;
}

/// The end of a queue: its last row, its last failure, and the times of what was finished last.
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
    /// When the last message became a dead letter.
    pub dead_at: Option<Timestamp>,
    /// When the last message expired.
    pub expired_at: Option<Timestamp>,
    /// When the last message was dismissed.
    pub dismissed_at: Option<Timestamp>,
}

impl Newest {
    /// When the last message came to that state; none if no message is finished in it.
    pub fn finished_at(&self, state: State) -> Option<Timestamp> {
        match state {
            State::Done => self.done_at,
            State::Dead => self.dead_at,
            State::Expired => self.expired_at,
            State::Dismissed => self.dismissed_at,
            _ => None,
        }
    }

    /// When something was last written or finished.
    pub fn at(&self) -> Option<Timestamp> {
        let finished = State::FINISHED.into_iter().map(|state| self.finished_at(state));
        finished.fold(self.created_at, Option::max)
    }
}

/// What workers did last.
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
    /// How many messages are held under leases that last; not counted beyond [`Activity::HELD_MAX`].
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
    /// More leases than these are not counted.
    pub const HELD_MAX: usize = 1000;

    /// When a message was last claimed, done or failed.
    pub fn at(&self) -> Option<Timestamp> {
        self.claimed_at.max(self.done_at).max(self.failed_at)
    }
}

/// What came in and what was done in a span of time.
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

/// How many messages passed in a span of time.
///
/// ```
/// use postroom::questions::Passed;
///
/// assert_eq!(Passed::default().messages, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Passed {
    /// How many.
    pub messages: u64,
    /// When the first of them did.
    pub first_at: Option<Timestamp>,
}

/// How many messages have a topic and another service in common.
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
    /// Their topic; none when it cannot be read.
    pub topic: Option<String>,
    /// Where they go to, or where they came from.
    pub party: Option<String>,
    /// How many they are.
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
    /// When.
    pub at: Timestamp,
    /// The topic of its message; none when it cannot be read.
    pub topic: Option<String>,
    /// Which attempt it was.
    pub attempt: u32,
    /// What went wrong, as a code; none when another program, perhaps a newer one, wrote it.
    pub cause: Option<Cause>,
    /// What went wrong, in words.
    pub error: Option<String>,
}

// Error texts are the user's data: never printed.
impl fmt::Debug for LastFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastFailure").field("at", &self.at).field("cause", &self.cause).finish_non_exhaustive()
    }
}

/// Which occurrences are asked for.
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
    /// Behind this.
    pub place: Place,
    /// How many at most, apart from what was skipped.
    pub limit: usize,
    /// Whether the payloads are told too.
    pub with_payload: bool,
}

impl OccurrencesAfter {
    /// What happened behind that place, without payloads.
    pub fn new(place: Place, limit: usize) -> Self {
        Self { place, limit, with_payload: false }
    }

    /// With the payloads, if so.
    #[must_use]
    pub fn with_payload(mut self, with_payload: bool) -> Self {
        self.with_payload = with_payload;
        self
    }
}

/// A place in what happens in a queue. Commits become visible out of order: a number that was skipped may be there
/// later, and is asked for again.
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
        /// Numbers before it that were not there.
        skipped: Vec<i64>,
    },
    /// An attempt that failed.
    Failure {
        /// Its number.
        number: i64,
        /// Numbers before it that were not there.
        skipped: Vec<i64>,
    },
    /// A message that was finished.
    Finished {
        /// In this state: one of [`State::FINISHED`].
        state: State,
        /// At this time.
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
    /// The message's id; empty when it cannot be read.
    pub id: String,
    /// Its topic; empty when it cannot be read.
    pub topic: String,
    /// Where it goes to, or where it came from.
    pub party: Option<String>,
    /// When it happened.
    pub at: Timestamp,
    /// What went wrong, or went wrong last.
    pub error: Option<String>,
    /// Failed attempts; of a failure, which attempt it was.
    pub attempts: u32,
    /// How large its payload is. SQL Server counts characters.
    pub payload_bytes: u64,
    /// Its payload, if that was asked for.
    pub payload: Option<String>,
}

// Payloads and error texts are the user's data: never printed.
impl fmt::Debug for Occurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Occurrence").field("number", &self.number).field("at", &self.at).finish_non_exhaustive()
    }
}

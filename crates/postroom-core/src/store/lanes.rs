//! What operators see of lanes: the deepest, those that are blocked, and where a message stands in its lane.

use crate::queue::State;
use crate::support::clock::Timestamp;

/// The lanes of a queue. Each look is bounded, however many lanes and messages there are.
///
/// ```
/// use postroom::store::MemoryStore;
/// use postroom::{NewMessage, Outbox};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// for lane in ["order-7", "order-7", "order-8"] {
///     outbox.enqueue(NewMessage::new("order.paid", "{}").lane(lane)).await?;
/// }
/// let lanes = outbox.queue().lanes(10).await?;
/// assert_eq!((lanes.lanes, lanes.blocked_lanes), (2, 0));
/// assert_eq!((lanes.deepest[0].name.as_str(), lanes.deepest[0].messages), ("order-7", 2));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Lanes {
    /// The number of lanes among the messages that were looked at: the oldest and the newest [`Lanes::LOOKED_AT`] that
    /// have not ended.
    pub lanes: u64,
    /// Whether there may be more lanes, because there are more messages.
    pub may_be_more: bool,
    /// The number of lanes that are blocked by a dead message, among the [`Lanes::LOOKED_AT`] messages that have been
    /// dead the longest.
    pub blocked_lanes: u64,
    /// The deepest lanes, deepest first. They are those with the most of the messages that were looked at: if there are
    /// more messages, a deeper lane may be missing.
    pub deepest: Vec<Lane>,
    /// Lanes that are blocked by a dead message, those that have been blocked the longest first.
    pub blocked: Vec<Lane>,
}

impl Lanes {
    /// How many messages are looked at.
    pub const LOOKED_AT: usize = 5_000;
}

/// A lane with messages that have not ended.
///
/// ```
/// use postroom::operator::Lane;
/// use postroom::store::MemoryStore;
/// use postroom::{NewMessage, Outbox};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// outbox.enqueue(NewMessage::new("order.paid", "{}").lane("order-7")).await?;
/// let lane: Lane = outbox.queue().lanes(1).await?.deepest.remove(0);
/// println!("{} messages in {}, since {}", lane.messages, lane.name, lane.first.created_at);
/// assert!(!lane.is_blocked());
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// How many messages have not ended, counted up to [`Lane::COUNTED`]. A dead message that blocks the lane is one
    /// of them.
    pub messages: u64,
    /// The message that has the turn. All others wait for it.
    pub first: FirstInLane,
}

impl Lane {
    /// The most messages that are counted in one lane.
    pub const COUNTED: usize = 10_000;

    /// Returns whether its first message is dead: nothing happens until it is requeued or dismissed.
    pub fn is_blocked(&self) -> bool {
        self.first.state == State::Dead
    }
}

/// The message that has the turn in its lane.
///
/// ```
/// use postroom::queue::State;
/// use postroom::store::MemoryStore;
/// use postroom::{NewMessage, Outbox};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// outbox.enqueue(NewMessage::new("order.paid", "{}").lane("order-7")).await?;
/// let first = outbox.queue().lanes(1).await?.deepest.remove(0).first;
/// assert_eq!((first.topic.as_str(), first.state), ("order.paid", State::Ready));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FirstInLane {
    /// The number of its row.
    pub seq: i64,
    /// Its id; empty if it cannot be read.
    pub id: String,
    /// Its topic; empty if it cannot be read.
    pub topic: String,
    /// Its destination or its source.
    pub party: Option<String>,
    /// Ready, leased or dead.
    pub state: State,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When it is due, if it is ready; when its lease ends, if it is leased.
    pub visible_at: Option<Timestamp>,
    /// The number of failed attempts.
    pub attempts: u32,
}

/// Where a message stands in its lane.
///
/// ```
/// use postroom::operator::Filter;
/// use postroom::store::MemoryStore;
/// use postroom::{NewMessage, Outbox};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// for _ in 0..3 {
///     outbox.enqueue(NewMessage::new("order.paid", "{}").lane("order-7")).await?;
/// }
/// let rows = outbox.queue().list(Filter::all()).await?;
/// let place = outbox.queue().lane_of(rows[2].seq()).await?.expect("it is in a lane");
/// assert_eq!((place.ahead, place.lane.messages), (2, 3));
/// assert_eq!(place.lane.first.seq, rows[0].seq());
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LanePlace {
    /// Its lane.
    pub lane: Lane,
    /// How many messages come before it, counted up to [`Lane::COUNTED`]. 0: it has the turn itself.
    pub ahead: u64,
}

//! What is cancelled, and what became of it.

use std::fmt;

use crate::message::{InboxKey, WorkItemId};

/// What became of a message that was to be cancelled.
///
/// ```
/// use postroom::message::WorkItemId;
/// use postroom::queue::Cancelled;
/// use postroom::{Outbox, Result};
///
/// async fn call_off(outbox: &Outbox, reminder: WorkItemId) -> Result<&'static str> {
///     Ok(match outbox.cancel(reminder).await? {
///         Cancelled::Waiting => "nobody is reminded",
///         Cancelled::Asked => "it is being sent; it is not tried again if that fails",
///         _ => "it was sent, or there is none",
///     })
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cancelled {
    /// It waited. It is dismissed now, and nobody gets it.
    Waiting,
    /// It is in progress, and was asked to stop. It is done if this attempt succeeds all the same. If it does not, or
    /// if its worker crashes, it is dismissed and not tried again.
    Asked,
    /// It has ended before, or it is handled outside the queue. Nothing changed.
    TooLate,
    /// There is no such message, or it was deleted after its retention time.
    Unknown,
}

/// How many messages of a lane were cancelled.
///
/// ```
/// # use postroom::store::MemoryStore;
/// use postroom::{NewMessage, Outbox};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// outbox.enqueue(NewMessage::new("order.placed", "{}").lane("order-7")).await?;
/// let cancelled = outbox.queue().cancel_lane("order-7").await?;
/// assert_eq!((cancelled.waiting, cancelled.asked), (1, 0));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CancelledLane {
    /// Those that waited. They are dismissed now.
    pub waiting: u64,
    /// Those in progress. They were asked to stop: see [`Cancelled::Asked`].
    pub asked: u64,
}

impl CancelledLane {
    pub(crate) fn count(&mut self, cancelled: Cancelled) {
        self.waiting += u64::from(cancelled == Cancelled::Waiting);
        self.asked += u64::from(cancelled == Cancelled::Asked);
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.waiting += more.waiting;
        self.asked += more.asked;
    }

    /// Returns how many there are in all.
    pub fn total(&self) -> u64 {
        self.waiting + self.asked
    }
}

/// Which message is to be cancelled.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Target {
    /// A row of the queue, by its number.
    Row(i64),
    /// A message of the outbox.
    Outgoing(WorkItemId),
    /// A message of the inbox.
    Arrived(InboxKey),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row(seq) => write!(f, "row {seq}"),
            Self::Outgoing(id) => id.fmt(f),
            Self::Arrived(key) => key.fmt(f),
        }
    }
}

/// The messages of a lane behind a place in its order, up to so many.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LaneStep {
    pub(crate) lane: String,
    pub(crate) after: i64,
    pub(crate) limit: usize,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct LaneStepped {
    pub(crate) cancelled: CancelledLane,
    /// The place of the last message that was looked at; `None` if there may be no more.
    pub(crate) last: Option<i64>,
}

/// A message in progress that is to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Stop {
    pub(crate) seq: i64,
    pub(crate) claim_no: i64,
    /// Whether it is still in progress under that claim.
    pub(crate) is_held: bool,
}

//! A row as an operator sees it.

use std::fmt;
use std::time::Duration;

use crate::message::{Incoming, Message, NewMessage, OwnerToken};
use crate::queue::{Cause, Content, Lease, Noted, Put, Queue, State, Work, put};
use crate::store::{Arrival, ManualMove, Operator, PutMode, Revival};
use crate::support::clock::Timestamp;

/// A row: the message and its progress.
///
/// ```
/// use postroom::{NewMessage, Outbox};
/// use postroom::operator::Filter;
/// use postroom::queue::State;
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// outbox.enqueue(NewMessage::new("order.placed", "{}")).await?;
/// for record in outbox.queue().list(Filter::all()).await? {
///     assert_eq!((record.state(), record.attempts()), (State::Ready, 0));
///     assert_eq!(record.message().map(|message| message.topic.as_str()), Ok("order.placed"));
/// }
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Record {
    pub(crate) seq: i64,
    pub(crate) work: Work,
    pub(crate) message: Result<Message, String>,
    pub(crate) response: Option<String>,
    /// Who dismissed it last, and why. It may have been requeued since.
    pub(crate) dismissal: Option<Box<Operator>>,
}

impl Record {
    /// Returns the row's number.
    pub fn seq(&self) -> i64 {
        self.seq
    }

    /// Returns the message, or an error if it cannot be read.
    pub fn message(&self) -> Result<&Message, &str> {
        self.message.as_ref().map_err(String::as_str)
    }

    /// Returns its state.
    pub fn state(&self) -> State {
        self.work.state
    }

    /// Returns the number of failed attempts. For a message that is handled outside the queue, it is the number of
    /// attempts that began.
    pub fn attempts(&self) -> u32 {
        self.work.attempts
    }

    /// Returns how often its worker crashed.
    pub fn crashes(&self) -> u32 {
        self.work.crashes
    }

    /// Returns how often it was claimed.
    pub fn claim_no(&self) -> i64 {
        self.work.claim_no
    }

    /// Returns when it can be claimed, or when its lease ends.
    pub fn visible_at(&self) -> Option<Timestamp> {
        self.work.visible_at()
    }

    /// Returns when the next attempt is, after a failed one.
    pub fn next_attempt_at(&self) -> Option<Timestamp> {
        self.work.next_attempt_at
    }

    /// Returns who holds it.
    pub fn owner(&self) -> Option<OwnerToken> {
        self.work.owner
    }

    /// Returns when its lease ends.
    pub fn locked_until(&self) -> Option<Timestamp> {
        self.work.locked_until
    }

    /// Returns when it was last claimed, or marked as being handled outside the queue.
    pub fn last_attempt_at(&self) -> Option<Timestamp> {
        self.work.last_attempt_at
    }

    /// Returns the error of the last failed attempt.
    pub fn last_error(&self) -> Option<&str> {
        self.work.last_error.as_deref()
    }

    /// Returns when it became done, dead, expired or dismissed.
    pub fn processed_at(&self) -> Option<Timestamp> {
        self.work.processed_at
    }

    /// Returns who finished it.
    pub fn processed_by(&self) -> Option<OwnerToken> {
        self.work.processed_by
    }

    /// Returns when it expires.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.work.expires_at
    }

    /// Returns who dismissed it and why, while it is dismissed.
    pub fn dismissal(&self) -> Option<&Operator> {
        self.dismissal.as_deref().filter(|_| self.work.state == State::Dismissed)
    }

    /// Returns the answer of its handler.
    pub fn response(&self) -> Option<&str> {
        self.response.as_deref()
    }
}

// Answers and error texts are the user's data, so they are never printed.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("seq", &self.seq)
            .field("state", &self.work.state)
            .field("attempts", &self.work.attempts)
            .field("claim_no", &self.work.claim_no)
            .finish_non_exhaustive()
    }
}

// The effects of operators' verbs on a row, the same in every store.
impl Record {
    /// Returns the message with the counts of its row.
    pub(crate) fn message_now(&mut self) -> Result<Message, String> {
        self.refresh();
        self.message.clone()
    }

    pub(crate) fn refresh(&mut self) {
        if let Ok(message) = &mut self.message {
            message.attempts = self.work.attempts;
            message.last_error.clone_from(&self.work.last_error);
            message.expires_at = self.work.expires_at;
            message.created_at = self.work.created_at;
        }
    }

    /// Returns the lease under which it is held.
    pub(crate) fn lease(&self) -> Option<Lease> {
        let (owner, until) = (self.work.owner?, self.work.locked_until?);
        Some(Lease {
            seq: self.seq,
            owner,
            claim_no: self.work.claim_no,
            until,
            attempts: self.work.attempts,
            crashes: self.work.crashes,
        })
    }

    /// Dismisses a row that waits, or whose claim has ended otherwise than by an ack.
    pub(crate) fn cancel(&mut self, by: Operator, now: Timestamp) {
        self.work.wait_again();
        self.work.dismiss(now);
        self.dismissal = Some(Box::new(by));
    }

    /// Puts a finished row back in the queue, as number `nth` of many. A row past its time to live needs a new one.
    pub(crate) fn put_back(&mut self, revival: Revival, nth: u64, now: Timestamp) -> bool {
        let is_back = revival.put_back(&mut self.work, nth, now);
        if is_back {
            self.response = None;
        }
        is_back
    }

    /// Applies the arrival of a known message to its row. The time to live begins at `late`.
    pub(crate) fn put(&mut self, incoming: &Incoming, mode: PutMode, late: Timestamp) -> Arrival {
        let arrived = Content::from(incoming);
        let stored = self.message.as_ref().ok().map(Content::from);
        let differs = stored.as_ref().is_none_or(|stored| stored.differs(&arrived));
        let hashes = stored.as_ref().and_then(|stored| stored.hash).zip(arrived.hash);
        let hash_differs = hashes.is_some_and(|(stored, arrived)| stored.differs(arrived));
        match (put(self.work.state, differs), mode) {
            (Put::Nothing, _) | (Put::Replace | Put::ReplaceUnderLease, PutMode::FirstWins) => {
                return Arrival::Known { done: self.work.state == State::Done, differs };
            }
            (Put::Replace, PutMode::Replace) => self.take(incoming, late),
            (Put::ReplaceUnderLease, PutMode::Replace) => {
                self.work.owner = None;
                self.work.claim_no += 1;
                self.take(incoming, late);
            }
            (Put::Queue, _) => {
                self.take(incoming, late);
                self.work.state = State::Ready;
                return Arrival::Seen { hash_differs };
            }
        }
        Arrival::Replaced
    }

    pub(crate) fn take(&mut self, incoming: &Incoming, late: Timestamp) {
        self.work.due_at = incoming.due_at;
        self.work.expires_at = incoming.expires(late);
        self.work.max_attempts = incoming.max_attempts;
        if let Ok(message) = &mut self.message {
            message.replace_content(incoming);
            // A message that is in the queue stays in its lane.
            if self.work.state == State::Seen {
                message.lane.clone_from(&incoming.lane);
            }
        }
    }

    /// Returns a notice that the message became dead, if it just did. The notice names the message and does not contain
    /// its payload. A notice that becomes dead itself causes no further notice.
    pub(crate) fn obituary(&self, queue: Queue, was: State, topic: &str) -> Option<NewMessage> {
        let given_up = |state| matches!(state, State::Dead | State::Expired);
        let message = self.message.as_ref().ok();
        let of = message.map(|message| message.topic.as_str());
        if given_up(was) || !given_up(self.state()) || of == Some(topic) {
            return None;
        }
        let payload = serde_json::json!({
            "queue": queue.as_str(), "seq": self.seq, "id": message.map(Message::id), "topic": of,
            "source": message.and_then(Message::source), "destination": message.and_then(Message::destination),
            "state": self.state().name(queue), "attempts": self.work.attempts, "error": self.work.last_error,
        });
        Some(NewMessage::new(topic, payload.to_string()))
    }

    /// Moves an inbox row by hand. A done row stays done, and a dismissed row can only become done.
    pub(crate) fn apply_mark(&mut self, mark: &ManualMove, now: Timestamp) -> bool {
        match (self.work.state, mark) {
            (State::Done, _) | (State::Dismissed, ManualMove::Dead { .. }) => return false,
            (State::Seen | State::Processing, ManualMove::Processing) => self.work.begin_by_hand(now),
            (_, ManualMove::Processing) => return false,
            (_, ManualMove::Processed) => self.work.settle_by_hand(State::Done, now),
            (_, ManualMove::Dead { error }) => {
                self.work.last_error = error.clone().or(self.work.last_error.take());
                self.work.settle_by_hand(State::Dead, now);
            }
        }
        true
    }
}

impl ManualMove {
    /// Returns the failure to record with it, if the message failed outside the queue.
    pub(crate) fn failure(&self) -> Option<Noted> {
        match self {
            Self::Dead { error: Some(error) } => Some(Noted::new(Cause::HandlerFailed, error)),
            _ => None,
        }
    }
}

/// One failed attempt.
///
/// ```
/// # use std::time::Duration;
/// # use postroom::{NewMessage, Outbox};
/// # use postroom::message::OwnerToken;
/// # use postroom::store::MemoryStore;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let outbox = Outbox::new(MemoryStore::new());
/// # outbox.enqueue(NewMessage::new("order.placed", "{}")).await?;
/// # let owner = OwnerToken::new();
/// let lease = outbox.queue().claim(owner, Duration::from_secs(30), 10).await?.claimed.remove(0).lease;
/// assert_eq!(outbox.queue().abandon([lease.clone()], "no stock", None).await?.applied, 1);
/// let failures = outbox.queue().failures(lease.seq()).await?;
/// assert_eq!((failures[0].attempt, failures[0].error.as_deref()), (1, Some("no stock")));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// When the attempt failed.
    pub at: Timestamp,
    /// The number of the attempt.
    pub attempt: u32,
    /// The worker of the attempt.
    pub worker: Option<OwnerToken>,
    /// The cause, as a code; `None` if another program, perhaps a newer one, wrote it.
    pub cause: Option<Cause>,
    /// The cause, in words.
    pub error: Option<String>,
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure").field("at", &self.at).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// The number of rows in each state.
///
/// ```
/// use postroom::{NewMessage, Outbox};
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// outbox.enqueue(NewMessage::new("order.placed", "{}")).await?;
/// let stats = outbox.queue().stats().await?;
/// assert_eq!((stats.ready, stats.dead, stats.total()), (1, 0, 1));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct QueueStats {
    /// Waiting to be claimed.
    pub ready: u64,
    /// Held under a lease.
    pub leased: u64,
    /// Handled or sent.
    pub done: u64,
    /// Marked dead.
    pub dead: u64,
    /// Past their time to live.
    pub expired: u64,
    /// Inbox: known, but not in the queue.
    pub seen: u64,
    /// Inbox: being handled outside the queue.
    pub processing: u64,
    /// Dead letters that an operator dismissed, and messages that were taken back.
    pub dismissed: u64,
    /// How long the first ready message has been in the queue.
    pub oldest_waiting: Option<Duration>,
    /// How long the first ready message could have been claimed; `None` if it is not due yet.
    pub overdue: Option<Duration>,
}

impl QueueStats {
    pub(crate) fn add(&mut self, state: State, rows: u64) {
        *match state {
            State::Ready => &mut self.ready,
            State::Leased => &mut self.leased,
            State::Done => &mut self.done,
            State::Dead => &mut self.dead,
            State::Expired => &mut self.expired,
            State::Seen => &mut self.seen,
            State::Processing => &mut self.processing,
            State::Dismissed => &mut self.dismissed,
        } += rows;
    }

    /// Returns the number of all rows.
    pub fn total(&self) -> u64 {
        let outside = self.seen + self.processing;
        self.ready + self.leased + self.done + self.dead + self.expired + self.dismissed + outside
    }
}

//! The transition table, as functions on the work columns of a row. The in-memory store runs them, and every SQL store
//! is compared with it.

use std::time::Duration;

use crate::message::{ContentHash, HEAD_START_MAX, Incoming, Message, OwnerToken};
use crate::queue::retry::crash_delay;
use crate::queue::{CRASHES_MAX, Cause, Lease, Noted, State, Verb};
use crate::support::clock::Timestamp;

/// Returns the time by which a new message stands in the queue.
pub(crate) fn first_due(due_at: Option<Timestamp>, created_at: Timestamp) -> Timestamp {
    due_at.map_or(created_at, |due| due.max(created_at.minus(HEAD_START_MAX)))
}

/// The columns that both tables share.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Work {
    pub(crate) state: State,
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) next_attempt_at: Option<Timestamp>,
    pub(crate) attempts: u32,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) crashes: u32,
    pub(crate) claim_no: i64,
    pub(crate) owner: Option<OwnerToken>,
    pub(crate) locked_until: Option<Timestamp>,
    pub(crate) last_error: Option<String>,
    pub(crate) last_attempt_at: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
    pub(crate) processed_at: Option<Timestamp>,
    pub(crate) processed_by: Option<OwnerToken>,
    pub(crate) expires_at: Option<Timestamp>,
}

impl Work {
    pub(crate) fn new(state: State, created_at: Timestamp) -> Self {
        Self {
            state,
            due_at: None,
            next_attempt_at: None,
            attempts: 0,
            max_attempts: None,
            crashes: 0,
            claim_no: 0,
            owner: None,
            locked_until: None,
            last_error: None,
            last_attempt_at: None,
            created_at,
            processed_at: None,
            processed_by: None,
            expires_at: None,
        }
    }

    /// When it can be claimed if it is ready; when its lease ends if it is leased.
    pub(crate) fn visible_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Ready => {
                let first = first_due(self.due_at, self.created_at);
                Some(self.next_attempt_at.map_or(first, |next| next.max(first)))
            }
            State::Leased => self.locked_until,
            _ => None,
        }
    }

    pub(crate) fn is_ready(&self, now: Timestamp) -> bool {
        self.state == State::Ready && self.visible_at() <= Some(now)
    }

    pub(crate) fn lease_is_over(&self, now: Timestamp) -> bool {
        self.state == State::Leased && self.locked_until <= Some(now)
    }

    pub(crate) fn is_past_expiry(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires| expires <= now)
    }

    pub(crate) fn claim(&mut self, owner: OwnerToken, until: Timestamp, now: Timestamp) {
        self.state = State::Leased;
        self.owner = Some(owner);
        self.locked_until = Some(until);
        self.claim_no += 1;
        self.last_attempt_at = Some(now);
    }

    pub(crate) fn is_held_by(&self, lease: &Lease) -> bool {
        self.state == State::Leased && self.owner == Some(lease.owner) && self.claim_no == lease.claim_no
    }

    /// Ends a lease, and returns the failure to record, if any. A failure that spends no attempt and repeats the last
    /// one is not recorded again, because it would push others out of the history. A row is done at `late`, which is
    /// the later time while a clock is in doubt.
    pub(crate) fn settle<'v>(&mut self, verb: &'v Verb, now: Timestamp, late: Timestamp) -> Option<&'v Noted> {
        match verb {
            Verb::Ack { .. } => self.finish(State::Done, late),
            Verb::Release => self.release(now),
            Verb::Fail { failure } => {
                self.fail(failure.error.clone(), now);
                return Some(failure);
            }
            Verb::Abandon { delay, failure, counted } => {
                let is_news = *counted || failure.error.is_none() || self.last_error != failure.error;
                self.abandon(*delay, failure.error.clone(), *counted, now);
                return is_news.then_some(failure);
            }
        }
        None
    }

    pub(crate) fn fail(&mut self, error: Option<String>, now: Timestamp) {
        self.attempts += 1;
        self.last_error = error.or(self.last_error.take());
        self.finish(State::Dead, now);
    }

    /// Puts it back in the queue, or marks it expired if its time is over.
    fn abandon(&mut self, delay: Duration, error: Option<String>, counted: bool, now: Timestamp) {
        self.attempts += u32::from(counted);
        // Its worker is alive, so this message is not what made an earlier worker crash.
        self.crashes = 0;
        self.last_error = error.or(self.last_error.take());
        self.back_in_queue(Some(now.plus(delay)), now);
    }

    fn release(&mut self, now: Timestamp) {
        self.back_in_queue(self.next_attempt_at, now);
    }

    pub(crate) fn extend(&mut self, until: Timestamp) {
        self.locked_until = Some(until);
    }

    /// Handles a lease that ran out before it was settled. If the owner was cleared on purpose, this is no crash.
    pub(crate) fn lease_over(&mut self, now: Timestamp) -> Noted {
        let ended = self.locked_until.unwrap_or(now);
        let crash = Noted::new(Cause::Crashed, CRASH_ERROR);
        if self.owner.is_none() {
            self.back_in_queue(self.next_attempt_at, now);
            return crash;
        }
        self.crashes += 1;
        self.last_error = Some(CRASH_ERROR.to_owned());
        if self.crashes >= CRASHES_MAX {
            self.finish(State::Dead, now);
        } else {
            self.back_in_queue(Some(ended.plus(crash_delay(self.crashes))), now);
        }
        crash
    }

    /// Handles a lease that ran out while the database was away, so that nobody could renew it. This is no crash.
    pub(crate) fn lease_over_in_outage(&mut self, now: Timestamp) -> Noted {
        if self.owner.is_none() {
            return self.lease_over(now);
        }
        let ended = self.locked_until.unwrap_or(now);
        self.last_error = Some(OUTAGE_ERROR.to_owned());
        self.back_in_queue(Some(ended.plus(crash_delay(1))), now);
        Noted::new(Cause::DatabaseUnavailable, OUTAGE_ERROR)
    }

    pub(crate) fn expire(&mut self, now: Timestamp) {
        self.finish(State::Expired, now);
    }

    /// It was dead, and its time to live is over too. It is not sent again without a new time to live.
    pub(crate) fn expire_dead(&mut self, now: Timestamp) {
        self.state = State::Expired;
        self.processed_at = Some(now);
    }

    /// Lets it wait again, whatever its claim came to. It does so only until it is dismissed.
    pub(crate) fn wait_again(&mut self) {
        self.state = State::Ready;
        self.processed_at = None;
        self.processed_by = None;
        self.owner = None;
        self.locked_until = None;
    }

    /// Dismisses a dead letter, or a message that was cancelled. Its retention starts now.
    pub(crate) fn dismiss(&mut self, now: Timestamp) {
        self.state = State::Dismissed;
        self.processed_at = Some(now);
    }

    /// Requeues it for an operator: it starts afresh, perhaps later. Its claim number goes on, so old leases stay void.
    pub(crate) fn revive(&mut self, at: Option<Timestamp>, expires_at: Option<Timestamp>) {
        self.state = State::Ready;
        self.attempts = 0;
        self.crashes = 0;
        self.next_attempt_at = at;
        self.processed_at = None;
        self.processed_by = None;
        self.expires_at = expires_at;
    }

    /// Starts an attempt outside the queue. It is counted now, because nobody would notice if its worker crashed.
    pub(crate) fn begin_by_hand(&mut self, now: Timestamp) {
        self.state = State::Processing;
        self.attempts = self.attempts.saturating_add(1);
        self.last_attempt_at = Some(now);
    }

    /// Ends the row's life outside the queue. Old leases are void from now on.
    pub(crate) fn settle_by_hand(&mut self, state: State, now: Timestamp) {
        self.finish(state, now);
        self.claim_no += 1;
        self.processed_by = None;
    }

    fn finish(&mut self, state: State, now: Timestamp) {
        self.state = state;
        self.processed_at = Some(now);
        self.processed_by = self.owner.take();
        self.locked_until = None;
    }

    fn back_in_queue(&mut self, next_attempt_at: Option<Timestamp>, now: Timestamp) {
        if self.is_past_expiry(now) {
            return self.expire(now);
        }
        self.state = State::Ready;
        self.next_attempt_at = next_attempt_at;
        self.owner = None;
        self.locked_until = None;
    }
}

/// The error of a row whose worker crashed.
pub(crate) const CRASH_ERROR: &str = "the worker vanished: its lease ran out";

const OUTAGE_ERROR: &str = "the database was away: the lease ran out";

/// The parts of an inbox row that a second arrival can change.
#[derive(Clone, Debug)]
pub(crate) struct Content<'a> {
    pub(crate) topic: &'a str,
    pub(crate) payload: &'a str,
    pub(crate) hash: Option<&'a ContentHash>,
    pub(crate) due_at: Option<Timestamp>,
}

impl Content<'_> {
    /// Hashes of two algorithms cannot be compared.
    pub(crate) fn differs(&self, other: &Self) -> bool {
        let hash_differs = match (self.hash, other.hash) {
            (Some(one), Some(two)) => one.differs(two),
            (one, two) => one.is_some() != two.is_some(),
        };
        hash_differs || (self.topic, self.payload, self.due_at) != (other.topic, other.payload, other.due_at)
    }
}

impl<'a> From<&'a Incoming> for Content<'a> {
    fn from(incoming: &'a Incoming) -> Self {
        Self {
            topic: &incoming.topic,
            payload: &incoming.payload,
            hash: incoming.hash.as_ref(),
            due_at: incoming.due_at,
        }
    }
}

impl<'a> From<&'a Message> for Content<'a> {
    fn from(message: &'a Message) -> Self {
        Self { topic: &message.topic, payload: &message.payload, hash: message.hash(), due_at: message.due_at }
    }
}

/// What `enqueue` does to an existing inbox row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Put {
    /// It is done or dismissed, so only the time of its last arrival changes.
    Nothing,
    /// The content is stored, and the row keeps its state.
    Replace,
    /// The content is stored, and the lease on the old content is void. It is handled when that lease is over.
    ReplaceUnderLease,
    /// The content is stored, and the row becomes ready.
    Queue,
}

pub(crate) fn put(state: State, differs: bool) -> Put {
    match state {
        State::Done | State::Dismissed => Put::Nothing,
        State::Seen => Put::Queue,
        _ if !differs => Put::Nothing,
        State::Leased => Put::ReplaceUnderLease,
        State::Ready | State::Dead | State::Expired | State::Processing => Put::Replace,
    }
}

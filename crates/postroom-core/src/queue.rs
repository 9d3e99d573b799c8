//! The queue that both tables share: states, leases and the transition table. Pure: nothing here waits, reads or
//! writes.
//!
//! ```text
//!  enqueue ─▶ ready ──claim──▶ leased ──ack──▶ done ──purge──▶ (gone)
//!               ▲  ▲             │ │ └─fail, attempts spent, three crashes alone──▶ dead ──revive──▶ ready
//!               │  └─abandon, release─┘ └─lease over: reap ─▶ ready (after a pause)
//!               └ due time, backoff        ttl over ─▶ expired ──revive──▶ ready
//!  cancelled:   ready ──cancel──▶ dismissed        leased ──cancel, then anything but an ack──▶ dismissed
//!  by an operator:  dead, expired ──dismiss──▶ dismissed ──purge──▶ (gone)       dead, ttl over ──▶ expired
//!  inbox only:  seen ──enqueue──▶ ready        seen ──mark_processing──▶ processing (never claimed)
//!                                             processing ──mark_processing──▶ processing, one attempt more
//! ```

mod fault;
mod lane_rule;
mod lease;
mod outcome;
mod place;
pub(crate) mod retry;
mod rule;
mod scope;
mod settle;
mod times;
mod topics;
mod work;

pub use fault::{Cause, Fault, Whose};
pub(crate) use lane_rule::LaneRule;
pub use lane_rule::OnDead;
pub(crate) use lease::Budget;
pub(crate) use lease::check_lease;
pub use lease::{BATCH_MAX, ClaimRequest, Claimed, Claims, LEASE_MAX, Lease};
pub(crate) use outcome::{Outcome, Terms};
pub use place::Place;
pub(crate) use rule::Ruled;
pub use rule::{Limit, Pause, Rule};
pub use scope::Scope;
pub(crate) use settle::{Noted, Verb};
pub use settle::{Reaped, Settle, Settled};
pub(crate) use times::AHEAD;
pub use topics::Topics;
pub(crate) use work::{Content, Put, Work, first_due, put};

use std::fmt;

/// One of the two tables.
///
/// ```
/// use postroom::Outbox;
/// use postroom::queue::Queue;
/// use postroom::store::MemoryStore;
///
/// assert_eq!(Outbox::new(MemoryStore::new()).queue().kind(), Queue::Outbox);
/// assert_eq!(Queue::Inbox.to_string(), "inbox");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Queue {
    /// Messages that were enqueued here.
    Outbox,
    /// Messages that arrived here.
    Inbox,
}

impl Queue {
    /// Returns `outbox` or `inbox`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Outbox => "outbox",
            Self::Inbox => "inbox",
        }
    }

    /// Its place where both have one.
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Outbox => 0,
            Self::Inbox => 1,
        }
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of a message.
///
/// ```
/// use postroom::queue::{Queue, State};
///
/// assert_eq!(State::from_code(3), Some(State::Dead));
/// assert_eq!((State::Dead.name(Queue::Outbox), State::Dead.name(Queue::Inbox)), ("Failed", "Dead"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum State {
    /// It waits in the queue and can be claimed once it is due.
    Ready,
    /// A worker has it in progress under a lease.
    Leased,
    /// It was handled or sent.
    Done,
    /// It is dead: it was refused, its attempts are used up, or its workers crashed too often.
    Dead,
    /// Its time to live ran out.
    Expired,
    /// Inbox only: it is known, but is not to be handled.
    Seen,
    /// Inbox only: it is being handled outside the queue.
    Processing,
    /// An operator dismissed it as a dead letter, or the program cancelled it. It is kept for a while, then deleted.
    Dismissed,
}

impl State {
    /// All states, in the order of their stored numbers.
    pub const ALL: [Self; 8] = [
        Self::Ready,
        Self::Leased,
        Self::Done,
        Self::Dead,
        Self::Expired,
        Self::Seen,
        Self::Processing,
        Self::Dismissed,
    ];

    /// The states in which a message is finished.
    pub const FINISHED: [Self; 4] = [Self::Done, Self::Dead, Self::Expired, Self::Dismissed];

    /// The states in which a message is only kept for a while.
    pub(crate) const PURGED: [Self; 5] = [Self::Done, Self::Dead, Self::Expired, Self::Dismissed, Self::Seen];

    /// Returns the number that it is stored as.
    pub fn code(self) -> i64 {
        match self {
            Self::Ready => 0,
            Self::Leased => 1,
            Self::Done => 2,
            Self::Dead => 3,
            Self::Expired => 4,
            Self::Seen => 5,
            Self::Processing => 6,
            Self::Dismissed => 7,
        }
    }

    /// Returns the state with this stored number.
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }

    /// Returns its name for people. In the inbox, ready and leased rows are both called Processing.
    pub fn name(self, queue: Queue) -> &'static str {
        match (queue, self) {
            (Queue::Outbox, Self::Ready) => "Ready",
            (Queue::Outbox, Self::Leased) => "InProgress",
            (Queue::Outbox, Self::Dead) => "Failed",
            (Queue::Inbox, Self::Ready | Self::Leased) => "Processing",
            (Queue::Inbox, Self::Dead) => "Dead",
            (_, Self::Done) => "Done",
            (_, Self::Expired) => "Expired",
            (_, Self::Seen) => "Seen",
            (_, Self::Processing) => "Processing",
            (_, Self::Dismissed) => "Dismissed",
        }
    }
}

/// After this many crashes a message is dead: the first happens beside other messages, the next three alone.
///
/// ```
/// use postroom::queue::{CRASHES_MAX, Lease};
///
/// /// Returns whether the message is dead if this worker crashes with it.
/// fn is_last_chance(lease: &Lease) -> bool {
///     lease.crashes() + 1 >= CRASHES_MAX
/// }
/// ```
pub const CRASHES_MAX: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_lets_in_what_fits_and_always_the_least() {
        let of = |bytes, least, sizes: &[u64]| Budget { bytes, least }.fitting(sizes.iter().copied());
        assert_eq!(of(10, 1, &[4, 4, 4]), 2);
        assert_eq!(of(3, 1, &[4, 4, 4]), 1);
        assert_eq!(of(3, 0, &[4, 1]), 0, "order is kept: what is behind a large one waits");
        assert_eq!(of(u64::MAX, 1, &[u64::MAX, u64::MAX]), 2);
    }

    #[test]
    fn every_state_has_its_own_number() {
        for state in State::ALL {
            assert_eq!(State::from_code(state.code()), Some(state));
        }
        assert_eq!(State::from_code(99), None);
    }
}

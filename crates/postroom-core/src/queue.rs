//! The queue both tables share: states, leases and the transition table. Pure: nothing here waits, reads or writes.
//!
//! ```text
//!  enqueue ─▶ ready ──claim──▶ leased ──ack──▶ done ──purge──▶ (gone)
//!               ▲  ▲             │ │ └─fail, attempts spent, three crashes alone──▶ dead ──revive──▶ ready
//!               │  └─abandon, release─┘ └─lease over: reap ─▶ ready (after a pause)
//!               └ due time, backoff        ttl over ─▶ expired ──revive──▶ ready
//!  taken back:  ready ──cancel──▶ dismissed (outbox only)
//!  by an operator:  dead, expired ──dismiss──▶ dismissed ──purge──▶ (gone)       dead, ttl over ──▶ expired
//!  inbox only:  seen ──enqueue──▶ ready        seen ──mark_processing──▶ processing (never claimed)
//!                                             processing ──mark_processing──▶ processing, one attempt more
//! ```

mod fault;
mod lease;
mod outcome;
mod place;
pub(crate) mod retry;
mod settle;
mod times;
mod topics;
mod work;

pub use fault::{Cause, Fault, Whose};
pub(crate) use lease::Budget;
pub(crate) use lease::check_lease;
pub use lease::{BATCH_MAX, ClaimRequest, Claimed, Claims, LEASE_MAX, Lease};
pub(crate) use outcome::{Outcome, Terms};
pub use place::Place;
pub(crate) use settle::{Noted, Verb};
pub use settle::{Reaped, Settle, Settled};
pub(crate) use times::AHEAD;
pub use topics::Topics;
pub(crate) use work::{Content, Put, Work, put};

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
    /// What was enqueued here.
    Outbox,
    /// What arrived here.
    Inbox,
}

impl Queue {
    /// `outbox` or `inbox`.
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

/// Where a message stands.
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
    /// Waiting to be claimed, now or later.
    Ready,
    /// Held by a worker under a lease.
    Leased,
    /// Handled or sent.
    Done,
    /// Given up.
    Dead,
    /// Its time to live ran out first.
    Expired,
    /// Inbox only: known, but nobody asked for it to be handled.
    Seen,
    /// Inbox only: somebody handles it outside the queue.
    Processing,
    /// A dead letter that an operator dismissed, or a message that was taken back: kept for a while, then deleted.
    Dismissed,
}

impl State {
    /// Every state, in the order of its stored number.
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

    /// Those in which a message has come to its end.
    pub const FINISHED: [Self; 4] = [Self::Done, Self::Dead, Self::Expired, Self::Dismissed];

    /// Those in which a message is only kept for a time.
    pub(crate) const PURGED: [Self; 5] = [Self::Done, Self::Dead, Self::Expired, Self::Dismissed, Self::Seen];

    /// The number it is stored as.
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

    /// The state stored as that number.
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }

    /// The name people know it by: the inbox calls ready and leased rows Processing.
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

/// So many crashes end a message: the first beside others, the next three alone.
///
/// ```
/// use postroom::queue::{CRASHES_MAX, Lease};
///
/// /// Whether nobody will get this message again if we vanish with it.
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

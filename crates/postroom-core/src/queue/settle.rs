//! How a lease ends.

use std::time::Duration;

use crate::message::error_text;
use crate::queue::{Cause, Fault, Lease, State, Whose};
use crate::support::error::{Error, Result};

/// What happens to a leased row.
#[derive(Clone, PartialEq)]
pub(crate) enum Verb {
    /// It is done, with the handler's answer if there is one.
    Ack {
        /// The answer, which is stored with the message.
        response: Option<String>,
    },
    /// It goes back to the queue after a delay.
    Abandon {
        /// The delay.
        delay: Duration,
        /// The error.
        failure: Noted,
        /// Whether it counts as a failed attempt.
        counted: bool,
    },
    /// It goes back to the queue at once, as if it had not been claimed.
    Release,
    /// It is dead.
    Fail {
        /// The error.
        failure: Noted,
    },
}

/// The part of a failure that is stored.
#[derive(Clone, PartialEq)]
pub(crate) struct Noted {
    pub(crate) cause: Cause,
    /// The error text, cut to what is stored.
    pub(crate) error: Option<String>,
}

// The text may quote the message, so it is not printed.
impl std::fmt::Debug for Noted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Noted").field(&self.cause).finish()
    }
}

impl Noted {
    pub(crate) fn new(cause: Cause, why: &str) -> Self {
        Self { cause, error: error_text(why) }
    }
}

impl Verb {
    /// Returns its name.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Ack { .. } => "ack",
            Self::Abandon { .. } => "abandon",
            Self::Release => "release",
            Self::Fail { .. } => "fail",
        }
    }
}

// Answers are the user's data, and errors may quote it, so neither is printed.
impl std::fmt::Debug for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One row to settle, and how to settle it.
///
/// ```
/// use std::time::Duration;
/// use postroom::queue::{Lease, Settle};
///
/// /// A refused message is dead. If the other side is busy, the message waits without spending an attempt.
/// fn settle(lease: Lease, status: u16) -> postroom::Result<Settle> {
///     Ok(match status {
///         200 => Settle::ack(lease),
///         400 => Settle::fail(lease, "refused"),
///         429 => Settle::postpone(lease, Duration::from_secs(10), "busy")?,
///         _ => Settle::abandon(lease, Duration::from_secs(60), "failed")?,
///     })
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Settle {
    pub(crate) lease: Lease,
    pub(crate) verb: Verb,
}

impl Settle {
    /// Marks it done.
    pub fn ack(lease: Lease) -> Self {
        Self::ack_with(lease, None)
    }

    /// Marks it done, with an answer.
    pub fn ack_with(lease: Lease, response: Option<String>) -> Self {
        Self { lease, verb: Verb::Ack { response } }
    }

    /// Puts it back in the queue after `delay`, which must be longer than zero.
    pub fn abandon(lease: Lease, delay: Duration, error: &str) -> Result<Self> {
        if delay.is_zero() {
            return Err(Error::invalid(
                "the delay of an abandon must be longer than zero; leave it out for the default",
            ));
        }
        let failure = Noted::new(Cause::HandlerFailed, error);
        Ok(Self { lease, verb: Verb::Abandon { delay, failure, counted: true } })
    }

    /// Puts it back in the queue after `delay`, without spending an attempt.
    pub fn postpone(lease: Lease, delay: Duration, why: &str) -> Result<Self> {
        let mut settle = Self::abandon(lease, delay, why)?;
        if let Verb::Abandon { counted, failure, .. } = &mut settle.verb {
            (*counted, failure.cause) = (false, Cause::Postponed);
        }
        Ok(settle)
    }

    /// Puts it back in the queue after `delay`, which is longer than zero. Only the message's own failures count as
    /// attempts.
    pub(crate) fn again(lease: Lease, delay: Duration, fault: &Fault) -> Self {
        let failure = Noted::new(fault.cause(), fault.why());
        Self { lease, verb: Verb::Abandon { delay, failure, counted: fault.whose() == Whose::Message } }
    }

    /// Marks it dead.
    pub(crate) fn dead(lease: Lease, fault: &Fault) -> Self {
        Self { lease, verb: Verb::Fail { failure: Noted::new(fault.cause(), fault.why()) } }
    }

    /// Puts it back in the queue at once; nothing is counted.
    pub fn release(lease: Lease) -> Self {
        Self { lease, verb: Verb::Release }
    }

    /// Marks it dead.
    pub fn fail(lease: Lease, error: &str) -> Self {
        Self { lease, verb: Verb::Fail { failure: Noted::new(Cause::HandlerFailed, error) } }
    }
}

/// How many rows of a batch were settled, and how many leases had been lost.
///
/// ```
/// # use std::time::Duration;
/// # use postroom::{NewMessage, Outbox};
/// # use postroom::message::OwnerToken;
/// # use postroom::store::MemoryStore;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let outbox = Outbox::new(MemoryStore::new());
/// # outbox.enqueue(NewMessage::new("order.placed", "{}")).await?;
/// let claims = outbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 10).await?;
/// let settled = outbox.queue().fail(claims.claimed.into_iter().map(|claimed| claimed.lease), "no such order").await?;
/// assert_eq!((settled.applied, settled.dead, settled.lost), (1, 1, 0));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Settled {
    /// Rows that were settled.
    pub applied: u64,
    /// Leases that had run out and were taken over, and rows that no longer exist.
    pub lost: u64,
    /// Settled rows that expired instead of going back to the queue.
    pub expired: u64,
    /// Settled rows that are dead now.
    pub dead: u64,
}

impl Settled {
    /// Counts one lease: the new state of its row, or `None` if the lease was lost.
    pub(crate) fn count(&mut self, became: Option<State>) {
        self.applied += u64::from(became.is_some());
        self.lost += u64::from(became.is_none());
        self.expired += u64::from(became == Some(State::Expired));
        self.dead += u64::from(became == Some(State::Dead));
    }
}

/// The result of reaping.
///
/// ```
/// # use std::time::Duration;
/// # use postroom::{NewMessage, Outbox};
/// # use postroom::clock::{Clock, ManualClock, Timestamp};
/// # use postroom::message::OwnerToken;
/// # use postroom::store::MemoryStore;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let clock = ManualClock::new(Timestamp::from_micros(0));
/// # let outbox = Outbox::new(MemoryStore::with_clock(Clock::Manual(clock.clone())));
/// # outbox.enqueue(NewMessage::new("order.placed", "{}")).await?;
/// let lease = Duration::from_secs(30);
/// outbox.queue().claim(OwnerToken::new(), lease, 10).await?;
/// // Nobody settles it: its worker has crashed.
/// clock.advance(lease);
/// assert_eq!(outbox.queue().reap(100).await?.freed, 1);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Reaped {
    /// Rows that went back to the queue, or were dismissed because they had been cancelled.
    pub freed: u64,
    /// Rows that are dead now, because their workers crashed too often.
    pub dead: u64,
    /// Rows that expired.
    pub expired: u64,
}

impl Reaped {
    pub(crate) fn count(&mut self, became: State) {
        *match became {
            State::Dead => &mut self.dead,
            State::Expired => &mut self.expired,
            _ => &mut self.freed,
        } += 1;
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self { freed: self.freed + other.freed, dead: self.dead + other.dead, expired: self.expired + other.expired }
    }

    /// Returns the number of all rows.
    pub fn total(&self) -> u64 {
        self.freed + self.dead + self.expired
    }
}

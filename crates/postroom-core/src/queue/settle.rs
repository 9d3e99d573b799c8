//! How a lease ends.

use std::time::Duration;

use crate::message::error_text;
use crate::queue::{Cause, Fault, Lease, State, Whose};
use crate::support::error::{Error, Result};

/// What becomes of a leased row.
#[derive(Clone, PartialEq)]
pub(crate) enum Verb {
    /// Done; with the handler's answer, if it gave one.
    Ack {
        /// The answer, kept with the message.
        response: Option<String>,
    },
    /// Back in line after a pause.
    Abandon {
        /// How long the pause is.
        delay: Duration,
        /// What went wrong.
        failure: Noted,
        /// Whether it counts as a failed attempt.
        counted: bool,
    },
    /// Back in line at once, as if it had not been claimed.
    Release,
    /// Dead.
    Fail {
        /// What went wrong.
        failure: Noted,
    },
}

/// What is kept of a failure.
#[derive(Clone, PartialEq)]
pub(crate) struct Noted {
    pub(crate) cause: Cause,
    /// In words, as far as they are kept.
    pub(crate) error: Option<String>,
}

// The words may quote the message.
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
    /// Its name.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Ack { .. } => "ack",
            Self::Abandon { .. } => "abandon",
            Self::Release => "release",
            Self::Fail { .. } => "fail",
        }
    }
}

// Answers are the user's data and errors may quote it: neither is printed.
impl std::fmt::Debug for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One row to settle, and how.
///
/// ```
/// use std::time::Duration;
/// use postroom::queue::{Lease, Settle};
///
/// /// A message that was refused is dead; one that the other side had no time for waits without spending an attempt.
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
    /// Done.
    pub fn ack(lease: Lease) -> Self {
        Self::ack_with(lease, None)
    }

    /// Done, with an answer.
    pub fn ack_with(lease: Lease, response: Option<String>) -> Self {
        Self { lease, verb: Verb::Ack { response } }
    }

    /// Back in line after `delay`, which must be longer than zero.
    pub fn abandon(lease: Lease, delay: Duration, error: &str) -> Result<Self> {
        if delay.is_zero() {
            return Err(Error::invalid(
                "the delay of an abandon must be longer than zero; leave it out for the default",
            ));
        }
        let failure = Noted::new(Cause::HandlerFailed, error);
        Ok(Self { lease, verb: Verb::Abandon { delay, failure, counted: true } })
    }

    /// Back in line after `delay`, without spending an attempt.
    pub fn postpone(lease: Lease, delay: Duration, why: &str) -> Result<Self> {
        let mut settle = Self::abandon(lease, delay, why)?;
        if let Verb::Abandon { counted, failure, .. } = &mut settle.verb {
            (*counted, failure.cause) = (false, Cause::Postponed);
        }
        Ok(settle)
    }

    /// Back in line after `delay`, which is longer than zero. Only the message's own failure counts as an attempt.
    pub(crate) fn again(lease: Lease, delay: Duration, fault: &Fault) -> Self {
        let failure = Noted::new(fault.cause(), fault.why());
        Self { lease, verb: Verb::Abandon { delay, failure, counted: fault.whose() == Whose::Message } }
    }

    /// Dead.
    pub(crate) fn dead(lease: Lease, fault: &Fault) -> Self {
        Self { lease, verb: Verb::Fail { failure: Noted::new(fault.cause(), fault.why()) } }
    }

    /// Back in line at once, nothing counted.
    pub fn release(lease: Lease) -> Self {
        Self { lease, verb: Verb::Release }
    }

    /// Dead.
    pub fn fail(lease: Lease, error: &str) -> Self {
        Self { lease, verb: Verb::Fail { failure: Noted::new(Cause::HandlerFailed, error) } }
    }
}

/// How many of a batch were settled, and how many leases were no longer ours.
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
    /// Rows that changed.
    pub applied: u64,
    /// Leases that had run out and were taken over, or rows that are gone.
    pub lost: u64,
    /// Of the applied, rows that became Expired instead of going back in line.
    pub expired: u64,
    /// Of the applied, rows that were given up.
    pub dead: u64,
}

impl Settled {
    /// Counts one lease: what its row became, or none when the lease was lost.
    pub(crate) fn count(&mut self, became: Option<State>) {
        self.applied += u64::from(became.is_some());
        self.lost += u64::from(became.is_none());
        self.expired += u64::from(became == Some(State::Expired));
        self.dead += u64::from(became == Some(State::Dead));
    }
}

/// What reaping found.
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
/// // Nobody settles it: its worker has vanished.
/// clock.advance(lease);
/// assert_eq!(outbox.queue().reap(100).await?.freed, 1);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Reaped {
    /// Rows back in line.
    pub freed: u64,
    /// Rows given up: their workers vanished too often.
    pub dead: u64,
    /// Rows whose time to live was over.
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

    /// All rows.
    pub fn total(&self) -> u64 {
        self.freed + self.dead + self.expired
    }
}

//! A lease: the right to settle one row, for a while.

use std::time::Duration;

use crate::message::{Message, OwnerToken};
use crate::queue::{Reaped, Topics};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, Result};

/// The most rows one claim may take.
///
/// ```
/// use std::time::Duration;
/// use postroom::message::OwnerToken;
/// use postroom::queue::{BATCH_MAX, ClaimRequest};
///
/// let lease = Duration::from_secs(30);
/// assert!(ClaimRequest::new(OwnerToken::new(), lease, BATCH_MAX).is_ok());
/// assert!(ClaimRequest::new(OwnerToken::new(), lease, BATCH_MAX + 1).is_err());
/// ```
pub const BATCH_MAX: usize = 10_000;
/// The longest lease.
///
/// ```
/// use std::time::Duration;
/// use postroom::message::OwnerToken;
/// use postroom::queue::{ClaimRequest, LEASE_MAX};
///
/// assert!(ClaimRequest::new(OwnerToken::new(), LEASE_MAX, 10).is_ok());
/// assert!(ClaimRequest::new(OwnerToken::new(), LEASE_MAX + Duration::from_secs(1), 10).is_err());
/// ```
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 3600);

/// The right to settle one row: its number, who claimed it, and the how-manieth claim of that row it was.
///
/// Every settle compares all three. A worker that was asleep while another one took the row over cannot touch it, not
/// even when it is the same worker that won it again.
///
/// ```
/// use std::time::Duration;
/// use postroom::{NewMessage, Outbox};
/// use postroom::message::OwnerToken;
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// outbox.enqueue(NewMessage::new("order.placed", "{}")).await?;
/// let claims = outbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 10).await?;
/// let lease = claims.claimed[0].lease.clone();
/// assert_eq!((lease.claim_no(), lease.attempts()), (1, 0));
/// assert_eq!(outbox.queue().ack([lease.clone()]).await?.applied, 1);
/// assert_eq!(outbox.queue().ack([lease]).await?.lost, 1, "it settles once");
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lease {
    pub(crate) seq: i64,
    pub(crate) owner: OwnerToken,
    pub(crate) claim_no: i64,
    pub(crate) until: Timestamp,
    pub(crate) attempts: u32,
    pub(crate) crashes: u32,
}

impl Lease {
    /// The row's number in its table.
    pub fn seq(&self) -> i64 {
        self.seq
    }

    /// Who claimed it.
    pub fn owner(&self) -> OwnerToken {
        self.owner
    }

    /// The how-manieth claim of that row this is.
    pub fn claim_no(&self) -> i64 {
        self.claim_no
    }

    /// When it ends, by the database's clock, unless it is extended.
    pub fn until(&self) -> Timestamp {
        self.until
    }

    /// Failed attempts before this one.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How many workers vanished with the row in hand before.
    pub fn crashes(&self) -> u32 {
        self.crashes
    }
}

/// One claimed row.
///
/// ```
/// use postroom::queue::{Claimed, Settle};
///
/// /// What cannot be read is given up; all else is done.
/// fn settle(claimed: Claimed) -> Settle {
///     match claimed.message {
///         Ok(message) => {
///             println!("{}: {}", message.topic, message.payload);
///             Settle::ack(claimed.lease)
///         }
///         Err(why) => Settle::fail(claimed.lease, &why),
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claimed {
    /// The right to settle it.
    pub lease: Lease,
    /// What it holds; an error when the row cannot be read as a message.
    pub message: std::result::Result<Message, String>,
}

/// What a claim found.
///
/// ```
/// use std::time::Duration;
/// use postroom::{NewMessage, Outbox};
/// use postroom::clock::{Clock, ManualClock, Timestamp};
/// use postroom::message::OwnerToken;
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let clock = Clock::Manual(ManualClock::new(Timestamp::from_micros(0)));
/// let outbox = Outbox::new(MemoryStore::with_clock(clock));
/// outbox.enqueue(NewMessage::new("invoice.due", "{}").due_at(Timestamp::from_micros(5))).await?;
/// let claims = outbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 10).await?;
/// assert!(claims.claimed.is_empty());
/// assert_eq!(claims.next_at, Some(Timestamp::from_micros(5)), "there is no need to look before");
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Claims {
    /// The rows, in the order in which they were waiting.
    pub claimed: Vec<Claimed>,
    /// When to look again, if none was ready: the next due time, or the end of a lease.
    pub next_at: Option<Timestamp>,
    /// What was freed, given up or expired on the way.
    pub reaped: Reaped,
}

/// How much to claim, for whom and for how long.
///
/// ```
/// use std::time::Duration;
/// use postroom::message::OwnerToken;
/// use postroom::queue::{ClaimRequest, Queue};
/// use postroom::store::{MemoryStore, Store};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let request = ClaimRequest::new(OwnerToken::new(), Duration::from_secs(30), 10)?;
/// assert!(MemoryStore::new().claim(Queue::Inbox, request).await?.claimed.is_empty());
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    pub(crate) owner: OwnerToken,
    pub(crate) lease: Duration,
    pub(crate) batch: usize,
    /// None: whatever is in line.
    pub(crate) topics: Option<Topics>,
    /// Of those whose worker crashed with them, and of no others.
    pub(crate) suspects: bool,
    pub(crate) budget: Budget,
}

/// How many bytes of payload a claim may bring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Budget {
    pub(crate) bytes: u64,
    /// This many messages come whatever they hold; otherwise one that is too large would never come.
    pub(crate) least: usize,
}

impl Budget {
    pub(crate) const UNLIMITED: Self = Self { bytes: u64::MAX, least: 1 };

    /// Whether something may fit that does not fit in the other.
    pub(crate) fn exceeds(self, other: Self) -> bool {
        self.bytes > other.bytes || self.least > other.least
    }

    /// How many of these messages fit, from the first on.
    pub(crate) fn fitting(self, sizes: impl IntoIterator<Item = u64>) -> usize {
        let mut total = 0_u64;
        let fits = |(place, bytes): &(usize, u64)| {
            total = total.saturating_add(*bytes);
            *place < self.least || total <= self.bytes
        };
        sizes.into_iter().enumerate().take_while(fits).count()
    }
}

impl ClaimRequest {
    /// Up to `batch` rows for `owner`, each for `lease`.
    pub fn new(owner: OwnerToken, lease: Duration, batch: usize) -> Result<Self> {
        check_lease(lease)?;
        if batch == 0 || batch > BATCH_MAX {
            return Err(Error::invalid(format!("a batch of {batch} rows; 1 to {BATCH_MAX} are allowed")));
        }
        Ok(Self { owner, lease, batch, topics: None, suspects: false, budget: Budget::UNLIMITED })
    }

    /// Of these messages alone.
    #[must_use]
    pub fn topics(mut self, topics: Topics) -> Self {
        self.topics = Some(topics);
        self
    }

    /// One message whose worker crashed with it. Other claims leave those out: what kills a worker is tried one at a
    /// time, beside the others.
    #[must_use]
    pub fn suspects(mut self) -> Self {
        (self.suspects, self.batch) = (true, 1);
        self
    }

    /// No more than this many bytes of payload, but at least one message.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.budget = Budget { bytes, least: 1 };
        self
    }

    /// Whether it is for some messages alone: it leaves others in line.
    pub(crate) fn is_special(&self) -> bool {
        self.topics.is_some() || self.suspects
    }

    /// Which messages it is for.
    pub(crate) fn places(&self) -> Topics {
        self.topics.clone().unwrap_or_else(Topics::all)
    }

    pub(crate) fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }
}

pub(crate) fn check_lease(lease: Duration) -> Result<()> {
    if lease.is_zero() || lease > LEASE_MAX {
        let max = LEASE_MAX.as_secs();
        return Err(Error::invalid(format!("a lease of {lease:?}; more than 0 and at most {max} s are allowed")));
    }
    Ok(())
}

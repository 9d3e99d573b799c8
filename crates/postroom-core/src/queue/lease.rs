//! Leases: the right to settle one row, for a limited time.

use std::sync::Arc;
use std::time::Duration;

use crate::message::{Message, OwnerToken};
use crate::queue::{Reaped, Topics};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, Result};

/// The most rows that one claim may take.
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

/// The right to settle one row: the row's number, the owner's token and the claim number.
///
/// Every settle compares all three. A worker that slept while another one took the row over cannot change it, not even
/// if the same worker has claimed it again since.
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
    /// Returns whether the other lease is on the next row and belongs to the same claim, as far as one can tell.
    pub(crate) fn is_followed_by(&self, other: &Self) -> bool {
        (self.seq + 1, self.owner, self.claim_no) == (other.seq, other.owner, other.claim_no)
    }

    /// Returns whether the other lease belongs to the same claim, on one of the rows from this one up to `last`.
    pub(crate) fn is_shared_by(&self, other: &Self, last: i64) -> bool {
        let is_between = (self.seq..=last).contains(&other.seq);
        is_between && (self.owner, self.claim_no) == (other.owner, other.claim_no)
    }

    /// Returns the row's number in its table.
    pub fn seq(&self) -> i64 {
        self.seq
    }

    /// Returns the token of the worker that claimed it.
    pub fn owner(&self) -> OwnerToken {
        self.owner
    }

    /// Returns the claim number: how often the row has been claimed.
    pub fn claim_no(&self) -> i64 {
        self.claim_no
    }

    /// Returns when it ends by the database's clock, unless it is extended.
    pub fn until(&self) -> Timestamp {
        self.until
    }

    /// Returns the number of failed attempts before this one.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns how many workers crashed with the row in progress before.
    pub fn crashes(&self) -> u32 {
        self.crashes
    }
}

/// A claimed row.
///
/// ```
/// use postroom::queue::{Claimed, Settle};
///
/// /// A row that cannot be read is marked dead; every other one is done.
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
    /// Its message, or an error if the row cannot be read as a message.
    pub message: std::result::Result<Arc<Message>, String>,
}

/// The result of a claim.
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
    /// The rows, in the order of the queue.
    pub claimed: Vec<Claimed>,
    /// When to look again if nothing was ready: the next due time, or the end of a lease.
    pub next_at: Option<Timestamp>,
    /// The rows that were freed, marked dead or expired on the way.
    pub reaped: Reaped,
}

/// How many rows to claim, for which owner, and for how long.
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
    /// With `None`, every ready message.
    pub(crate) topics: Option<Topics>,
    /// Only suspects: messages whose worker crashed.
    pub(crate) suspects: bool,
    pub(crate) budget: Budget,
}

/// How many bytes of payload a claim may return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Budget {
    pub(crate) bytes: u64,
    /// This many messages are returned whatever their size; otherwise a message that is too large would never be
    /// claimed.
    pub(crate) least: usize,
}

impl Budget {
    pub(crate) const UNLIMITED: Self = Self { bytes: u64::MAX, least: 1 };

    /// Returns whether a message may fit that does not fit in the other.
    pub(crate) fn exceeds(self, other: Self) -> bool {
        self.bytes > other.bytes || self.least > other.least
    }

    /// Returns how many of these messages fit, counted from the first.
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
    /// Creates a claim of up to `batch` rows for `owner`, each with a lease of this length.
    pub fn new(owner: OwnerToken, lease: Duration, batch: usize) -> Result<Self> {
        check_lease(lease)?;
        if batch == 0 || batch > BATCH_MAX {
            return Err(Error::invalid(format!("the batch has {batch} rows; 1 to {BATCH_MAX} are allowed")));
        }
        Ok(Self { owner, lease, batch, topics: None, suspects: false, budget: Budget::UNLIMITED })
    }

    crate::setters! {
        /// Claims only these messages.
        pub fn topics(mut self, topics: Topics) { self.topics = Some(topics); }

        /// Claims one suspect: a message whose worker crashed. Other claims skip suspects, because a message that
        /// crashes workers is tried alone.
        pub fn suspects(mut self) { (self.suspects, self.batch) = (true, 1); }

        /// Claims at most this many bytes of payload, but at least one message.
        pub fn bytes(mut self, bytes: u64) { self.budget = Budget { bytes, least: 1 }; }
    }

    /// Returns whether it is for certain messages only, and leaves others in the queue.
    pub(crate) fn is_special(&self) -> bool {
        self.topics.is_some() || self.suspects
    }

    /// Returns which messages it is for.
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
        return Err(Error::invalid(format!("the lease is {lease:?}; it must be longer than zero and at most {max} s")));
    }
    Ok(())
}

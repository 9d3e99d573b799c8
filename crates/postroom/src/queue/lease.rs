//! A lease: the right to settle one row, for a while.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::message::{Message, OwnerToken};
use crate::queue::Reaped;

/// The most rows one claim may take.
pub const BATCH_MAX: usize = 10_000;
/// The longest lease.
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 3600);

/// The right to settle one row: its number, who claimed it, and the how-manieth claim of that row it was.
///
/// Every settle compares all three. A worker that was asleep while another one took the row over cannot touch it, not
/// even when it is the same worker that won it again.
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
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claimed {
    /// The right to settle it.
    pub lease: Lease,
    /// What it holds; an error when the row cannot be read as a message.
    pub message: std::result::Result<Message, String>,
}

/// What a claim found.
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
#[derive(Clone, Copy, Debug)]
pub struct ClaimRequest {
    pub(crate) owner: OwnerToken,
    pub(crate) lease: Duration,
    pub(crate) batch: usize,
}

impl ClaimRequest {
    /// Up to `batch` rows for `owner`, each for `lease`.
    pub fn new(owner: OwnerToken, lease: Duration, batch: usize) -> Result<Self> {
        check_lease(lease)?;
        if batch == 0 || batch > BATCH_MAX {
            return Err(Error::invalid(format!("a batch of {batch} rows; 1 to {BATCH_MAX} are allowed")));
        }
        Ok(Self { owner, lease, batch })
    }
}

pub(crate) fn check_lease(lease: Duration) -> Result<()> {
    if lease.is_zero() || lease > LEASE_MAX {
        let max = LEASE_MAX.as_secs();
        return Err(Error::invalid(format!("a lease of {lease:?}; more than 0 and at most {max} s are allowed")));
    }
    Ok(())
}

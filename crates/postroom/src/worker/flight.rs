//! What a worker holds at the moment, and for how long it may believe so.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::queue::Lease;

/// One message in hand.
#[derive(Debug)]
struct Flight {
    lease: Lease,
    max_attempts: Option<u32>,
    lost: CancellationToken,
    /// When the lease may be over, by the monotonic clock, counted from before it was asked for.
    deadline: Instant,
}

/// Everything in hand.
#[derive(Debug, Default)]
pub(super) struct Flights(HashMap<i64, Flight>);

impl Flights {
    pub(super) fn add(&mut self, lease: &Lease, max_attempts: Option<u32>, lost: CancellationToken, until: Instant) {
        let flight = Flight { lease: lease.clone(), max_attempts, lost, deadline: until };
        self.0.insert(lease.seq(), flight);
    }

    /// Forgets a message that has an outcome; says how many attempts it allows itself.
    pub(super) fn remove(&mut self, lease: &Lease) -> Option<u32> {
        // A late report of an earlier claim is not about the one in hand.
        let flight = self.0.get(&lease.seq()).filter(|flight| flight.lease == *lease)?;
        let max_attempts = flight.max_attempts;
        self.0.remove(&lease.seq());
        max_attempts
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Leases that end within `soon` of now.
    pub(super) fn ending_within(&self, soon: Duration, now: Instant) -> Vec<Lease> {
        let ending = self.0.values().filter(|flight| flight.deadline <= now + soon && !flight.lost.is_cancelled());
        ending.map(|flight| flight.lease.clone()).collect()
    }

    /// Takes the answer to a renewal asked for at `asked`.
    pub(super) fn renewed(&mut self, leases: &[Lease], held: &[bool], until: Instant) {
        for (lease, held) in leases.iter().zip(held) {
            let flight = self.0.get_mut(&lease.seq()).filter(|flight| flight.lease == *lease);
            match flight {
                Some(flight) if *held => flight.deadline = until,
                Some(flight) => flight.lost.cancel(),
                None => {}
            }
        }
    }

    /// Breaks off work whose lease could not be renewed in time: somebody else may have it any moment.
    pub(super) fn drop_overdue(&self, headroom: Duration, now: Instant) -> usize {
        let overdue = self.0.values().filter(|flight| flight.deadline <= now + headroom && !flight.lost.is_cancelled());
        overdue.map(|flight| flight.lost.cancel()).count()
    }

    pub(super) fn cancel_all(&self) {
        self.0.values().for_each(|flight| flight.lost.cancel());
    }
}

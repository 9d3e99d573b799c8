//! The messages that a worker has in progress, and how long it may rely on their leases.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::message::Message;
use crate::queue::Terms;
use crate::queue::retry::RetryPolicies;
use crate::queue::{Claimed, Lease, Place};
use crate::store::{Held, Holding};
use crate::support::clock::Timestamp;

/// What settling a message depends on.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) place: Place,
    pub(super) topic: String,
    pub(super) max_attempts: Option<u32>,
    pub(super) due_at: Timestamp,
    pub(super) bytes: u64,
    pub(super) is_suspect: bool,
    pub(super) has_lane: bool,
}

impl Facts {
    pub(super) fn of(claimed: &Claimed) -> Self {
        let message = claimed.message.as_deref();
        let due = |held: &Message| held.due_at.unwrap_or(held.created_at).max(held.created_at);
        Self {
            place: message.map_or_else(|_| Place::Topic(String::new()), Place::of),
            topic: message.map_or_else(|_| String::new(), |held| held.topic.clone()),
            max_attempts: message.ok().and_then(|held| held.max_attempts),
            due_at: message.map_or(claimed.lease.until(), due),
            bytes: message.map_or(0, |held| held.payload.len() as u64),
            is_suspect: claimed.lease.crashes() > 0,
            has_lane: message.is_ok_and(|held| held.lane.is_some()),
        }
    }

    pub(super) fn terms<'p>(&self, policies: &'p RetryPolicies, now: Timestamp) -> Terms<'p> {
        let destination = Some(self.place.name()).filter(|_| matches!(self.place, Place::Service(_)));
        let policy = policies.of(&self.topic, destination);
        Terms { policy, max_attempts: self.max_attempts, waited: now.since(self.due_at) }
    }
}

/// A message in progress.
#[derive(Debug)]
struct Flight {
    lease: Lease,
    facts: Facts,
    lost: CancellationToken,
    /// When the lease may run out, by the monotonic clock, counted from before it was requested.
    deadline: Instant,
}

/// All messages in progress. Meanwhile nobody in this process treats their leases as run out.
#[derive(Debug)]
pub(super) struct Flights {
    flights: HashMap<i64, Flight>,
    holding: Holding,
    bytes: u64,
}

impl Drop for Flights {
    fn drop(&mut self) {
        self.flights.keys().for_each(|seq| self.holding.remove(*seq));
    }
}

impl Flights {
    pub(super) fn new(holding: Holding) -> Self {
        Self { flights: HashMap::new(), holding, bytes: 0 }
    }

    pub(super) fn add(&mut self, lease: &Lease, facts: Facts, lost: CancellationToken, until: Instant) {
        self.bytes += facts.bytes;
        self.holding.add(lease.seq());
        let flight = Flight { lease: lease.clone(), facts, lost, deadline: until };
        self.flights.insert(lease.seq(), flight);
    }

    /// Removes a message that has an outcome. It stays held until the outcome is stored: see
    /// [`released`](Self::released).
    pub(super) fn remove(&mut self, lease: &Lease) -> Option<Facts> {
        // A late report of an earlier claim does not concern the claim in progress.
        self.flights.get(&lease.seq()).filter(|flight| flight.lease == *lease)?;
        let flight = self.flights.remove(&lease.seq())?;
        self.bytes = self.bytes.saturating_sub(flight.facts.bytes);
        Some(flight.facts)
    }

    /// Returns what is held until the outcome of these messages is stored.
    pub(super) fn released(&self, rows: Vec<i64>) -> Held {
        Held::new(self.holding.clone(), rows)
    }

    /// Returns the bytes of payload in progress.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.flights.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Returns the leases that end within `soon`.
    pub(super) fn ending_within(&self, soon: Duration, now: Instant) -> Vec<Lease> {
        let ending =
            self.flights.values().filter(|flight| flight.deadline <= now + soon && !flight.lost.is_cancelled());
        ending.map(|flight| flight.lease.clone()).collect()
    }

    /// Records the answer to a renewal that was requested at `asked`.
    pub(super) fn renewed(&mut self, leases: &[Lease], held: &[bool], until: Instant) {
        for (lease, held) in leases.iter().zip(held) {
            let flight = self.flights.get_mut(&lease.seq()).filter(|flight| flight.lease == *lease);
            match flight {
                Some(flight) if *held => flight.deadline = until,
                Some(flight) => flight.lost.cancel(),
                None => {}
            }
        }
    }

    /// Interrupts work whose lease could not be renewed in time, because somebody else may claim the message at any
    /// moment.
    pub(super) fn drop_overdue(&self, headroom: Duration, now: Instant) -> usize {
        let overdue =
            self.flights.values().filter(|flight| flight.deadline <= now + headroom && !flight.lost.is_cancelled());
        overdue.map(|flight| flight.lost.cancel()).count()
    }

    pub(super) fn cancel_all(&self) {
        self.flights.values().for_each(|flight| flight.lost.cancel());
    }
}

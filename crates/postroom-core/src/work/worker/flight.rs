//! The messages that a worker has in progress, and how long it may rely on their leases.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::message::Message;
use crate::queue::Terms;
use crate::queue::retry::RetryPolicies;
use crate::queue::{Claimed, Lease, Place};
use crate::store::{Held, Holding, Stop};
use crate::support::by_number::ByNumber;
use crate::support::clock::Timestamp;
use crate::work::batch::Lost;

/// What settling a message depends on.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) place: Arc<Place>,
    /// `None` if the row is unreadable.
    message: Option<Arc<Message>>,
    pub(super) is_suspect: bool,
}

impl Facts {
    /// Returns the facts of a batch. Messages of one place that follow one another share it.
    pub(super) fn of(batch: &[Claimed]) -> Vec<Self> {
        let mut place = Arc::new(Place::Topic(String::new()));
        let facts = batch.iter().map(|claimed| {
            let message = claimed.message.as_ref().ok().cloned();
            match message.as_deref() {
                Some(message) if !place.is_of(message) => place = Arc::new(Place::of(message)),
                None if !place.name().is_empty() => place = Arc::new(Place::Topic(String::new())),
                _ => {}
            }
            Self { place: place.clone(), message, is_suspect: claimed.lease.crashes() > 0 }
        });
        facts.collect()
    }

    pub(super) fn has_lane(&self) -> bool {
        self.message.as_ref().is_some_and(|message| message.lane.is_some())
    }

    fn bytes(&self) -> u64 {
        self.message.as_ref().map_or(0, |message| message.payload.len() as u64)
    }

    pub(super) fn terms<'p>(&self, policies: &'p RetryPolicies, now: Timestamp) -> Terms<'p> {
        Terms::of(policies, self.message.as_deref(), now)
    }
}

/// A message in progress.
#[derive(Debug)]
struct Flight {
    lease: Lease,
    facts: Facts,
    lost: Arc<Lost>,
    /// When the lease may run out, by the monotonic clock, counted from before it was requested.
    deadline: Instant,
}

impl Flight {
    fn is_lost(&self) -> bool {
        self.lost.has(self.lease.seq())
    }

    fn lose(&self) {
        self.lost.add(self.lease.seq());
    }
}

/// All messages in progress. Meanwhile nobody in this process treats their leases as run out.
#[derive(Debug)]
pub(super) struct Flights {
    flights: ByNumber<Flight>,
    holding: Holding,
    bytes: u64,
}

impl Drop for Flights {
    fn drop(&mut self) {
        self.holding.remove(self.flights.keys().copied());
    }
}

impl Flights {
    pub(super) fn new(holding: Holding) -> Self {
        Self { flights: ByNumber::default(), holding, bytes: 0 }
    }

    pub(super) fn add(&mut self, batch: &[Claimed], facts: Vec<Facts>, lost: &Arc<Lost>, until: Instant) {
        self.holding.add(batch.iter().map(|claimed| claimed.lease.seq()));
        for (Claimed { lease, .. }, facts) in batch.iter().zip(facts) {
            self.bytes += facts.bytes();
            let flight = Flight { lease: lease.clone(), facts, lost: lost.clone(), deadline: until };
            self.flights.insert(lease.seq(), flight);
        }
    }

    /// Removes a message that has an outcome. It stays held until the outcome is stored: see
    /// [`released`](Self::released).
    pub(super) fn remove(&mut self, lease: &Lease) -> Option<Facts> {
        // A late report of an earlier claim does not concern the claim in progress.
        match self.flights.entry(lease.seq()) {
            Entry::Occupied(flight) if flight.get().lease == *lease => {
                let facts = flight.remove().facts;
                self.bytes = self.bytes.saturating_sub(facts.bytes());
                Some(facts)
            }
            _ => None,
        }
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
        let ending = self.flights.values().filter(|flight| flight.deadline <= now + soon && !flight.is_lost());
        ending.map(|flight| flight.lease.clone()).collect()
    }

    /// Records the answer to a renewal that was requested at `asked`.
    pub(super) fn renewed(&mut self, leases: &[Lease], held: &[bool], until: Instant) {
        for (lease, held) in leases.iter().zip(held) {
            let flight = self.flights.get_mut(&lease.seq()).filter(|flight| flight.lease == *lease);
            match flight {
                Some(flight) if *held => flight.deadline = until,
                Some(flight) => flight.lose(),
                None => {}
            }
        }
    }

    /// Interrupts work whose lease could not be renewed in time, because somebody else may claim the message at any
    /// moment.
    pub(super) fn drop_overdue(&self, headroom: Duration, now: Instant) -> usize {
        let overdue = self.flights.values().filter(|flight| flight.deadline <= now + headroom && !flight.is_lost());
        overdue.map(Flight::lose).count()
    }

    /// Asks messages to stop. Their leases are renewed as before.
    pub(super) fn ask(&self, stops: &[Stop]) {
        for stop in stops {
            let flight = self.flights.get(&stop.seq).filter(|flight| flight.lease.claim_no() == stop.claim_no);
            if let Some(flight) = flight {
                flight.lost.ask(stop.seq);
            }
        }
    }

    pub(super) fn cancel_all(&self) {
        self.flights.values().for_each(Flight::lose);
    }
}

//! Stores which places are held, for operators and other processes.

use std::collections::HashSet;

use crate::mailbox::work_queue::WorkQueue;
use crate::message::OwnerToken;
use crate::queue::Outcome;
use crate::queue::Place;
use crate::store::{BoxFuture, Hold, HoldChange};
use crate::telemetry;
use crate::work::places::Places;

/// The places that this worker has stored as held.
#[derive(Debug, Default)]
pub(super) struct Holds {
    written: HashSet<Place>,
    failed: HashSet<Place>,
    lifted: HashSet<Place>,
}

impl Holds {
    /// Notes the outcome of a message at that place.
    pub(super) fn note(&mut self, place: &Place, outcome: &Outcome) {
        match outcome.fault() {
            Some(fault) if fault.holds_the_place() => {
                self.failed.insert(place.clone());
            }
            _ if !self.written.is_empty() && outcome.is_answered() && self.written.remove(place) => {
                self.lifted.insert(place.clone());
            }
            _ => {}
        }
    }

    /// Lifts all holds of this worker, because it ends and no longer keeps them up to date.
    pub(super) fn lift_all(&mut self) {
        self.lifted.extend(self.written.drain());
        self.failed.clear();
    }

    /// Stores the changes, if there are any.
    pub(super) fn write(
        &mut self,
        queue: &WorkQueue,
        places: &Places,
        owner: OwnerToken,
    ) -> Option<BoxFuture<'static, ()>> {
        if self.failed.is_empty() && self.lifted.is_empty() {
            return None;
        }
        let now = queue.time_hint();
        let held = self.failed.drain().filter_map(|place| {
            let held = places.get(&place)?.state().held?;
            let (since, tried_at) = (held.since, now.plus(held.tried_in));
            Some(Hold { place, since, tried_at, cause: Some(held.cause), why: held.why, waiting: 0 })
        });
        let held: Vec<_> = held.collect();
        self.written.extend(held.iter().map(|hold| hold.place.clone()));
        let lifted: Vec<_> = self.lifted.drain().filter(|place| !self.written.contains(place)).collect();
        if held.is_empty() && lifted.is_empty() {
            return None;
        }
        let (queue, change) = (queue.clone(), HoldChange { owner, held, lifted });
        Some(Box::pin(async move {
            if let Err(error) = queue.hold(change).await {
                telemetry::holds_not_written(queue.named(), &error);
            }
        }))
    }
}

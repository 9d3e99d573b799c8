//! How the in-memory store runs a verb, and which time it uses.

use super::{MemoryStore, Tables};
use crate::queue::Queue;
use crate::store::{BoxFuture, Times, Wake};
use crate::support::clock::{Doubt, Timestamp};
use crate::support::error::Result;

impl MemoryStore {
    pub(super) fn time(&self) -> (Timestamp, Doubt) {
        let now = self.0.clock.now();
        (now, self.0.clock.doubt())
    }

    /// Runs one verb under the lock. Then it reports dead messages and wakes the workers.
    pub(super) fn run<'a, T: Send + 'a>(
        &'a self,
        verb: impl FnOnce(&mut Tables, Timestamp) -> Result<T> + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        self.run_by(move |tables, now, _| verb(tables, now))
    }

    /// Does the same for a verb that grants something for a time, or revokes it when the time is over.
    pub(super) fn run_by<'a, T: Send + 'a>(
        &'a self,
        verb: impl FnOnce(&mut Tables, Timestamp, Doubt) -> Result<T> + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        Box::pin(async move {
            let (now, doubt) = self.time();
            let mut tables = self.tables();
            let result = verb(&mut tables, now, doubt);
            self.tell_deaths(&mut tables, now);
            [Queue::Outbox, Queue::Inbox].into_iter().for_each(|queue| tables.of(queue).order_lanes());
            drop(tables);
            self.0.wakes.iter().for_each(Wake::ring);
            result
        })
    }
}

impl Times for MemoryStore {
    fn correct_times(&self, queue: Queue) -> BoxFuture<'_, Result<u64>> {
        self.run_by(move |tables, now, doubt| Ok(tables.of(queue).correct_times(doubt.late(now))))
    }

    fn is_time_check_due(&self, _: Queue) -> bool {
        true
    }
}

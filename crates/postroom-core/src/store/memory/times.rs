//! How a verb of the in-memory store is run, and by what time.

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

    /// Runs one verb: all of it under the lock, then the news of deaths, then the bell.
    pub(super) fn run<'a, T: Send + 'a>(
        &'a self,
        verb: impl FnOnce(&mut Tables, Timestamp) -> Result<T> + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        self.run_by(move |tables, now, _| verb(tables, now))
    }

    /// The same for a verb that gives something for a time, or takes it away when that is over.
    pub(super) fn run_by<'a, T: Send + 'a>(
        &'a self,
        verb: impl FnOnce(&mut Tables, Timestamp, Doubt) -> Result<T> + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        Box::pin(async move {
            let (now, doubt) = self.time();
            let mut tables = self.tables();
            let result = verb(&mut tables, now, doubt);
            self.tell_deaths(&mut tables, now);
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

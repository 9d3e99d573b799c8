//! What an operator can ask about a running queue.

use crate::mailbox::work_queue::{WorkQueue, at_least_one};
use crate::queue::{Queue, State};
use crate::store::questions::{Activity, Flow, LastFailure, Newest, Occurrence, OccurrencesAfter, Tally};
use crate::store::{LanePlace, Lanes};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, Result};

impl WorkQueue {
    /// Returns the last row, the last failure, and when the last message was finished in each state.
    pub async fn newest(&self) -> Result<Newest> {
        self.store.newest(self.queue).await
    }

    /// Returns when workers last did something.
    pub async fn activity(&self) -> Result<Activity> {
        self.store.activity(self.queue).await
    }

    /// Returns how many ready messages are claimed before the one with this `visible_at` and number, counted up to
    /// `limit`.
    pub async fn ahead_of(&self, visible_at: Timestamp, seq: i64, limit: usize) -> Result<u64> {
        self.store.ahead_of(self.queue, visible_at, seq, at_least_one(limit)?).await
    }

    /// Returns how many messages arrived and were done in a time span, from the newest `rows` rows of each.
    pub async fn flow(&self, from: Timestamp, until: Timestamp, rows: usize) -> Result<Flow> {
        self.store.flow(self.queue, from, until, at_least_one(rows)?).await
    }

    /// Counts ready or dead messages by topic and other service. It reads at most `rows` rows; ready ones from the
    /// front of the queue.
    pub async fn tally(&self, state: State, rows: usize) -> Result<Vec<Tally>> {
        if !matches!(state, State::Ready | State::Dead) {
            return Err(Error::invalid("only ready or dead messages can be counted by topic and service"));
        }
        self.store.tally(self.queue, state, at_least_one(rows)?).await
    }

    /// Returns the last failed attempts, newest first.
    pub async fn last_failures(&self, limit: usize) -> Result<Vec<LastFailure>> {
        self.store.last_failures(self.queue, at_least_one(limit)?).await
    }

    /// Returns what happened after a place, in order.
    pub async fn occurrences(&self, request: OccurrencesAfter) -> Result<Vec<Occurrence>> {
        at_least_one(request.limit)?;
        self.store.occurrences(self.queue, request).await
    }

    /// Returns how many messages to a service [`redrive`](Self::redrive) would find that were done at that time or
    /// later.
    pub async fn count_delivered(&self, destination: &str, since: Timestamp) -> Result<u64> {
        self.only_outbox()?;
        self.store.count_delivered(destination.to_owned(), since).await
    }

    /// Returns the number of the last of the next `limit` of these messages after a row, or `None` if there are none.
    pub async fn delivered_up_to(
        &self,
        destination: &str,
        since: Timestamp,
        after: i64,
        limit: usize,
    ) -> Result<Option<i64>> {
        self.only_outbox()?;
        self.store.delivered_up_to(destination.to_owned(), since, after, at_least_one(limit)?).await
    }

    /// Returns the deepest lanes, those that are blocked by a dead message, up to `limit` of each, and how many there
    /// are. [`Lanes`] says what is looked at; each lane is one statement more. SQL Server has no lanes.
    pub async fn lanes(&self, limit: usize) -> Result<Lanes> {
        self.store.lanes(self.queue, at_least_one(limit)?).await
    }

    /// Returns where the message of this row stands in its lane, or `None` if it is in none, or no longer.
    pub async fn lane_of(&self, seq: i64) -> Result<Option<LanePlace>> {
        self.store.lane_of(self.queue, seq).await
    }

    fn only_outbox(&self) -> Result<()> {
        match self.queue {
            Queue::Outbox => Ok(()),
            Queue::Inbox => Err(Error::invalid("only messages of the outbox are delivered to a service")),
        }
    }
}

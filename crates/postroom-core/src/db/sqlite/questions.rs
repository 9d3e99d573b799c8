//! What operators ask of SQLite: a reader answers.

use crate::db::sqlite::SqliteStore;
use crate::db::sqlite::blocking::now;
use crate::message::InboxKey;
use crate::queue::{Queue, State};
use crate::store::BoxFuture;
use crate::store::questions::{Activity, Flow, LastFailure, Newest, Occurrence, OccurrencesAfter, Questions, Tally};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

impl Questions for SqliteStore {
    fn keys_of(&self, id: String) -> BoxFuture<'_, Result<Vec<InboxKey>>> {
        self.ask(move |verbs, conn, _| now(verbs.keys_of(conn, &id)))
    }

    fn newest(&self, queue: Queue) -> BoxFuture<'_, Result<Newest>> {
        self.ask(move |verbs, conn, _| now(verbs.newest(conn, queue)))
    }

    fn activity(&self, queue: Queue) -> BoxFuture<'_, Result<Activity>> {
        self.ask(move |verbs, conn, time| now(verbs.activity(conn, queue, time)))
    }

    fn ahead_of(&self, queue: Queue, visible_at: Timestamp, seq: i64, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.ask(move |verbs, conn, _| now(verbs.ahead_of(conn, queue, (visible_at, seq), limit)))
    }

    fn flow(&self, queue: Queue, from: Timestamp, until: Timestamp, rows: usize) -> BoxFuture<'_, Result<Flow>> {
        self.ask(move |verbs, conn, _| now(verbs.flow(conn, queue, (from, until), rows)))
    }

    fn tally(&self, queue: Queue, state: State, rows: usize) -> BoxFuture<'_, Result<Vec<Tally>>> {
        self.ask(move |verbs, conn, _| now(verbs.tally(conn, queue, state, rows)))
    }

    fn last_failures(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<Vec<LastFailure>>> {
        self.ask(move |verbs, conn, _| now(verbs.last_failures(conn, queue, limit)))
    }

    fn occurrences(&self, queue: Queue, request: OccurrencesAfter) -> BoxFuture<'_, Result<Vec<Occurrence>>> {
        self.ask(move |verbs, conn, _| now(verbs.occurrences(conn, queue, &request)))
    }

    fn count_delivered(&self, destination: String, since: Timestamp) -> BoxFuture<'_, Result<u64>> {
        self.ask(move |verbs, conn, _| now(verbs.count_delivered(conn, &destination, since)))
    }

    fn delivered_up_to(
        &self,
        destination: String,
        since: Timestamp,
        after: i64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Option<i64>>> {
        self.ask(move |verbs, conn, _| now(verbs.delivered_up_to(conn, (&destination, since), after, limit)))
    }
}

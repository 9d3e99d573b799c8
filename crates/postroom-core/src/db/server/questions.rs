//! What operators ask of a store on a database server.

use crate::db::server::{Engine, ServerStore};
use crate::message::InboxKey;
use crate::queue::{Queue, State};
use crate::store::BoxFuture;
use crate::store::questions::{Activity, Flow, LastFailure, Newest, Occurrence, OccurrencesAfter, Questions, Tally};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

impl<E: Engine> Questions for ServerStore<E> {
    fn keys_of(&self, id: String) -> BoxFuture<'_, Result<Vec<InboxKey>>> {
        self.verb(id, |verbs, link, id, _| Box::pin(verbs.keys_of(link, id)))
    }

    fn newest(&self, queue: Queue) -> BoxFuture<'_, Result<Newest>> {
        self.verb(queue, |verbs, link, queue, _| Box::pin(verbs.newest(link, *queue)))
    }

    fn activity(&self, queue: Queue) -> BoxFuture<'_, Result<Activity>> {
        self.verb(queue, |verbs, link, queue, now| Box::pin(verbs.activity(link, *queue, now)))
    }

    fn ahead_of(&self, queue: Queue, visible_at: Timestamp, seq: i64, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.verb((queue, (visible_at, seq), limit), |verbs, link, (queue, place, limit), _| {
            Box::pin(verbs.ahead_of(link, *queue, *place, *limit))
        })
    }

    fn flow(&self, queue: Queue, from: Timestamp, until: Timestamp, rows: usize) -> BoxFuture<'_, Result<Flow>> {
        self.verb((queue, (from, until), rows), |verbs, link, (queue, span, rows), _| {
            Box::pin(verbs.flow(link, *queue, *span, *rows))
        })
    }

    fn tally(&self, queue: Queue, state: State, rows: usize) -> BoxFuture<'_, Result<Vec<Tally>>> {
        self.verb((queue, state, rows), |verbs, link, (queue, state, rows), _| {
            Box::pin(verbs.tally(link, *queue, *state, *rows))
        })
    }

    fn last_failures(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<Vec<LastFailure>>> {
        self.verb((queue, limit), |verbs, link, (queue, limit), _| Box::pin(verbs.last_failures(link, *queue, *limit)))
    }

    fn occurrences(&self, queue: Queue, request: OccurrencesAfter) -> BoxFuture<'_, Result<Vec<Occurrence>>> {
        self.verb((queue, request), |verbs, link, (queue, request), _| {
            Box::pin(verbs.occurrences(link, *queue, request))
        })
    }

    fn count_delivered(&self, destination: String, since: Timestamp) -> BoxFuture<'_, Result<u64>> {
        self.verb((destination, since), |verbs, link, (destination, since), _| {
            Box::pin(verbs.count_delivered(link, destination, *since))
        })
    }

    fn delivered_up_to(
        &self,
        destination: String,
        since: Timestamp,
        after: i64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Option<i64>>> {
        self.verb((destination, since, after, limit), |verbs, link, (destination, since, after, limit), _| {
            Box::pin(verbs.delivered_up_to(link, (destination, *since), *after, *limit))
        })
    }
}

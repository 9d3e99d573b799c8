//! The queries of operators, in memory.

use std::collections::BTreeMap;

use super::MemoryStore;
use super::table::Table;
use crate::message::{InboxKey, Message, Origin};
use crate::queue::{Queue, State};
use crate::store::questions::{
    Activity, Flow, LastFailure, Newest, Occurrence, OccurrencesAfter, Passed, Place, Questions, Tally,
};
use crate::store::{BoxFuture, Failure, LanePlace, Lanes, Record};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

impl Questions for MemoryStore {
    fn keys_of(&self, id: String) -> BoxFuture<'_, Result<Vec<InboxKey>>> {
        self.run(move |tables, _| Ok(tables.of(Queue::Inbox).keys_of(&id)))
    }

    fn newest(&self, queue: Queue) -> BoxFuture<'_, Result<Newest>> {
        self.run(move |tables, _| Ok(tables.of(queue).newest()))
    }

    fn activity(&self, queue: Queue) -> BoxFuture<'_, Result<Activity>> {
        self.run(move |tables, now| {
            let maintained_at = tables.maintained_at;
            Ok(Activity { maintained_at, ..tables.of(queue).activity(now) })
        })
    }

    fn ahead_of(&self, queue: Queue, visible_at: Timestamp, seq: i64, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.run(move |tables, _| {
            let place = (Some(visible_at), seq);
            let ready = tables.of(queue).rows.values().filter(|record| record.state() == State::Ready);
            let ahead = ready.filter(|record| (record.visible_at(), record.seq) < place);
            Ok(ahead.take(limit).count() as u64)
        })
    }

    fn flow(&self, queue: Queue, from: Timestamp, until: Timestamp, rows: usize) -> BoxFuture<'_, Result<Flow>> {
        self.run(move |tables, _| Ok(tables.of(queue).flow(from, until, rows)))
    }

    fn tally(&self, queue: Queue, state: State, rows: usize) -> BoxFuture<'_, Result<Vec<Tally>>> {
        self.run(move |tables, _| Ok(tables.of(queue).tally(state, rows)))
    }

    fn last_failures(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<Vec<LastFailure>>> {
        self.run(move |tables, _| Ok(tables.of(queue).last_failures(limit)))
    }

    fn occurrences(&self, queue: Queue, request: OccurrencesAfter) -> BoxFuture<'_, Result<Vec<Occurrence>>> {
        self.run(move |tables, _| {
            let mut found = tables.of(queue).occurrences(&request);
            found.iter_mut().filter(|_| !request.with_payload).for_each(|occurrence| occurrence.payload = None);
            Ok(found)
        })
    }

    fn count_delivered(&self, destination: String, since: Timestamp) -> BoxFuture<'_, Result<u64>> {
        self.run(move |tables, _| Ok(tables.of(Queue::Outbox).delivered(&destination, since).count() as u64))
    }

    fn delivered_up_to(
        &self,
        destination: String,
        since: Timestamp,
        after: i64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Option<i64>>> {
        self.run(move |tables, _| {
            let delivered = tables.of(Queue::Outbox).delivered(&destination, since);
            Ok(delivered.filter(|seq| *seq > after).take(limit).last())
        })
    }

    fn lanes(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<Lanes>> {
        self.run(move |tables, _| Ok(tables.of(queue).lanes(limit)))
    }

    fn lane_of(&self, queue: Queue, seq: i64) -> BoxFuture<'_, Result<Option<LanePlace>>> {
        self.run(move |tables, _| Ok(tables.of(queue).lane_of(seq)))
    }
}

impl Table {
    fn keys_of(&self, id: &str) -> Vec<InboxKey> {
        let keys = self.rows.values().filter_map(|record| match &record.message.as_ref().ok()?.origin {
            Origin::Inbox { key, .. } => Some(key),
            Origin::Outbox { .. } => None,
        });
        keys.filter(|key| key.message_id() == id || key.to_string() == id).cloned().collect()
    }

    /// Returns every failure that is kept, by its number.
    fn numbered_failures(&self) -> BTreeMap<i64, (i64, &Failure)> {
        let mut failures = BTreeMap::new();
        for (seq, kept) in &self.failures {
            failures.extend(kept.iter().map(|(no, failure)| (*no, (*seq, failure))));
        }
        failures
    }

    fn finished_in(&self, state: State) -> impl Iterator<Item = (Timestamp, &Record)> {
        let rows = self.rows.values().filter(move |record| record.state() == state);
        rows.filter_map(|record| Some((record.processed_at()?, record)))
    }

    fn last_in(&self, state: State) -> Option<Timestamp> {
        self.finished_in(state).map(|(at, _)| at).max()
    }

    fn newest(&self) -> Newest {
        let last = self.rows.values().last();
        Newest {
            row: last.map(|record| record.seq),
            created_at: last.map(|record| record.work.created_at),
            failure: self.numbered_failures().keys().next_back().copied(),
            done_at: self.last_in(State::Done),
            dead_at: self.last_in(State::Dead),
            expired_at: self.last_in(State::Expired),
            dismissed_at: self.last_in(State::Dismissed),
        }
    }

    fn activity(&self, now: Timestamp) -> Activity {
        let leased = self.rows.values().filter(|record| record.state() == State::Leased);
        let held = leased.filter(|record| record.visible_at() > Some(now)).take(Activity::HELD_MAX);
        let (mut count, mut claimed_at) = (0, None);
        for record in held {
            (count, claimed_at) = (count + 1, claimed_at.max(record.last_attempt_at()));
        }
        let failed_at = self.numbered_failures().values().next_back().map(|(_, failure)| failure.at);
        Activity { held: count, claimed_at, done_at: self.last_in(State::Done), failed_at, maintained_at: None }
    }

    fn flow(&self, from: Timestamp, until: Timestamp, rows: usize) -> Flow {
        let passed = |times: &mut dyn Iterator<Item = Timestamp>| {
            let times: Vec<_> = times.take(rows).filter(|at| (from..=until).contains(at)).collect();
            Passed { messages: times.len() as u64, first_at: times.into_iter().min() }
        };
        let mut done: Vec<_> = self.finished_in(State::Done).map(|(at, _)| at).collect();
        done.sort_unstable_by(|one, other| other.cmp(one));
        Flow {
            arrived: passed(&mut self.rows.values().rev().map(|record| record.work.created_at)),
            done: passed(&mut done.into_iter()),
        }
    }

    fn tally(&self, state: State, rows: usize) -> Vec<Tally> {
        let mut looked_at: Vec<_> = self.rows.values().filter(|record| record.state() == state).collect();
        if !matches!(state, State::Ready | State::Dead) {
            looked_at.clear();
        }
        looked_at.sort_by_key(|record| record.visible_at());
        let mut counts = BTreeMap::new();
        for record in looked_at.into_iter().take(rows) {
            let message = record.message.as_ref().ok();
            let topic = message.map(|message| message.topic.clone());
            *counts.entry((topic, message.and_then(party))).or_default() += 1;
        }
        counts.into_iter().map(|((topic, party), messages)| Tally { topic, party, messages }).collect()
    }

    fn last_failures(&self, limit: usize) -> Vec<LastFailure> {
        let failures = self.numbered_failures().into_values().rev().take(limit);
        let told = failures.map(|(seq, failure)| {
            let message = self.rows.get(&seq).and_then(|record| record.message.as_ref().ok());
            let Failure { at, attempt, cause, error, .. } = failure.clone();
            LastFailure { at, topic: message.map(|message| message.topic.clone()), attempt, cause, error }
        });
        told.collect()
    }

    fn occurrences(&self, request: &OccurrencesAfter) -> Vec<Occurrence> {
        match &request.place {
            Place::Row { number, skipped } => {
                let rows = self.rows.iter().map(|(seq, record)| (*seq, Occurrence::of(record, record.work.created_at)));
                behind(rows, *number, skipped, request.limit)
            }
            Place::Failure { number, skipped } => {
                let failures = self.numbered_failures();
                let told = failures.into_iter().filter_map(|(no, (seq, failure))| {
                    let of_row = Occurrence::of(self.rows.get(&seq)?, failure.at);
                    let (error, attempts) = (failure.error.clone(), failure.attempt);
                    Some((no, Occurrence { number: no, error, attempts, ..of_row }))
                });
                behind(told, *number, skipped, request.limit)
            }
            Place::Finished { state, at, row } => {
                let mut finished: Vec<_> = self.finished_in(*state).collect();
                finished.retain(|(when, record)| (*when, record.seq) > (*at, *row));
                finished.sort_by_key(|(when, record)| (*when, record.seq));
                finished.into_iter().take(request.limit).map(|(when, record)| Occurrence::of(record, when)).collect()
            }
        }
    }

    fn delivered<'a>(&'a self, destination: &'a str, since: Timestamp) -> impl Iterator<Item = i64> + 'a {
        let done = self.finished_in(State::Done).filter(move |(at, _)| *at >= since);
        let to = move |record: &Record| {
            record.message.as_ref().is_ok_and(|message| message.destination() == Some(destination))
        };
        done.filter(move |(_, record)| to(record)).map(|(_, record)| record.seq)
    }
}

/// Returns what was skipped, and the next after a number.
fn behind(
    numbered: impl Iterator<Item = (i64, Occurrence)>,
    number: i64,
    skipped: &[i64],
    limit: usize,
) -> Vec<Occurrence> {
    let (before, mut found): (Vec<_>, Vec<_>) = numbered.partition(|(at, _)| *at <= number);
    found.truncate(limit);
    let before = before.into_iter().filter(|(at, _)| skipped.contains(at));
    before.chain(found).map(|(_, occurrence)| occurrence).collect()
}

pub(super) fn party(message: &Message) -> Option<String> {
    message.source().or(message.destination()).map(str::to_owned)
}

impl Occurrence {
    fn of(record: &Record, at: Timestamp) -> Self {
        let message = record.message.as_ref().ok();
        Self {
            number: record.seq,
            id: message.map(Message::id).unwrap_or_default(),
            topic: message.map(|message| message.topic.clone()).unwrap_or_default(),
            party: message.and_then(party),
            at,
            error: record.last_error().map(str::to_owned),
            attempts: record.attempts(),
            payload_bytes: message.map_or(0, |message| message.payload.len() as u64),
            payload: message.map(|message| message.payload.clone()),
        }
    }
}

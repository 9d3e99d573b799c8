//! The reference model, which is also a store for tests: everything is in memory, with one lock and the transition
//! table.

mod arrived;
mod audit;
mod failed;
mod handling;
mod holds;
mod lanes;
mod lanes_seen;
mod letters;
mod marks;
mod questions;
mod rules;
mod stops;
mod table;
mod times;
mod unique;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::message::{ContentHash, InboxKey, Incoming, NewMessage, WorkItemId};
use crate::queue::{AHEAD, Cause, ClaimRequest, Claims, Lease, Noted, Queue, Reaped, Rule, Settle, Settled, State};
use crate::sql::Statement;
use crate::store::{
    Admission, Arrival, Audited, BoxFuture, Cancelled, Deed, Failed, FailedGroup, Failure, Filter, Hold, HoldChange,
    Holding, Identity, LaneStep, LaneStepped, ManualMove, Operation, PutMode, QueueStats, Record, Sighting, Stop,
    Store, Stored, Target, Wake,
};
use crate::support::clock::{Clock, Timestamp};
use crate::support::error::{Error, ErrorKind, Result};
pub(crate) use arrived::Arrived;
pub(crate) use marks::Held;
use marks::MarkTable;
use table::Table;

/// A store that keeps everything in memory. Use it for tests, and as a baseline for measurements.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use postroom::{NewMessage, Outbox};
/// use postroom::store::MemoryStore;
///
/// let outbox = Outbox::new(MemoryStore::new());
/// outbox.enqueue(NewMessage::new("order.approved", "{}")).await?;
/// assert_eq!(outbox.queue().stats().await?.ready, 1);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct MemoryStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    clock: Clock,
    dead_letter_topic: Option<String>,
    tables: Mutex<Tables>,
    marks: MarkTable,
    wakes: [Wake; 2],
    holding: [Holding; 2],
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    outbox: Table,
    inbox: Table,
    maintained_at: Option<Timestamp>,
}

impl Tables {
    fn of(&mut self, queue: Queue) -> &mut Table {
        match queue {
            Queue::Outbox => &mut self.outbox,
            Queue::Inbox => &mut self.inbox,
        }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// Creates an empty store on the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(Clock::Database)
    }

    /// Creates an empty store on this clock.
    pub fn with_clock(clock: Clock) -> Self {
        Self::with_dead_letters(clock, None)
    }

    /// Creates an empty store that enqueues a notice about each dead message under a topic.
    pub fn with_dead_letters(clock: Clock, dead_letter_topic: Option<String>) -> Self {
        Self::empty("memory".into(), clock, dead_letter_topic)
    }

    /// Returns an empty store with the same settings and another name than `memory`. The name appears in logs, and a
    /// [`Router`](crate::Router) finds the store by it.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self::empty(name.into(), self.0.clock.clone(), self.0.dead_letter_topic.clone())
    }

    fn empty(name: String, clock: Clock, dead_letter_topic: Option<String>) -> Self {
        Self(Arc::new(Inner {
            name,
            clock,
            dead_letter_topic,
            tables: Mutex::default(),
            marks: MarkTable::default(),
            wakes: [Wake::new(), Wake::new()],
            holding: Default::default(),
        }))
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_deaths(&self, tables: &mut Tables, now: Timestamp) {
        let mut news = Vec::new();
        for queue in [Queue::Outbox, Queue::Inbox] {
            for (record, was) in std::mem::take(&mut tables.of(queue).deaths) {
                news.extend(self.0.dead_letter_topic.as_ref().and_then(|topic| record.obituary(queue, was, topic)));
            }
        }
        for message in news {
            tables.outbox.insert_new(&message, now, now);
        }
    }
}

impl Store for MemoryStore {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn clock(&self) -> &Clock {
        &self.0.clock
    }

    fn wake(&self, queue: Queue) -> &Wake {
        &self.0.wakes[queue.index()]
    }

    fn holding(&self, queue: Queue) -> &Holding {
        &self.0.holding[queue.index()]
    }

    fn enqueue(&self, messages: Vec<NewMessage>) -> BoxFuture<'_, Result<Vec<Stored>>> {
        self.run_by(move |tables, now, doubt| tables.outbox.insert_all(&messages, now, doubt.late(now)))
    }

    fn claim(&self, queue: Queue, request: ClaimRequest) -> BoxFuture<'_, Result<Claims>> {
        Box::pin(async move {
            let (now, doubt) = self.time();
            let mut tables = self.tables();
            let claims = tables.of(queue).claim(&request, self.holding(queue), now, doubt);
            self.tell_deaths(&mut tables, now);
            Ok(claims)
        })
    }

    fn settle(&self, queue: Queue, settles: Arc<Vec<Settle>>) -> BoxFuture<'_, Result<Settled>> {
        self.run_by(move |tables, now, doubt| {
            let mut settled = Settled::default();
            for settle in settles.iter() {
                settled.count(tables.of(queue).settle(settle, now, doubt.late(now)));
            }
            Ok(settled)
        })
    }

    fn extend(&self, queue: Queue, leases: Vec<Lease>, lease: Duration) -> BoxFuture<'_, Result<Vec<bool>>> {
        self.run_by(move |tables, now, doubt| {
            let mut extend = |one: &Lease| {
                let row = tables.of(queue).held(one);
                row.map(|row| row.work.extend(doubt.late(now).plus(lease))).is_some()
            };
            Ok(leases.iter().map(&mut extend).collect())
        })
    }

    fn reap(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<Reaped>> {
        self.run_by(move |tables, now, doubt| Ok(tables.of(queue).reap(limit, self.holding(queue), doubt.early(now))))
    }

    fn expire(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.run_by(move |tables, now, doubt| Ok(tables.of(queue).expire(limit, doubt.early(now))))
    }

    fn expire_dead(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.run_by(move |tables, now, doubt| Ok(tables.of(queue).expire_dead(limit, doubt.early(now))))
    }

    fn purge(&self, queue: Queue, state: State, retention: Duration, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.run_by(move |tables, now, doubt| {
            Ok(tables.of(queue).purge(state, doubt.early(now).minus(retention), limit))
        })
    }

    fn drop_payloads(&self, retention: Duration, limit: usize) -> BoxFuture<'_, Result<Option<u64>>> {
        self.run_by(move |tables, now, doubt| Ok(tables.inbox.drop_payloads(doubt.early(now).minus(retention), limit)))
    }

    fn change(&self, queue: Queue, change: Operation, deed: Deed) -> BoxFuture<'_, Result<u64>> {
        self.run_by(move |tables, now, doubt| Ok(tables.of(queue).change(&change, deed, now, doubt.early(now))))
    }

    fn cancel(&self, queue: Queue, target: Target, deed: Option<Deed>) -> BoxFuture<'_, Result<Cancelled>> {
        self.run(move |tables, now| Ok(tables.of(queue).cancel(&target, deed, now)))
    }

    fn cancel_lane(&self, queue: Queue, step: LaneStep, deed: Option<Deed>) -> BoxFuture<'_, Result<LaneStepped>> {
        self.run(move |tables, now| Ok(tables.of(queue).cancel_lane(&step, deed, now)))
    }

    fn stops(&self, queue: Queue) -> BoxFuture<'_, Result<Vec<Stop>>> {
        Box::pin(async move { Ok(self.tables().of(queue).stops()) })
    }

    fn holder(&self, key: String) -> BoxFuture<'_, Result<Option<WorkItemId>>> {
        self.run(move |tables, _| Ok(tables.outbox.last_holder(&key)))
    }

    fn sweep_keys(&self, _: usize) -> BoxFuture<'_, Result<u64>> {
        self.run(move |tables, now| {
            tables.outbox.sweep_keys(now);
            Ok(0)
        })
    }

    fn sweep_stops(&self, queue: Queue) -> BoxFuture<'_, Result<()>> {
        self.run(move |tables, _| {
            tables.of(queue).sweep_stops();
            Ok(())
        })
    }

    fn audit(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<Vec<Audited>>> {
        self.run(move |tables, _| Ok(tables.of(queue).audit(limit)))
    }

    fn see(&self, key: InboxKey, hash: Option<ContentHash>) -> BoxFuture<'_, Result<Sighting>> {
        self.run(move |tables, now| {
            let Some(record) = tables.inbox.by_key(&key) else {
                let incoming = Incoming { hash, ..Incoming::new(key, "", "") };
                tables.inbox.insert_incoming(&incoming, State::Seen, now, now);
                return Ok(Sighting { done: false, hash_differs: false });
            };
            let done = record.state() == State::Done;
            let stored = record.touch(now, hash.clone());
            let hash_differs = stored.zip(hash).is_some_and(|(stored, arrived)| stored.differs(&arrived));
            Ok(Sighting { done, hash_differs })
        })
    }

    fn put(&self, incoming: Incoming, mode: PutMode) -> BoxFuture<'_, Result<Arrival>> {
        self.run_by(move |tables, now, doubt| {
            tables.inbox.lanes.are_used |= incoming.lane.is_some();
            let Some(record) = tables.inbox.by_key(&incoming.key) else {
                tables.inbox.insert_incoming(&incoming, State::Ready, now, doubt.late(now));
                return Ok(Arrival::First);
            };
            record.touch(now, None);
            let arrival = record.put(&incoming, mode, doubt.late(now));
            record.refresh();
            Ok(arrival)
        })
    }

    fn refuse(&self, incoming: Incoming, why: String) -> BoxFuture<'_, Result<Admission>> {
        let (admission, arrived) = self.arrive(&incoming, Duration::from_secs(60));
        self.run(move |tables, now| {
            let Some(arrived) = arrived else { return Ok(admission) };
            if let (Some(record), Admission::Held { lease, .. }) = (tables.inbox.by_key(&incoming.key), &admission) {
                let was = record.state();
                record.refuse(&why, now);
                record.refresh();
                let death = (record.clone(), was);
                let failure = Noted::new(Cause::Refused, &why);
                tables.inbox.note_failure(&death.0, Some(lease.owner), &failure, now);
                tables.inbox.deaths.push(death);
            }
            arrived.keep();
            Ok(Admission::Refused { why })
        })
    }

    fn mark(&self, key: InboxKey, mark: ManualMove) -> BoxFuture<'_, Result<bool>> {
        self.run(move |tables, now| {
            let Some(record) = tables.inbox.by_key(&key) else { return Ok(false) };
            let was = record.state();
            let applied = record.apply_mark(&mark, now);
            record.refresh();
            let death = (record.clone(), was);
            // What is dead by hand does not block its lane.
            if applied {
                tables.inbox.leave_lane(death.0.seq);
            }
            if let Some(failure) = mark.failure().filter(|_| applied) {
                tables.inbox.note_failure(&death.0, None, &failure, now);
            }
            tables.inbox.deaths.push(death);
            Ok(applied)
        })
    }

    fn find(&self, id: Identity) -> BoxFuture<'_, Result<Vec<Record>>> {
        self.run(move |tables, _| match id {
            Identity::Inbox(key) => Ok(tables.inbox.by_key(&key).cloned().into_iter().collect()),
            Identity::Outbox(wanted) => Ok(tables.outbox.by_id(wanted)),
        })
    }

    fn list(&self, queue: Queue, filter: Filter) -> BoxFuture<'_, Result<Vec<Record>>> {
        self.run(move |tables, _| {
            let rows = tables.of(queue).rows.values().filter(|record| filter.accepts(record));
            Ok(rows.take(filter.limit).cloned().collect())
        })
    }

    fn failures(&self, queue: Queue, seq: i64) -> BoxFuture<'_, Result<Vec<Failure>>> {
        self.run(move |tables, _| Ok(tables.of(queue).failures_of(seq)))
    }

    fn failed(&self, queue: Queue, filter: Filter) -> BoxFuture<'_, Result<Vec<Failed>>> {
        self.run(move |tables, _| Ok(tables.of(queue).failed(&filter)))
    }

    fn failed_groups(&self, queue: Queue, rows: usize) -> BoxFuture<'_, Result<Vec<FailedGroup>>> {
        self.run(move |tables, _| Ok(tables.of(queue).failed_groups(rows)))
    }

    fn hold(&self, queue: Queue, change: HoldChange) -> BoxFuture<'_, Result<()>> {
        self.run(move |tables, now| {
            tables.of(queue).hold(&change, now);
            Ok(())
        })
    }

    fn holds(&self, queue: Queue) -> BoxFuture<'_, Result<Vec<Hold>>> {
        self.run(move |tables, now| Ok(tables.of(queue).holds(now)))
    }

    fn rules(&self, queue: Queue) -> BoxFuture<'_, Result<Vec<Rule>>> {
        self.run(move |tables, _| Ok(tables.of(queue).rules()))
    }

    fn overdue(&self, queue: Queue, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.run_by(move |tables, now, doubt| Ok(tables.of(queue).overdue(limit, doubt.early(now))))
    }

    fn purgeable(&self, queue: Queue, retention: Duration, limit: usize) -> BoxFuture<'_, Result<u64>> {
        self.run(move |tables, now| Ok(tables.of(queue).old(State::Done, now.minus(retention), limit).len() as u64))
    }

    fn stats(&self, queue: Queue) -> BoxFuture<'_, Result<QueueStats>> {
        self.run(move |tables, now| Ok(tables.of(queue).stats(now)))
    }

    fn backlog(&self, queue: Queue) -> BoxFuture<'_, Result<u64>> {
        self.run(move |tables, now| {
            let stats = tables.of(queue).stats(now);
            Ok(stats.ready + stats.leased)
        })
    }

    fn insert_statement(&self, _: &NewMessage) -> Result<Statement> {
        Err(no_sql())
    }

    fn accept_statement(&self, _: &Incoming) -> Result<Statement> {
        Err(no_sql())
    }

    fn ack_statement(&self, _: Queue, _: &Lease, _: Option<&str>) -> Result<Statement> {
        Err(no_sql())
    }

    fn take_maintenance(&self, interval: Duration) -> BoxFuture<'_, Result<bool>> {
        self.run(move |tables, now| {
            let is_free = |last| last <= now.minus(interval) || last > now.plus(AHEAD);
            let free = tables.maintained_at.is_none_or(is_free);
            tables.maintained_at = if free { Some(now) } else { tables.maintained_at };
            Ok(free)
        })
    }
}

fn no_sql() -> Error {
    Error::new(ErrorKind::Unsupported, "the in-memory store has no SQL transactions to take part in")
}

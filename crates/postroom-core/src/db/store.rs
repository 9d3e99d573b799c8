//! The store on SQL, whatever the database: each operation is one line here, which says how it runs and which
//! statements it uses.
//!
//! The databases differ in how an operation runs: `ask` reads, `write` is a transaction, and `ring` is a transaction
//! after which there may be messages to claim. They also differ in the hot operations, and in closing files and
//! connections. Each database implements these on the shared state of its stores.

use std::sync::Arc;
use std::time::Duration;

#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
use crate::db::server::{Engine, ServerStore};
#[cfg(feature = "sqlite")]
use crate::db::sqlite::SqliteStore;
use crate::message::{ContentHash, InboxKey, Incoming, NewMessage, WorkItemId};
use crate::queue::{ClaimRequest, Claims, Lease, Queue, Reaped, Rule, Settle, Settled, State};
use crate::sql::Statement;
use crate::store::questions::{Activity, Flow, LastFailure, Newest, Occurrence, OccurrencesAfter, Questions, Tally};
use crate::store::{
    Admission, Arrival, Audited, BoxFuture, Cancelled, Deed, Failed, FailedGroup, Failure, Filter, Fingerprint,
    HandledMark, HandledMarks, Hold, HoldChange, Holding, Identity, LanePlace, LaneStep, LaneStepped, Lanes,
    ManualMove, Marked, Operation, PutMode, QueueStats, Record, Sighting, Stop, Store, Stored, Target, Times, Wake,
};
use crate::support::clock::{Clock, Timestamp};
use crate::support::error::Result;

/// Methods of a store: how each runs, its arguments, and what it runs on the database. An operation may run more than
/// once, so it borrows its arguments.
macro_rules! verbs {
    ($verbs:ident, $session:ident, $now:ident: $(
        $how:ident $(($queue:expr))? fn $name:ident($($arg:ident: $type:ty),*) -> $answer:ty { $call:expr }
    )*) => { $(
        #[allow(unused_variables, reason = "not every operation needs the time")]
        fn $name(&self, $($arg: $type),*) -> BoxFuture<'_, Result<$answer>> {
            Box::pin(self.0.$how($($queue,)? ($($arg,)*), |$verbs, $session, ($($arg,)*), $now| Box::pin($call)))
        }
    )* };
}

macro_rules! sql_store {
    ([$($generics:tt)*] $store:ty) => {
        impl<$($generics)*> Store for $store {
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
                self.0.verbs.holding(queue)
            }

            fn enqueue(&self, messages: Vec<NewMessage>) -> BoxFuture<'_, Result<Vec<Stored>>> {
                Box::pin(self.0.enqueue(messages))
            }

            fn claim(&self, queue: Queue, request: ClaimRequest) -> BoxFuture<'_, Result<Claims>> {
                Box::pin(self.0.claim(queue, request))
            }

            fn settle(&self, queue: Queue, settles: Arc<Vec<Settle>>) -> BoxFuture<'_, Result<Settled>> {
                Box::pin(self.0.settle(queue, settles))
            }

            fn extend(&self, queue: Queue, leases: Vec<Lease>, lease: Duration) -> BoxFuture<'_, Result<Vec<bool>>> {
                Box::pin(self.0.extend(queue, leases, lease))
            }

            fn insert_statement(&self, message: &NewMessage) -> Result<Statement> {
                self.0.verbs.insert(message, self.0.clock.now())
            }

            fn accept_statement(&self, incoming: &Incoming) -> Result<Statement> {
                Ok(self.0.verbs.accept(incoming, self.0.clock.now()))
            }

            fn ack_statement(&self, queue: Queue, lease: &Lease, response: Option<&str>) -> Result<Statement> {
                Ok(self.0.verbs.ack(queue, lease, response, self.0.clock.now()))
            }

            fn keeps_lanes(&self) -> bool {
                self.0.verbs.keeps_lanes()
            }

            fn lanes_settled(&self, queue: Queue) {
                self.0.verbs.expect_notes(queue);
                self.wake(queue).ring();
            }

            fn fingerprint(&self) -> Option<Fingerprint> {
                self.0.fingerprint()
            }

            fn close(&self) -> BoxFuture<'_, ()> {
                Box::pin(self.0.let_go())
            }

            fn change(&self, queue: Queue, change: Operation, deed: Deed) -> BoxFuture<'_, Result<u64>> {
                Box::pin(async move {
                    let lanes = change.lanes().cloned();
                    let args = (queue, change, deed);
                    let changing = self.0.ring(queue, args, |verbs, session, (queue, change, deed), now| {
                        Box::pin(verbs.change(session, *queue, change, deed, now))
                    });
                    let changed = changing.await?;
                    if let Some(scope) = lanes {
                        let follow = self.0.ring(queue, (queue, scope), |verbs, session, (queue, scope), _| {
                            Box::pin(verbs.after_change(session, *queue, scope))
                        });
                        follow.await?;
                    }
                    Ok(changed)
                })
            }

            verbs! { verbs, session, now:
                ring(queue) fn reap(queue: Queue, limit: usize) -> Reaped {
                    verbs.reap(session, *queue, *limit, now)
                }
                ring(queue) fn expire(queue: Queue, limit: usize) -> u64 { verbs.expire(session, *queue, *limit, now) }
                ring(queue) fn expire_dead(queue: Queue, limit: usize) -> u64 {
                    verbs.expire_dead(session, *queue, *limit, now)
                }
                write fn purge(queue: Queue, state: State, retention: Duration, limit: usize) -> u64 {
                    verbs.purge(session, *queue, *state, now.minus(*retention), *limit)
                }
                write fn drop_payloads(retention: Duration, limit: usize) -> Option<u64> {
                    verbs.drop_payloads(session, (now, now.minus(*retention)), *limit)
                }
                ring(queue) fn cancel(queue: Queue, target: Target, deed: Option<Deed>) -> Cancelled {
                    verbs.cancel(session, *queue, target, deed.as_ref(), now)
                }
                ring(queue) fn cancel_lane(queue: Queue, step: LaneStep, deed: Option<Deed>) -> LaneStepped {
                    verbs.cancel_lane(session, *queue, step, deed.as_ref(), now)
                }
                ask fn stops(queue: Queue) -> Vec<Stop> { verbs.stops(session, *queue) }
                write fn sweep_keys(limit: usize) -> u64 { verbs.sweep_keys(session, *limit, now) }
                ask fn holder(key: String) -> Option<WorkItemId> { verbs.last_holder(session, key) }
                write fn sweep_stops(queue: Queue) -> () { verbs.sweep_stops(session, *queue) }
                ask fn audit(queue: Queue, limit: usize) -> Vec<Audited> { verbs.audit(session, *queue, *limit) }
                write fn see(key: InboxKey, hash: Option<ContentHash>) -> Sighting {
                    verbs.see(session, key, hash.as_ref(), now)
                }
                ring(Queue::Inbox) fn put(incoming: Incoming, mode: PutMode) -> Arrival {
                    verbs.put(session, incoming, *mode, now)
                }
                ring(Queue::Inbox) fn refuse(incoming: Incoming, why: String) -> Admission {
                    verbs.refuse(session, incoming, why, now)
                }
                ring(Queue::Inbox) fn mark(key: InboxKey, mark: ManualMove) -> bool {
                    verbs.mark(session, key, mark, now)
                }
                ask fn find(id: Identity) -> Vec<Record> { verbs.find(session, id) }
                ask fn list(queue: Queue, filter: Filter) -> Vec<Record> { verbs.list(session, *queue, filter) }
                ask fn failures(queue: Queue, seq: i64) -> Vec<Failure> { verbs.failures(session, *queue, *seq) }
                ask fn failed(queue: Queue, filter: Filter) -> Vec<Failed> { verbs.failed(session, *queue, filter) }
                ask fn failed_groups(queue: Queue, rows: usize) -> Vec<FailedGroup> {
                    verbs.failed_groups(session, *queue, *rows)
                }
                write fn hold(queue: Queue, change: HoldChange) -> () { verbs.hold(session, *queue, change, now) }
                ask fn holds(queue: Queue) -> Vec<Hold> { verbs.holds(session, *queue, now) }
                ask fn rules(queue: Queue) -> Vec<Rule> { verbs.rules(session, *queue) }
                ask fn overdue(queue: Queue, limit: usize) -> u64 { verbs.overdue(session, *queue, *limit, now) }
                ask fn purgeable(queue: Queue, retention: Duration, limit: usize) -> u64 {
                    verbs.purgeable(session, *queue, now.minus(*retention), *limit)
                }
                ask fn stats(queue: Queue) -> QueueStats { verbs.stats(session, *queue, now) }
                ask fn backlog(queue: Queue) -> u64 { verbs.backlog(session, *queue) }
                ask fn inbox_size() -> u64 { verbs.inbox_size(session) }
                ask fn check_schema() -> () {
                    async move { verbs.check_schema(verbs.schema_version(session).await?) }
                }
                write fn take_maintenance(interval: Duration) -> bool {
                    verbs.take_maintenance(session, *interval, now)
                }
            }
        }

        impl<$($generics)*> Questions for $store {
            verbs! { verbs, session, now:
                ask fn keys_of(id: String) -> Vec<InboxKey> { verbs.keys_of(session, id) }
                ask fn newest(queue: Queue) -> Newest { verbs.newest(session, *queue) }
                ask fn activity(queue: Queue) -> Activity { verbs.activity(session, *queue, now) }
                ask fn ahead_of(queue: Queue, visible_at: Timestamp, seq: i64, limit: usize) -> u64 {
                    verbs.ahead_of(session, *queue, (*visible_at, *seq), *limit)
                }
                ask fn flow(queue: Queue, from: Timestamp, until: Timestamp, rows: usize) -> Flow {
                    verbs.flow(session, *queue, (*from, *until), *rows)
                }
                ask fn tally(queue: Queue, state: State, rows: usize) -> Vec<Tally> {
                    verbs.tally(session, *queue, *state, *rows)
                }
                ask fn last_failures(queue: Queue, limit: usize) -> Vec<LastFailure> {
                    verbs.last_failures(session, *queue, *limit)
                }
                ask fn occurrences(queue: Queue, request: OccurrencesAfter) -> Vec<Occurrence> {
                    verbs.occurrences(session, *queue, request)
                }
                ask fn count_delivered(destination: String, since: Timestamp) -> u64 {
                    verbs.count_delivered(session, destination, *since)
                }
                ask fn delivered_up_to(
                    destination: String, since: Timestamp, after: i64, limit: usize
                ) -> Option<i64> {
                    verbs.delivered_up_to(session, (destination, *since), *after, *limit)
                }
                ask fn lanes(queue: Queue, limit: usize) -> Lanes { verbs.lanes(session, *queue, *limit) }
                ask fn lane_of(queue: Queue, seq: i64) -> Option<LanePlace> { verbs.lane_of(session, *queue, *seq) }
            }
        }

        impl<$($generics)*> Times for $store {
            /// Works in steps, each a transaction.
            fn correct_times(&self, queue: Queue) -> BoxFuture<'_, Result<u64>> {
                Box::pin(async move {
                    let (mut rows, mut from) = (0, None);
                    loop {
                        let correct = self.0.write((queue, from), |verbs, session, (queue, from), now| {
                            Box::pin(verbs.correct_times(session, *queue, *from, now))
                        });
                        let step = correct.await?;
                        (rows, from) = (rows + step.rows, step.next);
                        if step.rows > 0 {
                            self.wake(queue).ring_everywhere();
                        }
                        if from.is_none() {
                            return Ok(rows);
                        }
                    }
                })
            }

            fn is_time_check_due(&self, queue: Queue) -> bool {
                self.0.verbs.is_time_check_due(queue)
            }
        }

        impl<$($generics)*> HandledMarks for $store {
            verbs! { verbs, session, now:
                write fn put_mark(mark: HandledMark, topic: String) -> Option<Timestamp> {
                    verbs.put_mark(session, mark, topic, now)
                }
                ask fn find_mark(mark: HandledMark) -> Option<Marked> { verbs.find_mark(session, mark) }
                write fn remove_mark(mark: HandledMark, marked_at: Timestamp) -> bool {
                    verbs.remove_mark(session, mark, *marked_at)
                }
                write fn purge_marks(handler: Arc<str>, retention: Duration, limit: usize) -> u64 {
                    verbs.purge_marks(session, handler, now.minus(*retention), *limit)
                }
            }
        }
    };
}

#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
sql_store!([E: Engine] ServerStore<E>);
#[cfg(feature = "sqlite")]
sql_store!([] SqliteStore);

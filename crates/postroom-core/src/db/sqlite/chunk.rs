//! Blocking handlers on the writer thread, several in one job, each in a savepoint.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{CachedStatement, Connection, OptionalExtension};
use tokio::sync::oneshot;

use crate::db::sqlite::blocking::now;
use crate::db::sqlite::driver_rusqlite::SqliteConn;
use crate::db::sqlite::guard::{Guard, OnDemand, Savepoints, TransactionLost};
use crate::db::sqlite::handling::{as_error, call};
use crate::db::sqlite::job::{Job, Ran, lost};
use crate::db::sqlite::store::SqliteShared;
use crate::db::sqlite::writer::broken_down;
use crate::db::sqlite::{BlockingCtx, BlockingHandler, SqliteStore, SqliteTx};
use crate::message::{Message, answer_to};
use crate::queue::Outcome;
use crate::queue::{Cause, Claimed, Lease, Queue};
use crate::sql::Statement;
use crate::store::Store;
use crate::support::clock::monotonic;
use crate::support::error::{ErrorKind, Result};
use crate::telemetry::{self, Meters};
use crate::work::batch::BatchRun;
use crate::work::handler::States;

/// How long a job may hold the writer. What it does not finish in this time is submitted again.
const CHUNK_TIME: Duration = Duration::from_millis(5);

type Work = (Claimed, BlockingHandler);

/// Runs all work items, as many in one commit as fit, and reports each outcome as soon as it is stored.
pub(super) async fn run_all(store: &SqliteStore, queue: Queue, work: Vec<Work>, state: &States, run: &BatchRun) {
    let mut left = work;
    while !left.is_empty() {
        let (over, chunk): (Vec<_>, Vec<_>) = left.into_iter().partition(|(claimed, _)| run.is_over(&claimed.lease));
        over.into_iter().for_each(|(claimed, _)| run.report(claimed.lease, Outcome::Release));
        left = if chunk.is_empty() { chunk } else { run_chunk(store, queue, chunk, state, run).await };
    }
}

/// Runs some of them and reports them; returns the rest.
async fn run_chunk(store: &SqliteStore, queue: Queue, chunk: Vec<Work>, state: &States, run: &BatchRun) -> Vec<Work> {
    let leases: Vec<Lease> = chunk.iter().map(|(claimed, _)| claimed.lease.clone()).collect();
    let (reply, answer) = oneshot::channel();
    let job = ChunkJob {
        core: store.0.clone(),
        queue,
        state: state.clone(),
        chunk,
        outcomes: Vec::new(),
        enqueued: false,
        meters: run.meters.clone(),
        reply,
    };
    let done = match store.0.writer.submit(Box::new(job)) {
        Ok(()) => answer.await.map_err(|_| broken_down()),
        Err(error) => Err(error),
    };
    let mut done = match done {
        Ok(done) => done,
        Err(error) => {
            leases.into_iter().for_each(|lease| run.report(lease, Outcome::of_database(&error)));
            return Vec::new();
        }
    };
    if done.enqueued {
        store.wake(Queue::Outbox).ring();
    }
    match done.commit {
        Ok(()) => {
            let rest = done.chunk.split_off(done.outcomes.len());
            // What is measured is looked up here: the writer does nothing that others can do beside it.
            for ((claimed, _), (outcome, took)) in done.chunk.iter().zip(&done.outcomes) {
                if let (Ok(message), Some(took)) = (&claimed.message, took) {
                    run.meters.ended(message, *took, outcome.is_done());
                }
            }
            for (lease, outcome) in ack_outside(store, queue, done.chunk, done.outcomes).await {
                run.report(lease, outcome);
            }
            rest
        }
        // One of them broke the transaction; running each of them separately shows which.
        Err(error) if done.chunk.len() > 1 && error.kind() != ErrorKind::Unavailable => {
            for one in done.chunk {
                Box::pin(run_chunk(store, queue, vec![one], state, run)).await;
            }
            Vec::new()
        }
        Err(error) => {
            done.chunk.into_iter().for_each(|(claimed, _)| run.report(claimed.lease, Outcome::of_database(&error)));
            Vec::new()
        }
    }
}

/// The wrong way to do it, kept to show that the tests would notice.
async fn ack_outside(
    store: &SqliteStore,
    queue: Queue,
    chunk: Vec<Work>,
    outcomes: Vec<(Outcome, Option<Duration>)>,
) -> Vec<(Lease, Outcome)> {
    let outcomes = outcomes.into_iter().map(|(outcome, _)| outcome);
    let settled = chunk.into_iter().map(|(claimed, _)| claimed.lease).zip(outcomes);
    if !store.0.ack_outside {
        return settled.collect();
    }
    let mut late = Vec::new();
    for (lease, outcome) in settled {
        let acked = match outcome {
            Outcome::Settled => {
                let (tx, lease) = (SqliteTx::new(store.0.clone(), Duration::ZERO), lease.clone());
                tx.commit(Some((queue, &lease, None))).await.map_or(Outcome::Lost, |()| Outcome::Settled)
            }
            other => other,
        };
        late.push((lease, acked));
    }
    late
}

/// Several blocking handlers, one after the other, each in a savepoint with its ack.
struct ChunkJob {
    core: Arc<SqliteShared>,
    queue: Queue,
    state: States,
    chunk: Vec<Work>,
    /// How each of the first messages ended, and how long its handler took.
    outcomes: Vec<(Outcome, Option<Duration>)>,
    enqueued: bool,
    meters: Arc<Meters>,
    reply: oneshot::Sender<ChunkDone>,
}

struct ChunkDone {
    chunk: Vec<Work>,
    /// How each of the first messages ended, and how long its handler took.
    outcomes: Vec<(Outcome, Option<Duration>)>,
    enqueued: bool,
    commit: Result<()>,
}

/// Statements that each handler of a chunk needs.
struct Prepared<'c> {
    savepoints: Savepoints<'c>,
    held: CachedStatement<'c>,
    /// The lease that was found last, and the last message that is held with it.
    known: Option<(Lease, i64)>,
}

/// How a message was handled.
struct Handled {
    outcome: Outcome,
    /// How long its handler took, if it ran.
    took: Option<Duration>,
    enqueued: bool,
    response: Option<String>,
}

impl Handled {
    fn not(outcome: Outcome) -> Self {
        Self { outcome, took: None, enqueued: false, response: None }
    }
}

/// What a handler answered to the message of that number in the chunk.
type Answered = (usize, Option<String>);

impl Prepared<'_> {
    /// Whether a lease is held. Messages that were claimed together are held together. No other connection can write
    /// until the group commits: a lease that is valid now is valid until then.
    fn is_held(
        &mut self,
        lease: &Lease,
        ask: impl FnOnce() -> Statement,
    ) -> std::result::Result<bool, TransactionLost> {
        if self.known.as_ref().is_some_and(|(known, last)| known.is_shared_by(lease, *last)) {
            return Ok(true);
        }
        let ask = ask();
        let values = rusqlite::params_from_iter(ask.values());
        let last: Option<i64> = self.held.query_row(values, |row| row.get(0)).optional().map_err(spoilt)?;
        self.known = last.map(|last| (lease.clone(), last));
        Ok(last.is_some())
    }
}

fn spoilt(error: rusqlite::Error) -> TransactionLost {
    TransactionLost(error.into())
}

impl ChunkJob {
    fn prepare<'c>(&self, conn: &'c Connection, guard: &Guard) -> Result<Prepared<'c>> {
        let statements = self.core.verbs.statements.of(self.queue);
        let held = conn.prepare_cached(statements.held.sql())?;
        Ok(Prepared { savepoints: guard.savepoints(conn)?, held, known: None })
    }

    /// Acknowledges what was handled, as runs. This is outside the handlers' savepoints, because SQLite copies every
    /// page that is changed inside a savepoint.
    fn ack(&self, conn: &Connection, answered: &[Answered]) -> Result<()> {
        if self.core.ack_outside {
            return Ok(());
        }
        let lease = |(place, response): &Answered| (self.chunk[*place].0.lease.clone(), response.clone());
        let mut acks: Vec<_> = answered.iter().map(lease).collect();
        acks.sort_by_key(|(lease, _)| lease.seq);
        let acks: Vec<_> = acks.iter().map(|(lease, response)| (lease, response.as_deref())).collect();
        let session = &mut SqliteConn::new(conn);
        let acked = now(self.core.verbs.ack_many(session, self.queue, &acks, self.core.clock.now()))?;
        // A handler itself may have deleted its message.
        if acked == acks.len() as u64 { Ok(()) } else { Err(lost()) }
    }

    fn run_one(
        &self,
        conn: &Connection,
        on: &mut Prepared<'_>,
        lease: &Lease,
        message: &Message,
        handler: &BlockingHandler,
        time: &mut Instant,
    ) -> std::result::Result<Handled, TransactionLost> {
        let _span = telemetry::handle_span(&self.core.name, self.queue, message).entered();
        telemetry::handling(&self.core.name, self.queue, message);
        let (mut failure, mut enqueued) = (None, false);
        let handle = |savepoint: &OnDemand<'_, '_>| {
            let (begin, core, state) = (|| savepoint.begin(), &self.core, &self.state);
            let mut ctx = BlockingCtx { conn, savepoint: Some(&begin), core, message, state, enqueued: false };
            let handled = match call(handler, &mut ctx) {
                Ok(response) => {
                    if let Some(answer) = answer_to(message, response.as_deref()) {
                        ctx.enqueue(&answer)?;
                    }
                    Ok(response)
                }
                Err(error) => {
                    let why = as_error(&error);
                    failure = Some(error);
                    Err(why)
                }
            };
            enqueued = ctx.enqueued;
            handled
        };
        if !on.is_held(lease, || self.core.verbs.held(self.queue, lease))? {
            return Ok(Handled::not(Outcome::Lost));
        }
        let result = on.savepoints.run_on_demand(handle)?;
        let enqueued = enqueued && result.is_ok();
        let (outcome, response) = match (result, failure) {
            (Ok(response), _) => (Outcome::Settled, response),
            (Err(_), Some(failure)) => (failure.into(), None),
            (Err(error), None) => (Outcome::of_database(&error), None),
        };
        // One reading of the clock for each message: it ends where the next one begins.
        let started = std::mem::replace(time, monotonic());
        let took = time.saturating_duration_since(started);
        telemetry::ended(&self.core.name, self.queue, message, &outcome, &self.meters, took);
        Ok(Handled { outcome, took: Some(took), enqueued, response })
    }
}

impl Job for ChunkJob {
    fn run(&mut self, conn: &Connection, guard: &Guard) -> Ran {
        let started = monotonic();
        let mut time = started;
        self.outcomes.clear();
        self.enqueued = false;
        let mut prepared = match self.prepare(conn, guard) {
            Ok(prepared) => prepared,
            Err(error) => return Ran::Spoilt(error),
        };
        let mut answered = Vec::new();
        for (claimed, handler) in &self.chunk {
            if !self.outcomes.is_empty() && time.saturating_duration_since(started) > CHUNK_TIME {
                break;
            }
            let ran = match &claimed.message {
                Ok(message) => self.run_one(conn, &mut prepared, &claimed.lease, message, handler, &mut time),
                Err(why) => Ok(Handled::not(Outcome::failed(Cause::Unreadable, why.clone()))),
            };
            match ran {
                Ok(Handled { outcome, took, enqueued, response }) => {
                    if matches!(outcome, Outcome::Settled) {
                        answered.push((self.outcomes.len(), response));
                    }
                    self.outcomes.push((outcome, took));
                    self.enqueued |= enqueued;
                }
                Err(TransactionLost(error)) => return Ran::Spoilt(error),
            }
        }
        self.ack(conn, &answered).map_or_else(Ran::Spoilt, |()| Ran::Well)
    }

    fn answer(self: Box<Self>, commit: Result<()>) {
        let Self { chunk, outcomes, enqueued, reply, .. } = *self;
        let _ = reply.send(ChunkDone { chunk, outcomes, enqueued, commit });
    }

    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }
}

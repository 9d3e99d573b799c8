//! Blocking handlers on the writer thread, some to a job, each in a savepoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::{CachedStatement, Connection};
use tokio::sync::oneshot;

use crate::clock::monotonic;
use crate::error::{Error, ErrorKind, Result};
use crate::handler::{HandlerError, HandlerResult, State};
use crate::message::Message;
use crate::queue::{Claimed, Lease, Queue};
use crate::sql::Statement;
use crate::sqlite::guard::{Guard, Savepoints, TransactionLost, panic_message};
use crate::sqlite::job::{Job, Ran, lost};
use crate::sqlite::store::Core;
use crate::sqlite::{BlockingCtx, BlockingHandler, SqliteStore, SqliteTx};
use crate::store::Store;
use crate::telemetry::{self, Meters};
use crate::worker::{Outcome, Run};

/// How long a handler took lately, in nanoseconds: handlers of one process are much alike.
static HANDLER_NANOS: AtomicU64 = AtomicU64::new(10_000);
const CHUNK_NANOS: u64 = 5_000_000;

/// As many handlers as fit into the time for which the writer may be held.
pub(super) fn chunk_len() -> usize {
    let fitting = CHUNK_NANOS / HANDLER_NANOS.load(Ordering::Relaxed).max(1);
    usize::try_from(fitting).unwrap_or(usize::MAX).clamp(1, 512)
}

pub(super) async fn run_chunk(
    store: &SqliteStore,
    queue: Queue,
    chunk: Vec<(Claimed, BlockingHandler)>,
    state: &State,
    run: &Run,
) -> Vec<(Lease, Outcome)> {
    let (over, chunk): (Vec<_>, Vec<_>) = chunk.into_iter().partition(|(claimed, _)| run.is_over(&claimed.lease));
    let mut outcomes: Vec<_> = over.into_iter().map(|(claimed, _)| (claimed.lease, Outcome::Release)).collect();
    if !chunk.is_empty() {
        outcomes.extend(run_begun(store, queue, chunk, state, run).await);
    }
    outcomes
}

async fn run_begun(
    store: &SqliteStore,
    queue: Queue,
    chunk: Vec<(Claimed, BlockingHandler)>,
    state: &State,
    run: &Run,
) -> Vec<(Lease, Outcome)> {
    let alone = chunk.len() == 1;
    let (core, state) = (store.0.clone(), state.clone());
    let (reply, answer) = oneshot::channel();
    let leases: Vec<Lease> = chunk.iter().map(|(claimed, _)| claimed.lease.clone()).collect();
    let meters = run.meters.clone();
    let job = ChunkJob { core, queue, state, chunk, outcomes: Vec::new(), enqueued: false, meters, reply };
    let submitted = store.0.writer.submit(Box::new(job));
    let done = match submitted {
        Ok(()) => answer.await.map_err(|_| Error::new(ErrorKind::Closed, "the writer thread is gone")),
        Err(error) => Err(error),
    };
    let done = match done {
        Ok(done) => done,
        Err(error) => return leases.into_iter().map(|lease| (lease, Outcome::retry(&error))).collect(),
    };
    if done.enqueued {
        store.wake(Queue::Outbox).ring();
    }
    match done.commit {
        Ok(()) => ack_outside(store, queue, done.chunk, done.outcomes).await,
        // One of them spoilt the transaction: each on its own tells which.
        Err(_) if !alone => {
            let mut outcomes = Vec::new();
            for one in done.chunk {
                outcomes.extend(Box::pin(run_chunk(store, queue, vec![one], &done.state, run)).await);
            }
            outcomes
        }
        Err(error) => {
            let why = error.to_string();
            done.chunk.into_iter().map(|(claimed, _)| (claimed.lease, Outcome::retry(&why))).collect()
        }
    }
}

/// The way it must not be: kept to show that the tests would notice.
async fn ack_outside(
    store: &SqliteStore,
    queue: Queue,
    chunk: Vec<(Claimed, BlockingHandler)>,
    outcomes: Vec<Outcome>,
) -> Vec<(Lease, Outcome)> {
    let settled = chunk.into_iter().map(|(claimed, _)| claimed.lease).zip(outcomes);
    if !store.0.ack_outside {
        return settled.collect();
    }
    let mut late = Vec::new();
    for (lease, outcome) in settled {
        let acked = match outcome {
            Outcome::Settled => {
                let (tx, lease) = (SqliteTx::new(store.0.clone(), Duration::ZERO), lease.clone());
                tx.commit(queue, &lease, None).await.map_or(Outcome::Lost, |()| Outcome::Settled)
            }
            other => other,
        };
        late.push((lease, acked));
    }
    late
}

/// Some blocking handlers, one after the other, each in a savepoint with its ack.
struct ChunkJob {
    core: Arc<Core>,
    queue: Queue,
    state: State,
    chunk: Vec<(Claimed, BlockingHandler)>,
    outcomes: Vec<Outcome>,
    enqueued: bool,
    meters: Arc<Meters>,
    reply: oneshot::Sender<ChunkDone>,
}

struct ChunkDone {
    state: State,
    chunk: Vec<(Claimed, BlockingHandler)>,
    outcomes: Vec<Outcome>,
    enqueued: bool,
    commit: Result<()>,
}

/// Statements that each handler of a chunk needs.
struct Prepared<'c> {
    savepoints: Savepoints<'c>,
    held: CachedStatement<'c>,
    ack: CachedStatement<'c>,
}

impl Prepared<'_> {
    fn held(&mut self, held: &Statement) -> std::result::Result<bool, TransactionLost> {
        self.held.exists(rusqlite::params_from_iter(held.values())).map_err(|_| TransactionLost)
    }

    /// Outside the handler's savepoint: SQLite copies every page that is changed inside one.
    fn ack(
        &mut self,
        core: &Core,
        queue: Queue,
        lease: &Lease,
        response: Option<&str>,
    ) -> std::result::Result<(), TransactionLost> {
        if core.ack_outside {
            return Ok(());
        }
        let ack = core.verbs.ack(queue, lease, response, core.clock.now());
        match self.ack.execute(rusqlite::params_from_iter(ack.values())) {
            Ok(1) => Ok(()),
            // The handler itself took its own message away.
            _ => Err(TransactionLost),
        }
    }
}

impl ChunkJob {
    fn prepare<'c>(&self, conn: &'c Connection, guard: &Guard) -> Result<Prepared<'c>> {
        let statements = self.core.verbs.statements.of(self.queue);
        let (held, ack) = (conn.prepare_cached(&statements.held)?, conn.prepare_cached(&statements.ack)?);
        Ok(Prepared { savepoints: guard.savepoints(conn)?, held, ack })
    }

    fn run_one(
        &self,
        conn: &Connection,
        on: &mut Prepared<'_>,
        lease: &Lease,
        message: &Message,
        handler: &BlockingHandler,
    ) -> std::result::Result<(Outcome, bool), TransactionLost> {
        let _span = telemetry::handle_span(&self.core.name, self.queue, message).entered();
        telemetry::handling(&self.core.name, self.queue, message);
        let started = monotonic();
        let mut ctx = BlockingCtx { conn, core: &self.core, message, state: &self.state, enqueued: false };
        let mut failure = None;
        let handle = || match call(handler, &mut ctx) {
            Ok(response) => Ok(response),
            Err(error) => {
                failure = Some(error);
                Err(Error::new(ErrorKind::Callback, "the handler failed"))
            }
        };
        // Nobody else can write until the group commits: a lease that holds now holds until then.
        if !on.held(&self.core.verbs.held(self.queue, lease))? {
            return Ok((Outcome::Lost, false));
        }
        let result = on.savepoints.run(handle, |_| Ok(()))?;
        let enqueued = ctx.enqueued && result.is_ok();
        let outcome = match (result, failure) {
            (Ok(response), _) => {
                on.ack(&self.core, self.queue, lease, response.as_deref())?;
                Outcome::Settled
            }
            (Err(_), Some(failure)) => failure.into(),
            (Err(error), None) => Outcome::retry(error),
        };
        telemetry::handled(&self.core.name, self.queue, message, &outcome, &self.meters, started.elapsed());
        Ok((outcome, enqueued))
    }
}

fn call(handler: &BlockingHandler, ctx: &mut BlockingCtx<'_>) -> HandlerResult<Option<String>> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handler.0(ctx))).unwrap_or_else(|panic| {
        Err(HandlerError::retry(format_args!("the handler panicked: {}", panic_message(panic.as_ref()))))
    })
}

impl Job for ChunkJob {
    fn run(&mut self, conn: &Connection, guard: &Guard) -> Ran {
        let started = monotonic();
        self.outcomes.clear();
        self.enqueued = false;
        let Ok(mut prepared) = self.prepare(conn, guard) else { return Ran::Spoilt };
        for (claimed, handler) in &self.chunk {
            let ran = match &claimed.message {
                Ok(message) => self.run_one(conn, &mut prepared, &claimed.lease, message, handler),
                Err(why) => Ok((Outcome::retry(why), false)),
            };
            match ran {
                Ok((outcome, enqueued)) => {
                    self.outcomes.push(outcome);
                    self.enqueued |= enqueued;
                }
                Err(TransactionLost) => return Ran::Spoilt,
            }
        }
        let nanos = started.elapsed().as_nanos() / (self.chunk.len().max(1) as u128);
        let (nanos, before) = (u64::try_from(nanos).unwrap_or(u64::MAX), HANDLER_NANOS.load(Ordering::Relaxed));
        HANDLER_NANOS.store((before.saturating_mul(3).saturating_add(nanos)) / 4, Ordering::Relaxed);
        Ran::Well
    }

    fn answer(self: Box<Self>, commit: Result<()>) {
        let commit = if self.outcomes.len() == self.chunk.len() { commit } else { commit.and(Err(lost())) };
        let Self { state, chunk, outcomes, enqueued, .. } = *self;
        let _ = self.reply.send(ChunkDone { state, chunk, outcomes, enqueued, commit });
    }
}

//! Handlers on SQLite: blocking ones run on the writer thread itself, many to a commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::{CachedStatement, Connection};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::clock::monotonic;
use crate::error::{Error, ErrorKind, Result};
use crate::handler::{Backend, HandlerError, HandlerResult, Handlers, State};
use crate::message::{Message, NewMessage, Payload};
use crate::queue::{Claimed, Lease, Queue};
use crate::sql::Statement;
use crate::sqlite::guard::{Guard, Savepoints, TransactionLost, panic_message};
use crate::sqlite::job::{Job, Ran, lost};
use crate::sqlite::store::Core;
use crate::sqlite::{SqliteStore, SqliteTx};
use crate::store::{Store, Stored};
use crate::telemetry::{self, Meters};
use crate::worker::{Outcome, Run};

/// SQLite, as handlers see it.
#[derive(Debug)]
pub enum Sqlite {}

/// What a blocking handler is given: the message, and the transaction its ack commits in.
pub struct BlockingCtx<'c> {
    conn: &'c Connection,
    core: &'c Core,
    message: &'c Message,
    state: &'c State,
    enqueued: bool,
}

impl BlockingCtx<'_> {
    /// The connection: what is written here commits with the message's ack, or not at all.
    pub fn tx(&self) -> &Connection {
        self.conn
    }

    /// The message.
    pub fn message(&self) -> &Message {
        self.message
    }

    /// The how-manieth attempt this is, from one.
    pub fn attempt(&self) -> u32 {
        self.message.attempts + 1
    }

    /// A value given to the worker with [`Handlers::state`].
    pub fn state<T: 'static>(&self) -> Result<&T> {
        self.state.get()
    }

    /// Puts a message into the outbox; it is stored if and only if this handler succeeds.
    pub fn enqueue(&mut self, message: &NewMessage) -> Result<Stored> {
        self.enqueued = true;
        self.core.enqueue_on(self.conn, message)
    }

    /// Puts a typed payload into the outbox, like [`enqueue`](Self::enqueue).
    pub fn send<P: Payload>(&mut self, payload: &P) -> Result<Stored> {
        self.enqueue(&NewMessage::of(payload)?)
    }
}

impl std::fmt::Debug for BlockingCtx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockingCtx").field("message", self.message).finish_non_exhaustive()
    }
}

type Erased = dyn Fn(&mut BlockingCtx<'_>) -> HandlerResult<Option<String>> + Send + Sync;

/// A blocking handler, whatever its payload.
#[derive(Clone)]
pub struct BlockingHandler(Arc<Erased>);

impl std::fmt::Debug for BlockingHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BlockingHandler")
    }
}

impl Handlers<Sqlite> {
    /// A function that runs on the writer thread, for the topic of its payload. It must not wait for anything.
    ///
    /// ```
    /// use postroom::{BlockingCtx, HandlerError, Handlers, Payload};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct OrderPlaced { order: i64 }
    /// impl Payload for OrderPlaced { const TOPIC: &'static str = "order.placed"; }
    ///
    /// fn reserve(ctx: &mut BlockingCtx<'_>, placed: OrderPlaced) -> Result<(), HandlerError> {
    ///     ctx.tx().execute("INSERT INTO reserved (order_id) VALUES (?1)", [placed.order])?;
    ///     Ok(())
    /// }
    ///
    /// let handlers = Handlers::new().on_blocking(reserve);
    /// ```
    #[must_use]
    pub fn on_blocking<P, R, F>(self, handler: F) -> Self
    where
        P: Payload,
        R: Serialize,
        F: Fn(&mut BlockingCtx<'_>, P) -> HandlerResult<R> + Send + Sync + 'static,
    {
        self.on_topic_blocking(P::TOPIC, move |ctx| {
            let payload = crate::handler::decode::<P>(ctx.message)?;
            crate::handler::encode(&handler(ctx, payload)?)
        })
    }

    /// A function that takes whole messages of a topic on the writer thread and answers with text.
    #[must_use]
    pub fn on_topic_blocking<F>(self, topic: impl Into<String>, handler: F) -> Self
    where
        F: Fn(&mut BlockingCtx<'_>) -> HandlerResult<Option<String>> + Send + Sync + 'static,
    {
        self.add(topic, crate::handler::Entry::Blocking(BlockingHandler(Arc::new(handler))))
    }
}

impl Backend for Sqlite {
    type Store = SqliteStore;
    type Tx = SqliteTx;
    type Conn<'t> = &'t mut SqliteTx;
    type Blocking = BlockingHandler;

    async fn begin(store: &SqliteStore, limit: Duration) -> Result<SqliteTx> {
        Ok(SqliteTx::new(store.0.clone(), limit))
    }

    fn conn(tx: &mut SqliteTx) -> &mut SqliteTx {
        tx
    }

    async fn enqueue(tx: &mut SqliteTx, message: NewMessage) -> Result<Stored> {
        tx.enqueue(message).await
    }

    async fn commit(
        store: &SqliteStore,
        tx: SqliteTx,
        queue: Queue,
        lease: &Lease,
        response: Option<String>,
    ) -> Result<()> {
        let enqueued = tx.enqueued;
        tx.commit(queue, lease, response.as_deref()).await?;
        if enqueued {
            store.wake(Queue::Outbox).ring();
        }
        Ok(())
    }

    fn overran(tx: &SqliteTx) -> bool {
        tx.overran
    }

    async fn roll_back(tx: SqliteTx) {
        tx.roll_back().await;
    }

    async fn scope<F: Future + Send>(store: &SqliteStore, handler: F) -> F::Output {
        store.0.writer.in_handler(handler).await
    }

    async fn run_blocking(
        store: &SqliteStore,
        queue: Queue,
        work: Vec<(Claimed, BlockingHandler)>,
        state: &State,
        run: &Run,
    ) -> Vec<(Lease, Outcome)> {
        let mut outcomes = Vec::with_capacity(work.len());
        let mut work = work.into_iter();
        loop {
            let chunk: Vec<_> = work.by_ref().take(chunk_len()).collect();
            if chunk.is_empty() {
                return outcomes;
            }
            outcomes.extend(run_chunk(store, queue, chunk, state, run).await);
        }
    }
}

/// How long a handler took lately, in nanoseconds: handlers of one process are much alike.
static HANDLER_NANOS: AtomicU64 = AtomicU64::new(10_000);
const CHUNK_NANOS: u64 = 5_000_000;

/// As many handlers as fit into the time for which the writer may be held.
fn chunk_len() -> usize {
    let fitting = CHUNK_NANOS / HANDLER_NANOS.load(Ordering::Relaxed).max(1);
    usize::try_from(fitting).unwrap_or(usize::MAX).clamp(1, 512)
}

async fn run_chunk(
    store: &SqliteStore,
    queue: Queue,
    chunk: Vec<(Claimed, BlockingHandler)>,
    state: &State,
    run: &Run,
) -> Vec<(Lease, Outcome)> {
    if run.is_stopping() {
        return chunk.into_iter().map(|(claimed, _)| (claimed.lease, Outcome::Release)).collect();
    }
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

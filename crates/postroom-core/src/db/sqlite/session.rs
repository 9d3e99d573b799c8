//! An async handler's transaction on the writer: it begins with the handler's first statement and lasts for a limited
//! time.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::db::sqlite::blocking::now;
use crate::db::sqlite::driver_rusqlite::SqliteConn;
use crate::db::sqlite::guard::{Guard, catch};
use crate::db::sqlite::job::{Job, Ran, joined, kept, verb_job};
use crate::db::sqlite::store::{JobFn, SqliteShared};
use crate::db::sqlite::writer::broken_down;
use crate::db::sqlite::{BlockingCtx, BlockingHandler, handling};
use crate::message::{Message, NewMessage};
use crate::queue::Queue;
use crate::sql::{BlockingTx, Statement};
use crate::store::{HandledMark, Stored};
use crate::support::clock::monotonic;
use crate::support::error::{Error, ErrorKind, Result};
use crate::support::task::Portable;
use crate::telemetry;
use crate::work::handler::{Ack, HandlerResult, States};

/// The transaction of an async handler on SQLite. Its statements run on the writer thread, one closure at a time.
///
/// ```
/// use postroom::Error;
/// use postroom::sqlite::SqliteTx;
///
/// async fn stock(tx: &mut SqliteTx, item: i64) -> Result<i64, Error> {
///     tx.run(move |conn| conn.query_row("SELECT stock FROM items WHERE id = ?1", [item], |row| row.get(0))).await
/// }
///
/// # use postroom::{Ctx, Event, HandlerError};
/// # use postroom::sqlite::Sqlite;
/// # #[derive(serde::Serialize, serde::Deserialize, Event)]
/// # #[event("order.placed")]
/// # struct OrderPlaced { item: i64 }
/// async fn placed(ctx: &mut Ctx<Sqlite>, placed: OrderPlaced) -> Result<(), HandlerError> {
///     let left = stock(ctx.tx().await?, placed.item).await?;
///     println!("{left} left");
///     Ok(())
/// }
/// # let handlers = postroom::Handlers::new().on(placed);
/// ```
pub struct SqliteTx {
    core: Arc<SqliteShared>,
    limit: Duration,
    open: Option<Open>,
    enqueued: bool,
    /// Whether it held the writer for longer than allowed.
    pub(crate) overran: bool,
    /// Whether its earlier work was rolled back. Then it may do nothing more, or the later work would be stored without
    /// it.
    is_lost: bool,
}

struct Open {
    steps: mpsc::Sender<Step>,
    done: oneshot::Receiver<Ended>,
}

/// How the session ended on the writer.
struct Ended {
    result: Result<()>,
    /// Whether its time was over.
    overran: bool,
}

impl Open {
    /// How the session ended: why nothing was stored, or that it was stored. The caller has dropped its steps before,
    /// or has sent the last one.
    async fn ended(self) -> Ended {
        drop(self.steps);
        self.done.await.unwrap_or_else(|_| Ended { result: Err(broken_down()), overran: false })
    }
}

enum Step {
    BatchRun(Box<dyn FnOnce(&Connection) + Send>),
    Commit(Option<Statement>),
}

impl std::fmt::Debug for SqliteTx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteTx").field("open", &self.open.is_some()).finish_non_exhaustive()
    }
}

impl SqliteTx {
    pub(crate) fn new(core: Arc<SqliteShared>, limit: Duration) -> Self {
        Self { core, limit, open: None, enqueued: false, overran: false, is_lost: false }
    }

    /// Runs `code` in the handler's transaction. It may read and write, but not begin or end a transaction.
    pub async fn run<T, F>(&mut self, code: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let caller = telemetry::Caller::here();
        self.step(move |conn| Ok(caller.within(|| code(conn))?)).await
    }

    pub(super) async fn enqueue(&mut self, message: NewMessage) -> Result<Stored> {
        self.enqueued = true;
        let core = self.core.clone();
        self.step(move |conn| core.insert_on(conn, &message)).await
    }

    pub(super) async fn mark(&mut self, mark: HandledMark, topic: String) -> Result<bool> {
        // The mark is set before the handler runs. A handler that is already running here belongs to another message.
        self.core.writer.check_outside()?;
        let put = self
            .verb((mark, topic), |verbs, conn, (mark, topic), now| Box::pin(verbs.put_mark(conn, mark, topic, now)));
        Ok(put.await?.is_some())
    }

    /// Runs an operation in the handler's transaction.
    pub(super) async fn verb<A: Portable, T: Portable>(&mut self, args: A, verb: JobFn<A, T>) -> Result<T> {
        let core = self.core.clone();
        self.step(move |conn| now(verb(&core.verbs, &mut SqliteConn::new(conn), &args, core.clock.now()))).await
    }

    /// Runs a blocking handler.
    pub(crate) async fn call(
        &mut self,
        handler: BlockingHandler,
        message: Arc<Message>,
        state: States,
    ) -> HandlerResult<Option<String>> {
        let (core, caller) = (self.core.clone(), telemetry::Caller::here());
        let called = self.step(move |conn| {
            let mut ctx =
                BlockingCtx { conn, savepoint: None, core: &core, message: &message, state: &state, enqueued: false };
            let handled = caller.within(|| handling::call(&handler, &mut ctx));
            Ok((handled, ctx.enqueued))
        });
        let (handled, enqueued) = called.await?;
        self.enqueued |= enqueued;
        handled
    }

    async fn step<T, F>(&mut self, code: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let run = Step::BatchRun(Box::new(move |conn| {
            let _ = reply.send(catch(|| code(conn)));
        }));
        let sent = self.steps()?.send(run).is_ok();
        match answer.await {
            Ok(answer) if sent => answer.inspect_err(|error| self.core.note(error)),
            _ => Err(self.broken_off().await),
        }
    }

    /// Why the writer no longer listens: the time is over, or the transaction could not begin.
    async fn broken_off(&mut self) -> Error {
        // Set before the wait: a caller that is cancelled here must not begin a second transaction.
        self.is_lost = true;
        let Some(open) = self.open.take() else { return broken_off() };
        let ended = open.ended().await;
        self.overran = ended.overran;
        ended.result.err().unwrap_or_else(broken_off)
    }

    fn steps(&mut self) -> Result<&mpsc::Sender<Step>> {
        if self.is_lost {
            return Err(broken_off());
        }
        if self.open.is_none() {
            let (steps, incoming) = mpsc::channel();
            let (reply, done) = oneshot::channel();
            let job = SessionJob { steps: incoming, limit: self.limit, outcome: None, overran: false, reply };
            self.core.writer.submit_unchecked(Box::new(job))?;
            self.open = Some(Open { steps, done });
        }
        self.open.as_ref().map(|open| &open.steps).ok_or_else(broken_off)
    }

    /// Acknowledges, if there is something to acknowledge, and commits. An error means that nothing was stored.
    pub(crate) async fn commit(mut self, ack: Option<Ack<'_>>) -> Result<()> {
        if self.is_lost {
            return Err(broken_off());
        }
        let Some((queue, lease, response)) = ack else { return self.finish(None).await };
        let ack = self.core.verbs.ack(queue, lease, response.as_deref(), self.core.clock.now());
        if self.core.ack_outside || self.open.is_none() {
            self.finish(None).await?;
            return submit_ack(self.core, ack).await;
        }
        self.finish(Some(ack)).await
    }

    async fn finish(&mut self, ack: Option<Statement>) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let is_heard = open.steps.send(Step::Commit(ack)).is_ok();
        let ended = open.ended().await;
        self.overran = ended.overran;
        ended.result?;
        if !is_heard {
            return Err(broken_off());
        }
        if self.enqueued {
            self.core.wakes[Queue::Outbox.index()].ring();
        }
        Ok(())
    }

    /// Rolls everything back, and waits until that is done.
    pub(crate) async fn roll_back(self) {
        if let Some(open) = self.open {
            open.ended().await;
        }
    }
}

/// Acknowledges for a handler that wrote nothing. It needs no session: its ack is an operation like any other.
async fn submit_ack(core: Arc<SqliteShared>, ack: Statement) -> Result<()> {
    let acknowledge = move |conn: &Connection| match conn.run(&ack) {
        // A lost lease changed nothing, so the other jobs of the group need not be rolled back.
        Err(error) if error.kind() == ErrorKind::LeaseLost => Ok(Err(error)),
        other => other.map(Ok),
    };
    let (job, answer) = verb_job(acknowledge, None);
    core.writer.submit_unchecked(job)?;
    answer.await.map_err(|_| broken_down())??.map(|_| ())
}

struct SessionJob {
    steps: mpsc::Receiver<Step>,
    limit: Duration,
    /// `None` until it has run.
    outcome: Option<Result<()>>,
    overran: bool,
    reply: oneshot::Sender<Ended>,
}

impl SessionJob {
    fn serve(&self, conn: &Connection, overran: &mut bool) -> Result<Option<Statement>> {
        let until = monotonic() + self.limit;
        loop {
            match self.steps.recv_timeout(until.saturating_duration_since(monotonic())) {
                Ok(Step::BatchRun(code)) => code(conn),
                Ok(Step::Commit(ack)) => return Ok(ack),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    *overran = true;
                    return Err(held_too_long());
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(Error::new(ErrorKind::NotCommitted, "the handler did not finish; rolled back"));
                }
            }
        }
    }
}

impl Job for SessionJob {
    fn run(&mut self, conn: &Connection, guard: &Guard) -> Ran {
        let seal = |ack: &Option<Statement>| match ack {
            Some(ack) => conn.run(ack).map(|_| ()),
            None => Ok(()),
        };
        let mut overran = false;
        let ran = match guard.savepoints(conn) {
            Ok(mut savepoints) => savepoints.run(|| self.serve(conn, &mut overran), seal),
            Err(error) => Ok(Err(error)),
        };
        self.overran = overran;
        let (outcome, ran) = kept(ran);
        self.outcome = Some(outcome.map(|_| ()));
        ran
    }

    fn answer(self: Box<Self>, commit: Result<()>) {
        let _ = self.reply.send(Ended { result: joined(self.outcome, commit), overran: self.overran });
    }

    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn failed_as(&self) -> Option<ErrorKind> {
        self.outcome.as_ref().and_then(|outcome| outcome.as_ref().err()).map(Error::kind)
    }

    fn is_session(&self) -> bool {
        true
    }
}

fn broken_off() -> Error {
    Error::new(ErrorKind::NotCommitted, "the handler's transaction was interrupted before; nothing of it was stored")
}

fn held_too_long() -> Error {
    Error::new(
        ErrorKind::NotCommitted,
        "an async handler held the writer too long and was rolled back; do slow work before the first \
         statement, or use a blocking handler",
    )
}

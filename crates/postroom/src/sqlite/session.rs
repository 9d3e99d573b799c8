//! An async handler's hold on the writer: it begins with the handler's first statement and lasts for a bounded time.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::clock::monotonic;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Incoming, NewMessage, WorkItemId};
use crate::queue::{Lease, Queue};
use crate::sql::{BlockingTx, Statement};
use crate::sqlite::guard::{Guard, TransactionLost, catch};
use crate::sqlite::job::{Job, Ran, VerbJob, lost};
use crate::sqlite::store::Core;
use crate::store::{Admission, MarkId, Stored};
use crate::telemetry;

/// The transaction of an async handler on SQLite. Its statements run on the writer thread, one closure at a time.
///
/// ```
/// use postroom::{Error, SqliteTx};
///
/// async fn stock(tx: &mut SqliteTx, item: i64) -> Result<i64, Error> {
///     tx.run(move |conn| conn.query_row("SELECT stock FROM items WHERE id = ?1", [item], |row| row.get(0))).await
/// }
///
/// # use postroom::{Ctx, Event, HandlerError, Sqlite};
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
    core: Arc<Core>,
    limit: Duration,
    open: Option<Open>,
    pub(crate) enqueued: bool,
    /// It held the writer for longer than it may.
    pub(crate) overran: bool,
    /// What was done so far is undone: nothing more may be done, or it would stand alone.
    is_lost: bool,
}

struct Open {
    steps: mpsc::Sender<Step>,
    done: oneshot::Receiver<Result<()>>,
}

enum Step {
    Run(Box<dyn FnOnce(&Connection) + Send>),
    Commit(Option<Statement>),
}

impl std::fmt::Debug for SqliteTx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteTx").field("open", &self.open.is_some()).finish_non_exhaustive()
    }
}

impl SqliteTx {
    pub(crate) fn new(core: Arc<Core>, limit: Duration) -> Self {
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

    pub(crate) async fn enqueue(&mut self, message: NewMessage) -> Result<Stored> {
        self.enqueued = true;
        let core = self.core.clone();
        self.step(move |conn| core.enqueue_on(conn, &message)).await
    }

    pub(crate) async fn arrive(&mut self, incoming: Incoming, hold: Duration) -> Result<Admission> {
        let core = self.core.clone();
        self.step(move |conn| core.arrive_on(conn, &incoming, hold)).await
    }

    pub(crate) async fn answer(&mut self, id: WorkItemId, response: String) -> Result<bool> {
        let core = self.core.clone();
        self.step(move |conn| core.answer_on(conn, id, &response)).await
    }

    pub(crate) async fn mark(&mut self, mark: MarkId) -> Result<bool> {
        // It comes before the handler: one that is running already is another message's.
        self.core.writer.check_outside()?;
        let core = self.core.clone();
        self.step(move |conn| core.mark_on(conn, &mark)).await
    }

    async fn step<T, F>(&mut self, code: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let run = Step::Run(Box::new(move |conn| {
            let _ = reply.send(catch(|| code(conn)));
        }));
        let sent = self.steps()?.send(run).is_ok();
        match answer.await {
            Ok(answer) if sent => answer,
            _ => Err(self.broken_off().await),
        }
    }

    /// Why the writer no longer listens: the time is over, or the transaction could not be begun.
    async fn broken_off(&mut self) -> Error {
        // Before anything is waited for: whoever gives up here must not begin a second transaction.
        self.is_lost = true;
        let why = match self.open.take() {
            Some(Open { done, .. }) => done.await.ok().and_then(Result::err),
            None => None,
        };
        let why = why.unwrap_or_else(held_too_long);
        self.overran = why.kind() == ErrorKind::NotCommitted;
        why
    }

    fn steps(&mut self) -> Result<&mpsc::Sender<Step>> {
        if self.is_lost {
            return Err(broken_off());
        }
        if self.open.is_none() {
            let (steps, incoming) = mpsc::channel();
            let (reply, done) = oneshot::channel();
            let job = SessionJob { steps: incoming, limit: self.limit, outcome: Err(held_too_long()), reply };
            self.core.writer.submit_unchecked(Box::new(job))?;
            self.open = Some(Open { steps, done });
        }
        self.open.as_ref().map(|open| &open.steps).ok_or_else(held_too_long)
    }

    /// Acknowledges and commits. An error means that nothing of it is stored.
    pub(crate) async fn commit(mut self, queue: Queue, lease: &Lease, response: Option<&str>) -> Result<()> {
        if self.is_lost {
            return Err(broken_off());
        }
        let ack = self.core.verbs.ack(queue, lease, response, self.core.clock.now());
        if self.core.ack_outside {
            self.finish(None).await?;
            return submit_ack(self.core, ack).await;
        }
        if self.open.is_none() {
            return submit_ack(self.core, ack).await;
        }
        self.finish(Some(ack)).await
    }

    /// Commits what has nothing to acknowledge. An error means that nothing of it is stored.
    pub(crate) async fn conclude(mut self) -> Result<()> {
        if self.is_lost {
            return Err(broken_off());
        }
        self.finish(None).await
    }

    async fn finish(&mut self, ack: Option<Statement>) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        open.steps.send(Step::Commit(ack)).map_err(|_| held_too_long())?;
        open.done.await.map_err(|_| held_too_long())?
    }

    /// Undoes everything, and waits until it is undone.
    pub(crate) async fn roll_back(self) {
        if let Some(open) = self.open {
            drop(open.steps);
            let _ = open.done.await;
        }
    }
}

/// A handler that wrote nothing needs no session: its ack is a verb like any other.
async fn submit_ack(core: Arc<Core>, ack: Statement) -> Result<()> {
    let (job, answer) = VerbJob::new(move |conn: &Connection| match conn.run(&ack) {
        // A lost lease changed nothing: no reason to undo the neighbours' work.
        Err(error) if error.kind() == ErrorKind::LeaseLost => Ok(Err(error)),
        other => other.map(Ok),
    });
    core.writer.submit_unchecked(Box::new(job))?;
    answer.await.map_err(|_| Error::new(ErrorKind::Closed, "the writer is gone"))??.map(|_| ())
}

struct SessionJob {
    steps: mpsc::Receiver<Step>,
    limit: Duration,
    outcome: Result<()>,
    reply: oneshot::Sender<Result<()>>,
}

impl SessionJob {
    fn serve(&self, conn: &Connection) -> Result<Option<Statement>> {
        let until = monotonic() + self.limit;
        loop {
            match self.steps.recv_timeout(until.saturating_duration_since(monotonic())) {
                Ok(Step::Run(code)) => code(conn),
                Ok(Step::Commit(ack)) => return Ok(ack),
                Err(mpsc::RecvTimeoutError::Timeout) => return Err(held_too_long()),
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
        let ran = match guard.savepoints(conn) {
            Ok(mut savepoints) => savepoints.run(|| self.serve(conn), seal),
            Err(error) => Ok(Err(error)),
        };
        match ran {
            Ok(outcome) => {
                self.outcome = outcome.map(|_| ());
                Ran::Well
            }
            Err(TransactionLost) => {
                self.outcome = Err(lost());
                Ran::Spoilt
            }
        }
    }

    fn answer(self: Box<Self>, commit: Result<()>) {
        let _ = self.reply.send(self.outcome.and(commit));
    }

    fn is_session(&self) -> bool {
        true
    }
}

fn broken_off() -> Error {
    Error::new(ErrorKind::NotCommitted, "the handler's transaction was broken off before; nothing of it is stored")
}

fn held_too_long() -> Error {
    Error::new(
        ErrorKind::NotCommitted,
        "an async handler held the writer too long and was rolled back; wait for slow things before the first \
         statement, or use a blocking handler",
    )
}

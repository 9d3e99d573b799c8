//! Receiving with a blocking handler: row, effects and answer in one job, many jobs to a commit.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};
use crate::handler::{HandlerError, Received, State};
use crate::message::{Incoming, Message};
use crate::queue::{Lease, Queue};
use crate::sql::BlockingTx;
use crate::sqlite::guard::{Guard, TransactionLost};
use crate::sqlite::handling::call;
use crate::sqlite::job::{Job, Ran, lost};
use crate::sqlite::store::Core;
use crate::sqlite::{BlockingCtx, BlockingHandler, SqliteStore};
use crate::store::{Admission, Wake};

/// The row is held for no longer than its own transaction takes.
const HOLD: Duration = Duration::from_secs(60);

pub(super) async fn receive(
    store: &SqliteStore,
    incoming: &Incoming,
    handler: BlockingHandler,
    state: &State,
) -> Result<Received> {
    let (reply, answer) = oneshot::channel();
    let (core, incoming, state) = (store.0.clone(), incoming.clone(), state.clone());
    let rings = core.outbox_wake.clone();
    let job = ReceiveJob { core, incoming, handler, state, received: Err(lost()), enqueued: false, rings, reply };
    store.0.writer.submit(Box::new(job))?;
    answer.await.map_err(|_| Error::new(ErrorKind::Closed, "the writer is gone"))?
}

struct ReceiveJob {
    core: Arc<Core>,
    incoming: Incoming,
    handler: BlockingHandler,
    state: State,
    received: Result<Received>,
    enqueued: bool,
    rings: Wake,
    reply: oneshot::Sender<Result<Received>>,
}

/// How far the code in the savepoint came.
enum Step {
    Handled(Lease, Option<String>),
    Not(Admission),
}

impl ReceiveJob {
    fn step(&mut self, conn: &Connection, failure: &mut Option<HandlerError>) -> Result<Step> {
        let (lease, message) = match self.core.arrive_on(conn, &self.incoming, HOLD)? {
            Admission::Held { lease, message } => (lease, message),
            other => return Ok(Step::Not(other)),
        };
        match self.handle(conn, &message) {
            Ok(response) => Ok(Step::Handled(lease, response)),
            Err(error) => {
                *failure = Some(error);
                Err(Error::new(ErrorKind::Callback, "the handler failed"))
            }
        }
    }

    fn handle(&mut self, conn: &Connection, message: &Message) -> std::result::Result<Option<String>, HandlerError> {
        let mut ctx = BlockingCtx { conn, core: &self.core, message, state: &self.state, enqueued: false };
        let response = call(&self.handler, &mut ctx)?;
        self.enqueued = ctx.enqueued;
        Ok(response)
    }
}

impl Job for ReceiveJob {
    fn run(&mut self, conn: &Connection, guard: &Guard) -> Ran {
        let core = self.core.clone();
        let mut failure = None;
        let seal = |step: &Step| match step {
            Step::Handled(lease, response) => {
                conn.run(&core.verbs.ack(Queue::Inbox, lease, response.as_deref(), core.clock.now())).map(|_| ())
            }
            Step::Not(_) => Ok(()),
        };
        let ran = match guard.savepoints(conn) {
            Ok(mut savepoints) => savepoints.run(|| self.step(conn, &mut failure), seal),
            Err(error) => Ok(Err(error)),
        };
        self.received = match (ran, failure) {
            (Err(TransactionLost), _) => {
                self.received = Err(lost());
                return Ran::Spoilt;
            }
            (Ok(Err(_)), Some(failure)) => Ok(Received::Failed(failure)),
            (Ok(Err(error)), None) => Err(error),
            (Ok(Ok(Step::Handled(_, response))), _) => Ok(Received::Handled(response)),
            (Ok(Ok(Step::Not(admission))), _) => Ok(Received::Not(admission)),
        };
        Ran::Well
    }

    fn answer(self: Box<Self>, commit: Result<()>) {
        if commit.is_ok() && self.enqueued {
            self.rings.ring();
        }
        let _ = self.reply.send(commit.and(self.received));
    }
}

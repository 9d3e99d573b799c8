//! Receives with a blocking handler: row, effects and answer in one job, many jobs in one commit.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use crate::db::sqlite::guard::{Guard, Savepoints, TransactionLost};
use crate::db::sqlite::handling::{as_error, call};
use crate::db::sqlite::job::{Kept, job, lost};
use crate::db::sqlite::store::SqliteShared;
use crate::db::sqlite::writer::broken_down;
use crate::db::sqlite::{BlockingCtx, BlockingHandler, SqliteStore};
use crate::message::{Incoming, Message};
use crate::queue::Queue;
use crate::sql::BlockingTx;
use crate::store::Admission;
use crate::support::error::Result;
use crate::telemetry;
use crate::work::handler::{HandlerError, Received, States};

/// How long the row is held; its own transaction takes no longer.
const HOLD: Duration = Duration::from_secs(60);

pub(super) async fn receive(
    store: &SqliteStore,
    incoming: &Arc<Incoming>,
    handler: BlockingHandler,
    state: &States,
) -> Result<Received> {
    let (core, incoming, state) = (store.0.clone(), incoming.clone(), state.clone());
    let rings = core.wakes[Queue::Outbox.index()].clone();
    let mut receiving = Receiving { core, incoming, handler, state, enqueued: false };
    let receive = move |conn: &Connection, guard: &Guard| {
        let received = receiving.receive(conn, guard)?;
        Ok(received.map(|received| (received, receiving.enqueued)))
    };
    let (job, answer) = job(receive, move |(_, enqueued)| {
        if *enqueued {
            rings.ring();
        }
    });
    store.0.writer.submit(job)?;
    Ok(answer.await.map_err(|_| broken_down())??.0)
}

struct Receiving {
    core: Arc<SqliteShared>,
    incoming: Arc<Incoming>,
    handler: BlockingHandler,
    state: States,
    enqueued: bool,
}

/// How far the code in the savepoint got.
enum Step {
    Handled(Option<String>),
    Not(Admission),
}

impl Receiving {
    fn receive(&mut self, conn: &Connection, guard: &Guard) -> Kept<Received> {
        let mut savepoints = match guard.savepoints(conn) {
            Ok(savepoints) => savepoints,
            Err(error) => return Ok(Err(error)),
        };
        match self.core.knows(conn, self.incoming.key()) {
            Ok(false) => self.receive_new(conn, &mut savepoints),
            Ok(true) => self.receive_known(conn, &mut savepoints),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Receives a message that is not in the inbox. No other connection can write until the group commits, so the row
    /// can be written after the handler, complete, and outside its savepoint. SQLite copies every page that is changed
    /// inside a savepoint.
    fn receive_new(&mut self, conn: &Connection, savepoints: &mut Savepoints<'_>) -> Kept<Received> {
        if self.incoming.is_past_expiry(self.core.clock.doubt().early(self.core.clock.now())) {
            return Ok(Ok(Received::Not(Admission::Expired)));
        }
        let message = self.incoming.to_message(self.core.clock.now());
        let mut failure = None;
        let handled = savepoints.run(|| self.handle(conn, &message, &mut failure), |_| Ok(()))?;
        if let Ok(response) = &handled {
            for row in self.core.verbs.handled(&self.incoming, response.as_deref(), self.core.clock.now()) {
                // It can exist only if the handler itself has written it.
                match conn.run(&row) {
                    Ok(done) if !done.duplicate => {}
                    Ok(_) => return Err(TransactionLost(lost())),
                    Err(error) => return Err(TransactionLost(error)),
                }
            }
        }
        Ok(received(handled.map(Step::Handled), failure))
    }

    /// Receives a message that is in the inbox already. It may be ready or done: its row shows which.
    fn receive_known(&mut self, conn: &Connection, savepoints: &mut Savepoints<'_>) -> Kept<Received> {
        let (core, mut failure) = (self.core.clone(), None);
        let step = || match core.arrive_on(conn, &self.incoming, HOLD)? {
            Admission::Held { lease, message } => {
                let response = self.handle(conn, &message, &mut failure)?;
                conn.run(&core.verbs.ack(Queue::Inbox, &lease, response.as_deref(), core.clock.now()))?;
                Ok(Step::Handled(response))
            }
            other => Ok(Step::Not(other)),
        };
        Ok(received(savepoints.run(step, |_| Ok(()))?, failure))
    }

    fn handle(
        &mut self,
        conn: &Connection,
        message: &Message,
        failure: &mut Option<HandlerError>,
    ) -> Result<Option<String>> {
        let _span = telemetry::handle_span(&self.core.name, Queue::Inbox, message).entered();
        let mut ctx =
            BlockingCtx { conn, savepoint: None, core: &self.core, message, state: &self.state, enqueued: false };
        let handled = call(&self.handler, &mut ctx);
        self.enqueued = ctx.enqueued;
        handled.map_err(|error| {
            let why = as_error(&error);
            *failure = Some(error);
            why
        })
    }
}

fn received(step: Result<Step>, failure: Option<HandlerError>) -> Result<Received> {
    match (step, failure) {
        (Ok(Step::Handled(response)), _) => Ok(Received::Handled(response)),
        (Ok(Step::Not(admission)), _) => Ok(Received::Not(admission)),
        (Err(_), Some(failure)) => Ok(Received::Failed(failure)),
        (Err(error), None) => Err(error),
    }
}

//! Messages that callers enqueue. Those that wait for the writer at the same time are stored together: SQLite keeps a
//! journal for each statement that inserts a message, and counts its number up in another table.

use std::mem::take;
use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::db::sqlite::blocking::now;
use crate::db::sqlite::driver_rusqlite::SqliteConn;
use crate::db::sqlite::guard::{Guard, TransactionLost};
use crate::db::sqlite::job::{Job, Ran, joined, kept};
use crate::db::sqlite::store::SqliteShared;
use crate::message::{Clash, NewMessage};
use crate::queue::Queue;
use crate::store::Stored;
use crate::support::error::{Error, ErrorKind, Result};

/// How many messages of a caller are stored together with those of others.
const FEW: usize = 10;

/// The messages of one caller.
pub(crate) struct Enqueue {
    core: Arc<SqliteShared>,
    messages: Vec<NewMessage>,
    outcome: Option<Result<Vec<Stored>>>,
    woke: bool,
    reply: oneshot::Sender<Result<Vec<Stored>>>,
}

impl Enqueue {
    pub(super) fn job(
        core: Arc<SqliteShared>,
        messages: Vec<NewMessage>,
    ) -> (Box<dyn Job>, oneshot::Receiver<Result<Vec<Stored>>>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Self { core, messages, outcome: None, woke: false, reply }), answer)
    }

    /// Whether it is small, still wanted, and goes to the same tables as another one.
    pub(super) fn may_join(&self, other: &Self) -> bool {
        self.messages.len() <= FEW
            && self.is_wanted()
            && Arc::ptr_eq(&self.core, &other.core)
            && !self.may_be_refused()
            && !other.may_be_refused()
    }

    /// Whether another message with the same unique key is an error.
    fn may_be_refused(&self) -> bool {
        let refuses =
            |message: &NewMessage| message.unique.as_ref().is_some_and(|unique| unique.clash == Clash::Refuse);
        self.messages.iter().any(refuses)
    }

    /// Stores messages that may be refused. An ordinary refusal must not undo what others do in the same group.
    fn run_alone(&mut self, conn: &Connection) -> Ran {
        let (core, mut session) = (self.core.clone(), SqliteConn::after_outage(conn, self.core.outage.at()));
        let stored = conn.execute_batch("SAVEPOINT postroom_refused").map_err(Error::from).and_then(|()| {
            let stored = now(core.verbs.enqueue(&mut session, &self.messages, core.clock.now()));
            let refused = stored.as_ref().is_err_and(|error| error.kind() == ErrorKind::Duplicate);
            let undo = if refused { "ROLLBACK TO postroom_refused; " } else { "" };
            match stored {
                Err(error) if !refused => Err(error),
                stored => Ok(conn.execute_batch(&format!("{undo}RELEASE postroom_refused")).map(|()| stored)?),
            }
        });
        let (outcome, ran) = kept(stored.map_err(TransactionLost));
        self.woke = outcome.is_ok() && core.wakes[Queue::Outbox.index()].ring_workers();
        self.outcome = Some(outcome);
        ran
    }

    /// Stores the messages of several callers, in the tables of the first.
    pub(super) fn run_together(conn: &Connection, mut jobs: Vec<&mut Self>) -> Ran {
        let Some(core) = jobs.first().map(|first| first.core.clone()) else { return Ran::Well };
        let counts: Vec<usize> = jobs.iter().map(|job| job.messages.len()).collect();
        let messages: Vec<NewMessage> = jobs.iter_mut().flat_map(|job| take(&mut job.messages)).collect();
        let mut session = SqliteConn::after_outage(conn, core.outage.at());
        let stored = now(core.verbs.enqueue(&mut session, &messages, core.clock.now()));
        let (stored, ran) = kept(stored.map(Ok).map_err(TransactionLost));
        // Before the commit: while that waits for the disk, a worker submits its claim, or it even joins the group.
        let woke = core.wakes[Queue::Outbox.index()].ring_workers();
        jobs.iter_mut().for_each(|job| job.woke = woke);
        // If the group fails, each of them runs again.
        let (mut messages, mut stored) = (messages.into_iter(), stored.unwrap_or_default().into_iter());
        for (job, count) in jobs.iter_mut().zip(counts) {
            job.messages.extend(messages.by_ref().take(count));
            job.outcome = Some(Ok(stored.by_ref().take(count).collect()));
        }
        ran
    }
}

impl Job for Enqueue {
    fn run(&mut self, conn: &Connection, _: &Guard) -> Ran {
        if self.may_be_refused() { self.run_alone(conn) } else { Self::run_together(conn, vec![self]) }
    }

    fn answer(self: Box<Self>, commit: Result<()>) {
        let answer = joined(self.outcome, commit);
        if answer.is_ok() {
            self.core.wakes[Queue::Outbox.index()].ring_others();
        }
        let _ = self.reply.send(answer);
    }

    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn woke_a_worker(&self) -> bool {
        self.woke
    }

    fn as_enqueue(&mut self) -> Option<&mut Enqueue> {
        Some(self)
    }
}

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
use crate::message::NewMessage;
use crate::queue::Queue;
use crate::store::Stored;
use crate::support::error::Result;

/// How many messages of a caller are stored together with those of others.
const FEW: usize = 10;

/// The messages of one caller.
pub(crate) struct Enqueue {
    core: Arc<SqliteShared>,
    messages: Vec<NewMessage>,
    outcome: Option<Result<Vec<Stored>>>,
    reply: oneshot::Sender<Result<Vec<Stored>>>,
}

impl Enqueue {
    pub(super) fn job(
        core: Arc<SqliteShared>,
        messages: Vec<NewMessage>,
    ) -> (Box<dyn Job>, oneshot::Receiver<Result<Vec<Stored>>>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Self { core, messages, outcome: None, reply }), answer)
    }

    /// Whether it is small, still wanted, and goes to the same tables as another one.
    pub(super) fn may_join(&self, other: &Self) -> bool {
        self.messages.len() <= FEW && self.is_wanted() && Arc::ptr_eq(&self.core, &other.core)
    }

    /// Stores the messages of several callers, in the tables of the first.
    pub(super) fn run_together(conn: &Connection, mut jobs: Vec<&mut Self>) -> Ran {
        let Some(core) = jobs.first().map(|first| first.core.clone()) else { return Ran::Well };
        let counts: Vec<usize> = jobs.iter().map(|job| job.messages.len()).collect();
        let messages: Vec<NewMessage> = jobs.iter_mut().flat_map(|job| take(&mut job.messages)).collect();
        let mut session = SqliteConn::after_outage(conn, core.outage.at());
        let stored = now(core.verbs.enqueue(&mut session, &messages, core.clock.now()));
        let (stored, ran) = kept(stored.map(Ok).map_err(TransactionLost));
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
        Self::run_together(conn, vec![self])
    }

    fn answer(self: Box<Self>, commit: Result<()>) {
        let answer = joined(self.outcome, commit);
        if answer.is_ok() {
            // Before the caller gets its answer, because workers need longer to start.
            self.core.wakes[Queue::Outbox.index()].ring();
        }
        let _ = self.reply.send(answer);
    }

    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn as_enqueue(&mut self) -> Option<&mut Enqueue> {
        Some(self)
    }
}

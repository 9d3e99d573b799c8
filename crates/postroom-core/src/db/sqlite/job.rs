//! Work for the writer thread.

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::db::sqlite::guard::{Guard, TransactionLost};
use crate::store::Wake;
use crate::support::error::{Error, ErrorKind, Result};

/// How a job left the transaction it ran in.
#[derive(Debug)]
pub(crate) enum Ran {
    /// Usable: what the job did is complete, or undone.
    Well,
    /// Spoilt, and why: everything in it must be rolled back and run again, job by job.
    Spoilt(Error),
}

/// One job. It may be run more than once: when another job spoils the group, all are run again, each on its own.
pub(crate) trait Job: Send {
    fn run(&mut self, conn: &Connection, guard: &Guard) -> Ran;

    /// Tells the caller, after the commit.
    fn answer(self: Box<Self>, commit: Result<()>);

    /// Whether anybody waits for the answer. A job of somebody who gave up is not run.
    fn is_wanted(&self) -> bool;

    /// How it failed by itself, whatever becomes of the commit.
    fn failed_as(&self) -> Option<ErrorKind> {
        None
    }

    /// Whether it waits for someone outside while it holds the transaction.
    fn is_session(&self) -> bool {
        false
    }
}

/// One of our own verbs: it needs no savepoint, because an error in it undoes the whole group.
pub(crate) struct VerbJob<F, T> {
    verb: F,
    outcome: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
    rings: Option<Wake>,
}

impl<F, T> VerbJob<F, T> {
    pub(crate) fn new(verb: F) -> (Self, oneshot::Receiver<Result<T>>) {
        let (reply, answer) = oneshot::channel();
        (Self { verb, outcome: None, reply, rings: None }, answer)
    }

    /// Wakes workers after the commit, before the caller is told: they have further to go.
    pub(crate) fn ringing(mut self, wake: Wake) -> Self {
        self.rings = Some(wake);
        self
    }
}

impl<F, T> Job for VerbJob<F, T>
where
    F: FnMut(&Connection) -> Result<T> + Send,
    T: Send,
{
    fn run(&mut self, conn: &Connection, _: &Guard) -> Ran {
        let outcome = (self.verb)(conn);
        let ran = match &outcome {
            Ok(_) if conn.is_autocommit() => Ran::Spoilt(lost()),
            Ok(_) => Ran::Well,
            Err(error) => Ran::Spoilt(the_same(error)),
        };
        self.outcome = Some(outcome);
        ran
    }

    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn failed_as(&self) -> Option<ErrorKind> {
        kind_in(self.outcome.as_ref())
    }

    fn answer(self: Box<Self>, commit: Result<()>) {
        if let (Ok(()), Some(wake)) = (&commit, &self.rings) {
            wake.ring();
        }
        let _ = self.reply.send(joined(self.outcome, commit));
    }
}

/// The user's own writes, in a savepoint.
pub(crate) struct UserJob<F, T> {
    code: F,
    outcome: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
    rings: [Wake; 2],
}

impl<F, T> UserJob<F, T> {
    pub(crate) fn new(code: F, rings: [Wake; 2]) -> (Self, oneshot::Receiver<Result<T>>) {
        let (reply, answer) = oneshot::channel();
        (Self { code, outcome: None, reply, rings }, answer)
    }
}

impl<F, T> Job for UserJob<F, T>
where
    F: FnMut(&Connection) -> Result<T> + Send,
    T: Send,
{
    fn run(&mut self, conn: &Connection, guard: &Guard) -> Ran {
        let ran = match guard.savepoints(conn) {
            Ok(mut savepoints) => savepoints.run(|| super::guard::catch(|| (self.code)(conn)), |_| Ok(())),
            Err(error) => Ok(Err(error)),
        };
        match ran {
            Ok(outcome) => {
                self.outcome = Some(outcome);
                Ran::Well
            }
            Err(TransactionLost(error)) => {
                self.outcome = Some(Err(the_same(&error)));
                Ran::Spoilt(error)
            }
        }
    }

    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn failed_as(&self) -> Option<ErrorKind> {
        kind_in(self.outcome.as_ref())
    }

    fn answer(self: Box<Self>, commit: Result<()>) {
        if commit.is_ok() {
            self.rings.iter().for_each(Wake::ring);
        }
        let _ = self.reply.send(joined(self.outcome, commit));
    }
}

pub(crate) fn lost() -> Error {
    Error::new(
        ErrorKind::NotCommitted,
        "the code rolled the transaction back from inside (a trigger's RAISE(ROLLBACK), or OR ROLLBACK); \
         nothing of it is stored",
    )
}

/// The same error for one more of those it concerns.
pub(crate) fn the_same(error: &Error) -> Error {
    Error::new(error.kind(), error.to_string())
}

fn kind_in<T>(outcome: Option<&Result<T>>) -> Option<ErrorKind> {
    outcome.and_then(|outcome| outcome.as_ref().err()).map(Error::kind)
}

pub(crate) fn joined<T>(outcome: Option<Result<T>>, commit: Result<()>) -> Result<T> {
    match (outcome, commit) {
        (Some(Err(error)), _) | (_, Err(error)) => Err(error),
        (Some(Ok(value)), Ok(())) => Ok(value),
        (None, Ok(())) => Err(Error::new(ErrorKind::NotCommitted, "the job did not run")),
    }
}

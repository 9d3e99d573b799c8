//! Jobs for the writer thread.

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::db::sqlite::enqueue::Enqueue;
use crate::db::sqlite::guard::{Guard, TransactionLost, catch};
use crate::queue::Claims;
use crate::store::Wake;
use crate::support::error::{Error, ErrorKind, Result};

/// That many claimed messages take longer to handle than a job takes to come and go.
const BATCH_MIN: usize = 100;

/// The state in which a job left the transaction it ran in.
#[derive(Debug)]
pub(crate) enum Ran {
    /// Usable: the effects of the job are complete, or rolled back.
    Well,
    /// Broken, with the reason: everything in it must be rolled back and run again, job by job.
    Spoilt(Error),
}

/// One job. It may run more than once: if another job breaks the group's transaction, all run again, each separately.
pub(crate) trait Job: Send {
    fn run(&mut self, conn: &Connection, guard: &Guard) -> Ran;

    /// Answers the caller, after the commit.
    fn answer(self: Box<Self>, commit: Result<()>);

    /// Whether the caller still waits for the answer. If it does not, the job is not run.
    fn is_wanted(&self) -> bool;

    /// How the job itself failed, whatever the result of the commit.
    fn failed_as(&self) -> Option<ErrorKind> {
        None
    }

    /// Whether the job waits for code on another thread while it holds the transaction.
    fn is_session(&self) -> bool {
        false
    }

    /// Whether it woke a worker, which is about to submit a claim.
    fn woke_a_worker(&self) -> bool {
        false
    }

    /// Whether it claimed so many messages that they are better handled while the next group runs.
    fn claimed_a_batch(&self) -> bool {
        false
    }

    /// The job, if it only stores messages.
    fn as_enqueue(&mut self) -> Option<&mut Enqueue> {
        None
    }
}

/// The result of a job in the transaction: its own success or failure, unless the whole transaction was lost.
pub(crate) type Kept<T> = std::result::Result<Result<T>, TransactionLost>;

/// A job with one caller, who gets the answer after the commit.
struct Call<F, R, T> {
    code: F,
    /// Wakes workers after the commit, before the caller gets its answer, because workers need longer to start.
    ring: R,
    /// Whether what it returns is a batch of messages.
    is_batch: fn(&T) -> bool,
    outcome: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

/// A job that runs `code`, and calls `ring` when its result is committed.
pub(crate) fn job<T: Send + 'static>(
    code: impl FnMut(&Connection, &Guard) -> Kept<T> + Send + 'static,
    ring: impl Fn(&T) + Send + 'static,
) -> (Box<dyn Job>, oneshot::Receiver<Result<T>>) {
    let (reply, answer) = oneshot::channel();
    (Box::new(Call { code, ring, is_batch: |_| false, outcome: None, reply }), answer)
}

/// A claim.
pub(crate) fn claim_job(
    mut claim: impl FnMut(&Connection) -> Result<Claims> + Send + 'static,
) -> (Box<dyn Job>, oneshot::Receiver<Result<Claims>>) {
    let (reply, answer) = oneshot::channel();
    let code = move |conn: &Connection, _: &Guard| claim(conn).map(Ok).map_err(TransactionLost);
    let is_batch = |claims: &Claims| claims.claimed.len() >= BATCH_MIN;
    (Box::new(Call { code, ring: |_: &Claims| {}, is_batch, outcome: None, reply }), answer)
}

/// One of our own operations: it needs no savepoint, because an error in it rolls the whole group back.
pub(crate) fn verb_job<T: Send + 'static>(
    mut verb: impl FnMut(&Connection) -> Result<T> + Send + 'static,
    rings: Option<Wake>,
) -> (Box<dyn Job>, oneshot::Receiver<Result<T>>) {
    job(move |conn, _| verb(conn).map(Ok).map_err(TransactionLost), move |_| rings.iter().for_each(Wake::ring))
}

/// The user's own writes, in a savepoint.
pub(crate) fn user_job<T: Send + 'static>(
    mut code: impl FnMut(&Connection) -> Result<T> + Send + 'static,
    rings: [Wake; 2],
) -> (Box<dyn Job>, oneshot::Receiver<Result<T>>) {
    let in_savepoint = move |conn: &Connection, guard: &Guard| match guard.savepoints(conn) {
        Ok(mut savepoints) => savepoints.run(|| catch(|| code(conn)), |_| Ok(())),
        Err(error) => Ok(Err(error)),
    };
    job(in_savepoint, move |_| rings.iter().for_each(Wake::ring))
}

impl<F, R, T> Job for Call<F, R, T>
where
    F: FnMut(&Connection, &Guard) -> Kept<T> + Send,
    R: Fn(&T) + Send,
    T: Send,
{
    fn run(&mut self, conn: &Connection, guard: &Guard) -> Ran {
        let (outcome, ran) = kept((self.code)(conn, guard));
        self.outcome = Some(outcome);
        ran
    }

    fn answer(self: Box<Self>, commit: Result<()>) {
        let answer = joined(self.outcome, commit);
        answer.iter().for_each(&self.ring);
        let _ = self.reply.send(answer);
    }

    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn claimed_a_batch(&self) -> bool {
        self.outcome.as_ref().and_then(|outcome| outcome.as_ref().ok()).is_some_and(self.is_batch)
    }

    fn failed_as(&self) -> Option<ErrorKind> {
        self.outcome.as_ref().and_then(|outcome| outcome.as_ref().err()).map(Error::kind)
    }
}

/// The answer for the caller, and the state of the transaction.
pub(crate) fn kept<T>(kept: Kept<T>) -> (Result<T>, Ran) {
    match kept {
        Ok(outcome) => (outcome, Ran::Well),
        Err(TransactionLost(error)) => {
            let why = the_same(&error);
            (Err(error), Ran::Spoilt(why))
        }
    }
}

pub(crate) fn lost() -> Error {
    Error::new(
        ErrorKind::NotCommitted,
        "the code rolled the transaction back from inside (a trigger's RAISE(ROLLBACK), or OR ROLLBACK); \
         nothing of it is stored",
    )
}

/// A copy of an error, for another job that it concerns.
pub(crate) fn the_same(error: &Error) -> Error {
    Error::new(error.kind(), error.to_string())
}

pub(crate) fn joined<T>(outcome: Option<Result<T>>, commit: Result<()>) -> Result<T> {
    match (outcome, commit) {
        (Some(Err(error)), _) | (_, Err(error)) => Err(error),
        (Some(Ok(value)), Ok(())) => Ok(value),
        (None, Ok(())) => Err(Error::new(ErrorKind::NotCommitted, "the job did not run")),
    }
}

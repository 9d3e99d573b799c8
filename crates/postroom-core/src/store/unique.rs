//! Stores one message, and takes its unique key first if it has one. It is written once, for our own transactions and
//! for those of the caller.

use std::time::Duration;

use futures_util::FutureExt as _;
use uuid::Uuid;

use crate::message::{NewMessage, WorkItemId};
use crate::sql::{BlockingTx, Done, Session, Statement, Tx};
use crate::store::Stored;
use crate::support::clock::Timestamp;
use crate::support::error::{Error, ErrorKind, Result};

/// When to look whether a key is still needed that a message has until something happens.
const LOOK_AFTER: Duration = Duration::from_secs(3600);

/// Returns when to look whether a key that was just taken is still needed.
pub(crate) fn look_first(until: Option<Timestamp>, now: Timestamp) -> Timestamp {
    until.unwrap_or_else(|| now.plus(LOOK_AFTER))
}

/// Returns when to look again, or `None` if no message has the key any more. `lives` says whether its message waits or
/// is in progress.
pub(crate) fn look_again(until: Option<Timestamp>, lives: bool, now: Timestamp) -> Option<Timestamp> {
    match until {
        Some(until) => Some(until).filter(|until| *until > now),
        None => lives.then(|| now.plus(LOOK_AFTER)),
    }
}

/// What runs the statements.
pub(crate) trait Runs {
    fn run(&mut self, statement: &Statement) -> impl Future<Output = Result<Done>> + Send;

    /// Returns the id in the first row of the answer.
    fn read_id(&mut self, statement: &Statement) -> impl Future<Output = Result<Option<Uuid>>> + Send;
}

pub(crate) struct OnTx<'t, T>(pub(crate) &'t mut T);

pub(crate) struct OnSession<'s, S>(pub(crate) &'s mut S);

struct OnBlocking<'t, T>(&'t T);

impl<T: Tx> Runs for OnTx<'_, T> {
    fn run(&mut self, statement: &Statement) -> impl Future<Output = Result<Done>> + Send {
        self.0.run(statement)
    }

    fn read_id(&mut self, statement: &Statement) -> impl Future<Output = Result<Option<Uuid>>> + Send {
        self.0.read_id(statement)
    }
}

impl<S: Session> Runs for OnSession<'_, S> {
    fn run(&mut self, statement: &Statement) -> impl Future<Output = Result<Done>> + Send {
        self.0.execute(statement)
    }

    fn read_id(&mut self, statement: &Statement) -> impl Future<Output = Result<Option<Uuid>>> + Send {
        let rows = self.0.query(statement, |row| row.uuid(0));
        async move { Ok(rows.await?.into_iter().next().flatten()) }
    }
}

impl<T: BlockingTx> Runs for OnBlocking<'_, T> {
    fn run(&mut self, statement: &Statement) -> impl Future<Output = Result<Done>> + Send {
        std::future::ready(self.0.run(statement))
    }

    fn read_id(&mut self, statement: &Statement) -> impl Future<Output = Result<Option<Uuid>>> + Send {
        std::future::ready(self.0.read_id(statement))
    }
}

/// Stores a message with its statement.
pub(crate) async fn store(runs: &mut impl Runs, message: &NewMessage, insert: &Statement) -> Result<Stored> {
    let id = message.work_item_id();
    let Some(unique) = &insert.unique else {
        return Ok(Stored::new(id, runs.run(insert).await?.duplicate));
    };
    if runs.run(&unique.take).await?.duplicate {
        let holder = runs.read_id(&unique.holder).await?.map_or(Ok(id), WorkItemId::from_uuid)?;
        let is_other = holder != id;
        return if unique.refuses && is_other { Err(refused(holder)) } else { Ok(Stored::new(holder, true)) };
    }
    let mut stored = Stored::new(id, runs.run(insert).await?.duplicate);
    if stored.is_new() {
        stored.replaced = replaced(runs, insert).await?;
    }
    Ok(stored)
}

/// Returns the message that a new one took the place of.
pub(crate) async fn replaced(runs: &mut impl Runs, insert: &Statement) -> Result<Option<WorkItemId>> {
    let Some(replaced) = insert.unique.as_ref().and_then(|unique| unique.replaced.as_ref()) else { return Ok(None) };
    runs.read_id(replaced).await?.map(WorkItemId::from_uuid).transpose()
}

/// Does the same on a connection that does not wait.
pub(crate) fn store_blocking(tx: &impl BlockingTx, message: &NewMessage, insert: &Statement) -> Result<Stored> {
    let stored = store(&mut OnBlocking(tx), message, insert).now_or_never();
    stored.unwrap_or_else(|| Err(Error::new(ErrorKind::Database, "the driver was asked to wait")))
}

pub(crate) fn refused(holder: WorkItemId) -> Error {
    Error::new(ErrorKind::Duplicate, format!("message {holder} has the same unique key; nothing was stored"))
}

pub(crate) fn unsupported() -> Error {
    Error::new(ErrorKind::Unsupported, "this database has no unique keys")
}

//! The part of a connection that is the same for every driver.

use std::time::{Duration, Instant};

use crate::db::server::Began;
use crate::support::clock::{Timestamp, monotonic};
use crate::support::error::{Error, ErrorKind, Result};

/// How long one of our connections waits for an answer. A server that died silently, or one behind a broken network,
/// never answers; its connection cannot be used after that.
#[derive(Debug)]
pub(crate) struct Patience {
    pub(crate) limit: Duration,
    is_over: bool,
    is_spent: bool,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { limit: Duration::MAX, is_over: false, is_spent: false }
    }

    pub(crate) async fn wait<T>(&mut self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        let answered = if self.is_over { None } else { tokio::time::timeout(self.limit, answer).await.ok() };
        let answer = answered.unwrap_or_else(|| {
            self.is_over = true;
            Err(Error::new(ErrorKind::Unavailable, format!("the server did not answer for {:?}", self.limit)))
        });
        self.is_spent |= answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable);
        answer
    }

    /// Records the time that a server reported, and whether it is read-only. A connection to a read-only server is not
    /// used again.
    pub(crate) fn began(&mut self, said: i64, read_only: i64) -> Began {
        let is_read_only = read_only != 0;
        self.is_spent |= is_read_only;
        Began { said: Timestamp::from_micros(said), is_read_only }
    }

    /// Fails if the server takes no writes. Its connection is not used again.
    pub(crate) fn check_writable(&mut self, is_read_only: bool) -> Result<()> {
        self.is_spent |= is_read_only;
        if is_read_only { Err(read_only()) } else { Ok(()) }
    }

    /// Marks the connection: it must not be used again.
    pub(crate) fn spend(&mut self) {
        self.is_spent = true;
    }

    /// Whether the connection must not be used again: it broke, did not answer, or leads to a read-only server. Another
    /// connection may lead to the server that has taken over.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_spent
    }
}

/// The error of a server that takes no writes.
pub(crate) fn read_only() -> Error {
    let why = "the server is read-only: a standby, or a former primary that another server has replaced";
    Error::new(ErrorKind::Unavailable, why)
}

/// The address of a server. It contains a password, so it is never printed.
#[derive(Clone)]
pub(crate) struct Unprinted<T>(pub(crate) T);

impl<T> std::fmt::Debug for Unprinted<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// The error of a transaction that ended inside the handler: its last writes would be committed without the first ones.
pub(crate) fn ended_inside() -> Error {
    let why = "the transaction ended inside the handler: after a deadlock, or because a statement was interrupted";
    Error::new(ErrorKind::NotCommitted, why)
}

/// Waits for another program that deploys the schema.
#[derive(Debug)]
pub(crate) struct Turn(Instant);

/// How long a program waits for its turn, and how long before it asks again.
const TURN_WAIT: Duration = Duration::from_secs(60);
const TURN_PAUSE: Duration = Duration::from_millis(50);

impl Turn {
    pub(crate) fn new() -> Self {
        Self(monotonic())
    }

    /// Waits a little. An error says that it took too long.
    pub(crate) async fn wait(&mut self) -> Result<()> {
        if self.0.elapsed() >= TURN_WAIT {
            return Err(Self::too_long());
        }
        tokio::time::sleep_until((monotonic() + TURN_PAUSE).into()).await;
        Ok(())
    }

    pub(crate) fn too_long() -> Error {
        Error::new(ErrorKind::Unavailable, "another program has been deploying the schema for a minute")
    }
}

/// Deploying needs more permissions than working does. The error says who must deploy.
pub(crate) fn may_not_deploy(error: Error) -> Error {
    if error.kind() != ErrorKind::Unsupported {
        return error;
    }
    let message = format!(
        "this user may not deploy the schema ({error}): run `postroom migrate` once as a user that may create tables, \
         and open without deploying it"
    );
    Error::new(ErrorKind::Unsupported, message).caused_by(error)
}

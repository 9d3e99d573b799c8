//! What is the same for every database behind sqlx 0.9.

use sqlx::{Connection, SqlStr};

use crate::error::{Error, ErrorKind};

/// How long one of our connections waits for an answer. A server that died without a word, or one behind a broken
/// network, never gives one; the connection is of no use after that.
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql"))]
#[derive(Debug)]
pub(super) struct Patience {
    pub(super) limit: std::time::Duration,
    is_over: bool,
}

#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql"))]
impl Patience {
    pub(super) fn new() -> Self {
        Self { limit: std::time::Duration::MAX, is_over: false }
    }

    pub(super) async fn wait<T>(
        &mut self,
        answer: impl Future<Output = crate::error::Result<T>>,
    ) -> crate::error::Result<T> {
        let answered = if self.is_over { None } else { tokio::time::timeout(self.limit, answer).await.ok() };
        answered.unwrap_or_else(|| {
            self.is_over = true;
            Err(Error::new(ErrorKind::Unavailable, format!("the server did not answer for {:?}", self.limit)))
        })
    }
}

/// How a server is reached: with a password in it, and so never printed.
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql"))]
#[derive(Clone)]
pub(crate) struct Unprinted<T>(pub(crate) T);

#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql"))]
impl<T> std::fmt::Debug for Unprinted<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// Makes the driver believe for good that the connection is inside a transaction. We begin and end transactions in our
/// own words; what a handler begins on the connection is a savepoint then, and cannot commit what is not finished.
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql"))]
pub(super) async fn begin_for_good<C: Connection>(conn: &mut C, begin: SqlStr) -> sqlx::Result<()> {
    let transaction = conn.begin_with(begin).await?;
    // It only borrows; dropped, it would roll back and count down.
    std::mem::forget(transaction);
    Ok(())
}

/// What a handler wrote last would commit by itself, without what it wrote first.
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql"))]
pub(super) fn ended_inside() -> Error {
    let why = "the transaction ended inside the handler: after a deadlock, or by a statement that was broken off";
    Error::new(ErrorKind::NotCommitted, why)
}

/// An error of the driver. `kind_of` knows the codes of its database.
pub(super) fn explained(name: &str, source: sqlx::Error, kind_of: impl Fn(&str) -> ErrorKind, hint: &str) -> Error {
    let kind = match &source {
        sqlx::Error::Database(error) => error.code().map_or(ErrorKind::Database, |code| kind_of(&code)),
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::BeginFailed => ErrorKind::Unavailable,
        sqlx::Error::Configuration(_) => ErrorKind::InvalidInput,
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => ErrorKind::Corrupt,
        _ => ErrorKind::Database,
    };
    let hint = if kind == ErrorKind::Schema { "; deploy the schema first" } else { hint };
    Error::new(kind, format!("{name}: {source}{hint}")).caused_by(source)
}

/// Deploying needs more than working does: whoever may not is told who must.
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql"))]
pub(super) fn may_not_deploy(error: Error) -> Error {
    if error.kind() != ErrorKind::Unsupported {
        return error;
    }
    let message = format!(
        "this user may not deploy the schema ({error}): run `postroom migrate` once as a user that may create tables, \
         and open without deploying it"
    );
    Error::new(ErrorKind::Unsupported, message).caused_by(error)
}

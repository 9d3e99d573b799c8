//! Runs blocking code, and futures that never wait.

use futures_util::FutureExt;

use crate::support::error::{Error, ErrorKind, Result};

/// Takes the result of a future that never waits: SQLite answers at once.
pub(crate) fn now<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    future.now_or_never().unwrap_or_else(|| Err(Error::new(ErrorKind::Database, "SQLite was asked to wait")))
}

/// Runs code on a thread where it may block.
pub(crate) async fn blocking<T: Send + 'static>(code: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let joined = tokio::task::spawn_blocking(code).await;
    joined.map_err(|source| match source.is_panic() {
        true => Error::new(ErrorKind::Callback, "the code panicked").caused_by(source),
        false => Error::new(ErrorKind::Closed, "the runtime is shutting down").caused_by(source),
    })?
}

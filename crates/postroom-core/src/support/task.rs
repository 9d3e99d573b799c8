//! Work that is finished even if its caller stops waiting, so that no conversation with a database is left half done.

use std::future::Future;

use tokio::task::JoinHandle;

use crate::support::error::{Error, ErrorKind, Result};

/// What can be taken along to another task.
pub(crate) trait Portable: Send + Sync + 'static {}

impl<T: Send + Sync + 'static> Portable for T {}

/// Starts the work. Dropping the handle does not stop it.
#[allow(clippy::disallowed_methods, reason = "only these tasks outlive their caller")]
pub fn in_background<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(work)
}

/// Does the work to its end, even if the caller stops waiting.
pub(crate) async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    in_background(work).await.map_err(|source| match source.is_panic() {
        true => Error::new(ErrorKind::Database, "the store's own code panicked").caused_by(source),
        false => Error::new(ErrorKind::Closed, "the runtime is shutting down").caused_by(source),
    })?
}

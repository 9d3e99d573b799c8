//! A look at the node and at what it stands on: what health is judged by.

use std::path::{Path, PathBuf};
use std::time::Duration;

use postroom::{Clock, Courier, Destination, ErrorKind, Filter, QueueStats, Result};
use tokio::time::timeout;

use super::Desk;

/// A database that takes longer does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is looked at besides the queues.
#[derive(Clone)]
pub(crate) struct Watched {
    pub(crate) courier: Courier,
    /// The file of an embedded database.
    pub(crate) file: Option<PathBuf>,
}

/// Room on the disk of the database's file, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) free: u64,
    pub(super) total: u64,
}

/// What was seen.
#[derive(Clone, Default, Debug)]
pub(super) struct Look {
    pub(super) outbox: QueueStats,
    pub(super) inbox: QueueStats,
    pub(super) destinations: Vec<Destination>,
    pub(super) room: Option<Room>,
    /// The size of the database's log.
    pub(super) log_bytes: Option<u64>,
    /// How far this machine's clock is from the database's.
    pub(super) clock_off: Duration,
    /// What is wrong with the tables.
    pub(super) schema: Option<String>,
}

impl Desk {
    /// Looks at everything; none when the database does not answer.
    pub(super) async fn look(&self) -> Option<Look> {
        let asked = async {
            let schema = match self.0.store.check_schema().await {
                Err(error) if error.kind() == ErrorKind::Schema => Some(error.to_string()),
                checked => checked.map(|()| None)?,
            };
            if schema.is_some() {
                return Ok(Look { schema, ..Look::default() });
            }
            let (outbox, inbox) = tokio::try_join!(self.0.outbox.queue().stats(), self.0.inbox.queue().stats())?;
            Ok(Look { outbox, inbox, ..Look::default() })
        };
        let look = self.answered(asked).await?;
        let (here, there) = (Clock::Database.now(), self.0.store.clock().now());
        Some(Look {
            destinations: self.0.watched.courier.destinations(),
            room: self.0.watched.file.as_deref().and_then(room),
            log_bytes: self.0.watched.file.as_deref().and_then(log_bytes),
            clock_off: here.since(there).max(there.since(here)),
            ..look
        })
    }

    /// Whether the database answers at all: the cheapest question there is.
    pub(super) async fn is_reached(&self) -> bool {
        self.answered(self.0.outbox.queue().list(Filter::one(0))).await.is_some()
    }

    async fn answered<T>(&self, asked: impl Future<Output = Result<T>>) -> Option<T> {
        match timeout(PATIENCE, asked).await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the database did not answer the health check");
                None
            }
            Err(_) => {
                tracing::warn!(seconds = PATIENCE.as_secs(), "the database did not answer the health check in time");
                None
            }
        }
    }
}

/// The log stands beside its database.
fn log_bytes(file: &Path) -> Option<u64> {
    let mut name = file.file_name()?.to_owned();
    name.push("-wal");
    std::fs::metadata(file.with_file_name(name)).ok().map(|log| log.len())
}

#[cfg(unix)]
fn room(file: &Path) -> Option<Room> {
    let disk = rustix::fs::statvfs(file).ok()?;
    Some(Room { free: disk.f_bavail.saturating_mul(disk.f_frsize), total: disk.f_blocks.saturating_mul(disk.f_frsize) })
}

#[cfg(not(unix))]
fn room(_: &Path) -> Option<Room> {
    None
}

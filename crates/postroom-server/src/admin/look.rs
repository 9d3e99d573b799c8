//! Collects the facts for the health check.

use std::path::{Path, PathBuf};
use std::time::Duration;

use postroom::clock::{Clock, ClockJump};
use postroom::operator::{Filter, Hold, Lanes, QueueStats, Rule};
use postroom::queue::{Queue, WorkQueue};
use postroom::services::{Courier, Destination};
use postroom::worker::Places;
use postroom::{Error, ErrorKind};
use tokio::time::timeout;

use super::Desk;

/// A database that takes longer counts as unavailable.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the health check looks at besides the queues.
#[derive(Clone)]
pub(crate) struct Watched {
    pub(crate) courier: Courier,
    pub(crate) places: Places,
    /// The file of an embedded database.
    pub(crate) file: Option<PathBuf>,
}

/// Space on the disk of the database file, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) free: u64,
    pub(super) total: u64,
}

/// The collected facts.
#[derive(Clone, Default, Debug)]
pub(super) struct Look {
    pub(super) outbox: QueueStats,
    pub(super) inbox: QueueStats,
    pub(super) destinations: Vec<Destination>,
    /// The open circuit breakers of all nodes.
    pub(super) holds: Vec<Hold>,
    /// What operators paused or limited.
    pub(super) rules: Vec<(Queue, Rule)>,
    /// The deepest lanes, and those that are blocked.
    pub(super) lanes: Vec<(Queue, Lanes)>,
    pub(super) room: Option<Room>,
    /// The size of the database's log.
    pub(super) log_bytes: Option<u64>,
    /// The difference between the clocks of this machine and the database.
    pub(super) clock_off: Duration,
    /// The last jump of the store's clock.
    pub(super) clock_jump: Option<ClockJump>,
    /// The database answers but could not count the messages in time: there are very many, or it is busy.
    pub(super) is_uncounted: bool,
    /// What is wrong with the tables.
    pub(super) schema: Option<String>,
}

impl Desk {
    /// Collects everything; `None` if the database does not answer.
    pub(super) async fn look(&self) -> Option<Look> {
        let schema = match in_time(self.0.store.check_schema()).await? {
            Ok(()) => None,
            Err(error) if error.kind() == ErrorKind::Schema => Some(error.to_string()),
            Err(error) => return unanswered(&error),
        };
        if schema.is_some() {
            return Some(Look { schema, ..Look::default() });
        }
        let (outbox, inbox) = (self.0.outbox.queue(), self.0.inbox.queue());
        let queues = [outbox, inbox];
        let counting = async {
            let (held_out, held_in, rules, lanes) = (outbox.holds(), inbox.holds(), rules(&queues), lanes(&queues, 1));
            tokio::try_join!(outbox.stats(), inbox.stats(), held_out, held_in, rules, lanes)
        };
        let look = match in_time(counting).await {
            Some(Ok((outbox, inbox, held_out, held_in, rules, lanes))) => {
                Look { outbox, inbox, holds: [held_out, held_in].concat(), rules, lanes, ..Look::default() }
            }
            Some(Err(error)) => return unanswered(&error),
            None => Look { is_uncounted: true, ..Look::default() },
        };
        let (here, there) = (Clock::Database.now(), self.0.store.clock().now());
        Some(Look {
            destinations: self.0.watched.courier.destinations(),
            room: self.0.watched.file.as_deref().and_then(room),
            log_bytes: self.0.watched.file.as_deref().and_then(log_bytes),
            clock_off: here.since(there).max(there.since(here)),
            clock_jump: self.0.store.clock().jump(),
            ..look
        })
    }

    /// Whether the database answers at all, with the cheapest possible query.
    pub(super) async fn is_reached(&self) -> bool {
        match in_time(self.0.outbox.queue().list(Filter::one(0))).await {
            Some(Ok(_)) => true,
            Some(Err(error)) => unanswered::<()>(&error).is_some(),
            None => false,
        }
    }
}

/// What is paused or limited in these queues.
pub(super) async fn rules(queues: &[&WorkQueue]) -> postroom::Result<Vec<(Queue, Rule)>> {
    let mut rules = Vec::new();
    for queue in queues {
        rules.extend(queue.rules().await?.into_iter().map(|rule| (queue.kind(), rule)));
    }
    Ok(rules)
}

/// What stands in the lanes of these queues.
pub(super) async fn lanes(queues: &[&WorkQueue], limit: usize) -> postroom::Result<Vec<(Queue, Lanes)>> {
    let mut lanes = Vec::new();
    for queue in queues {
        lanes.push((queue.kind(), queue.lanes(limit).await?));
    }
    Ok(lanes)
}

/// The answer; `None` if it takes too long.
async fn in_time<T>(asked: impl Future<Output = T>) -> Option<T> {
    let answer = timeout(PATIENCE, asked).await.ok();
    if answer.is_none() {
        tracing::warn!(seconds = PATIENCE.as_secs(), "the database did not answer the health check in time");
    }
    answer
}

fn unanswered<T>(error: &Error) -> Option<T> {
    tracing::warn!(%error, "the database did not answer the health check");
    None
}

/// The log file is next to its database.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_question_that_is_never_answered_ends() {
        assert_eq!(in_time(std::future::pending::<()>()).await, None);
        assert_eq!(in_time(async { 7 }).await, Some(7));
    }

    #[test]
    fn the_room_of_a_disk_and_the_size_of_a_log_are_read_where_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shop.db");
        assert_eq!(log_bytes(&file), None);
        std::fs::write(&file, "").unwrap();
        std::fs::write(folder.path().join("shop.db-wal"), [0; 4096]).unwrap();
        assert_eq!(log_bytes(&file), Some(4096));
        #[cfg(unix)]
        assert!(room(&file).is_some_and(|room| room.total > 0 && room.free <= room.total));
    }
}

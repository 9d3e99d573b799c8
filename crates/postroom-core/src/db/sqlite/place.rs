//! Which file a store has open. If the file was replaced or removed, this is noticed before anything is acknowledged:
//! SQLite itself would go on writing to a file that no longer has its name.
//!
//! A write-ahead log is found by the name of its database and does not say which file it belongs to: a new file would
//! be read together with the log of the old one, and the next checkpoint would damage it permanently. SQLite leaves
//! that log behind when it closes a file that was moved. So before a connection to the old file is closed, it copies
//! the log back into that file and empties it, and the new file is opened only when nobody uses the old log any more.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rusqlite::Connection;

use crate::db::sqlite::{Durability, connect, patience};
use crate::support::clock::monotonic;
use crate::support::error::{Error, ErrorKind, Result};

/// How long a connection that is about to be closed waits for readers of the log.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// Identifies a file, whatever its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FileId {
    device: u64,
    number: u64,
    /// Inode numbers are reused.
    created: Option<SystemTime>,
}

impl FileId {
    #[cfg(unix)]
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let file = std::fs::metadata(path)?;
        Ok(Self { device: file.dev(), number: file.ino(), created: file.created().ok() })
    }

    /// On other systems an open file cannot be replaced or deleted.
    #[cfg(not(unix))]
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|_| Self::default())
    }
}

/// A connection, and the file that it has open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) conn: Connection,
    pub(crate) file: FileId,
    /// All connections to one file share this.
    held: Arc<()>,
}

impl Opened {
    /// Empties the log before the connection is closed because its file is no longer in place. The contents of the log
    /// belong to that file, wherever it was moved, and to no other.
    pub(crate) fn empty_log(&self) {
        let emptied: rusqlite::Result<i64> = patience::until(monotonic() + LAST_WAIT, || {
            self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        });
        tracing::debug!(?emptied, "tried to copy the log back into the old file");
    }
}

/// The location of a store's file.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    known: Mutex<Option<Known>>,
}

/// The file that was last opened there, with its log and the index of the log.
#[derive(Clone, Debug)]
struct Known {
    file: FileId,
    logs: [Option<FileId>; 2],
    held: Arc<()>,
}

impl Place {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, known: Mutex::new(None) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn known(&self) -> MutexGuard<'_, Option<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the file that was last opened is no longer there under its name.
    pub(crate) fn has_changed(&self) -> bool {
        let known = self.known().as_ref().map(|known| known.file);
        known.is_some_and(|file| FileId::of(&self.path).ok() != Some(file))
    }

    /// Refuses a connection to a file that is no longer there.
    pub(crate) fn check(&self, opened: FileId) -> Result<()> {
        match FileId::of(&self.path) {
            Ok(found) if found == opened => Ok(()),
            Ok(_) => Err(self.unavailable(
                "another file was put in its place while it was open. Nothing of this is stored; the next call opens \
                 the new file",
            )),
            Err(error) => Err(self.gone(error)),
        }
    }

    /// Opens a connection that writes. If another file has replaced the old one, [`accept`](Self::accept) accepts it.
    pub(crate) fn writer(&self, durability: Durability) -> Result<Opened> {
        self.open(|path| connect::writer(path, durability))
    }

    /// Opens a connection that only reads, to whichever file is there.
    pub(crate) fn look(&self) -> Result<Opened> {
        self.open(connect::reader)
    }

    /// Opens a connection that only reads.
    pub(crate) fn reader(&self) -> Result<Opened> {
        let opened = self.open(connect::reader)?;
        if self.known().as_ref().is_some_and(|known| known.file != opened.file) {
            return Err(self.unavailable("another file was put in its place while it was open"));
        }
        self.accept(&opened);
        Ok(opened)
    }

    fn open(&self, open: impl Fn(&Path) -> Result<Connection>) -> Result<Opened> {
        self.leave_old_log()?;
        let (conn, file) = connect::the_same_file(&self.path, || open(&self.path))?;
        let held = self.known().as_ref().filter(|known| known.file == file).map(|known| known.held.clone());
        Ok(Opened { conn, file, held: held.unwrap_or_default() })
    }

    /// From now on, this file is the one at this place.
    pub(crate) fn accept(&self, opened: &Opened) {
        let logs = self.logs().map(|log| FileId::of(&log).ok());
        *self.known() = Some(Known { file: opened.file, logs, held: opened.held.clone() });
    }

    fn logs(&self) -> [PathBuf; 2] {
        [connect::beside(&self.path, "-wal"), connect::beside(&self.path, "-shm")]
    }

    /// Removes the log of the old file, so that the new file does not use it, if it is empty and not in use.
    fn leave_old_log(&self) -> Result<()> {
        let Some(known) = self.known().clone() else { return Ok(()) };
        let found = FileId::of(&self.path).map_err(|error| self.gone(error))?;
        if found == known.file {
            return Ok(());
        }
        // One reference here, and one in `known`.
        if Arc::strong_count(&known.held) > 2 {
            return Err(self.unavailable("another file was put in its place, and the old one is still being read"));
        }
        let [log, index] = self.logs();
        let is_left = |path: &Path, id: Option<FileId>| id.is_some() && FileId::of(path).ok() == id;
        let [log_is_left, index_is_left] = [is_left(&log, known.logs[0]), is_left(&index, known.logs[1])];
        let is_empty = !log_is_left || std::fs::metadata(&log).is_ok_and(|log| log.len() == 0);
        if !is_empty || index_is_left && is_in_use(&index) {
            let name = self.path.display();
            return Err(self.unavailable(&format!(
                "another file was put in its place, and {name}-wal is still the log of the old one: together they \
                 would be damaged. End every program that has the old file open. If {name}-wal is not empty then, \
                 move it away, and {name}-shm with it"
            )));
        }
        let left = [(&log, log_is_left), (&index, index_is_left)];
        left.iter().filter(|(_, is_left)| *is_left).for_each(|(path, _)| drop(std::fs::remove_file(path)));
        Ok(())
    }

    fn gone(&self, error: io::Error) -> Error {
        let why = match error.kind() {
            io::ErrorKind::NotFound => {
                "it was deleted or moved away while it was open. Nothing is stored until it is back: move it there, or \
                 restore a backup"
                    .to_owned()
            }
            _ => error.to_string(),
        };
        self.unavailable(&why).caused_by(error)
    }

    fn unavailable(&self, why: &str) -> Error {
        Error::new(ErrorKind::Unavailable, format!("cannot use {}: {why}", self.path.display()))
    }
}

/// Whether another process has the index of a log open: each process holds a lock on it all the time. Our own
/// connections to it are closed; this check would release any lock that they held.
#[cfg(unix)]
fn is_in_use(index: &Path) -> bool {
    use rustix::fs::{FlockOperation, fcntl_lock};
    let file = std::fs::File::options().read(true).write(true).open(index);
    file.is_ok_and(|file| fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
}

#[cfg(not(unix))]
fn is_in_use(_: &Path) -> bool {
    false
}

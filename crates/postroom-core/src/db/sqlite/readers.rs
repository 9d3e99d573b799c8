//! Connections that only read, kept for the next query: a few for each store, and not many in total.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use crate::db::sqlite::place::{Opened, Place};
use crate::support::error::Result;

const KEPT_BY_STORE: usize = 4;
/// The most idle readers that this process keeps. Each holds up to three files open. With more stores than this, those
/// that are rarely queried open theirs again.
const KEPT_IN_ALL: usize = 32;

/// The readers, each with the number of its store, in the order of their last use.
static KEPT: Mutex<Vec<(u64, Opened)>> = Mutex::new(Vec::new());
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The readers of one store.
#[derive(Debug)]
pub(crate) struct Readers {
    id: u64,
}

impl Readers {
    pub(crate) fn new() -> Self {
        Self { id: NEXT_ID.fetch_add(1, Ordering::Relaxed) }
    }

    /// Runs `code` with a connection to the database at `place`.
    pub(crate) fn read<T>(&self, place: &Place, code: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        // A reader of a file that is no longer in place is closed.
        let opened = match self.take() {
            Some(kept) if place.check(kept.file).is_ok() => kept,
            Some(left) => {
                left.empty_log();
                drop(left);
                place.reader()?
            }
            None => place.reader()?,
        };
        #[cfg(feature = "testing")]
        super::statements::count(&opened.conn);
        let result = code(&opened.conn);
        // A reader that was left inside a transaction would show the same moment forever.
        match opened.conn.is_autocommit() {
            true if place.check(opened.file).is_ok() => self.keep(opened),
            true => opened.empty_log(),
            false => {}
        }
        result
    }

    fn take(&self) -> Option<Opened> {
        let mut kept = kept();
        let last = kept.iter().rposition(|(id, _)| *id == self.id)?;
        Some(kept.remove(last).1)
    }

    fn keep(&self, opened: Opened) {
        let mut kept = kept();
        kept.push((self.id, opened));
        let own = kept.iter().filter(|(id, _)| *id == self.id).count();
        let excess = match (own > KEPT_BY_STORE, kept.len() > KEPT_IN_ALL) {
            (true, _) => kept.iter().position(|(id, _)| *id == self.id),
            (false, true) => Some(0),
            (false, false) => None,
        };
        let closed = excess.map(|excess| kept.remove(excess));
        // Closing may write to the disk, so it happens outside the lock.
        drop(kept);
        drop(closed);
    }

    /// Closes the readers because their file is no longer in place.
    pub(crate) fn leave(&self) {
        let closed: Vec<_> = kept().extract_if(.., |(id, _)| *id == self.id).collect();
        closed.iter().for_each(|(_, reader)| reader.empty_log());
    }

    pub(crate) fn close(&self) {
        let closed: Vec<_> = kept().extract_if(.., |(id, _)| *id == self.id).collect();
        drop(closed);
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.close();
    }
}

fn kept() -> MutexGuard<'static, Vec<(u64, Opened)>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

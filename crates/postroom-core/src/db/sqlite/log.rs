//! Keeps the write-ahead log short. The log starts again only when nobody reads from it. With a steady sequence of
//! readers that moment never comes by itself: then the writer waits for it, rarely and not for long.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::db::sqlite::patience;
use crate::support::clock::monotonic;
use crate::support::error::Result;

/// How many pages the log has at a checkpoint. A page that is claimed, acknowledged and claimed again is then copied
/// back once instead of each time.
const PAGES: u64 = 4000;
/// If the log is longer than this, a reader keeps it from starting again.
const LONG_BYTES: u64 = 64 << 20;
/// How long all writers wait for the readers.
const WAIT: Duration = Duration::from_millis(100);
/// How long after a wait without success the next one comes; the pause doubles each time.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LAST: Duration = Duration::from_secs(30);

thread_local! {
    /// The pages in the log after this thread's last commit.
    static LENGTH: Cell<u64> = const { Cell::new(0) };
}

/// The checkpoints of one writer.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    long: u64,
    pause: Duration,
    next: Option<Instant>,
}

impl Checkpoints {
    /// From now on checkpoints are made here, and not by SQLite inside a commit.
    pub(crate) fn set_up(conn: &Connection) -> Result<Self> {
        let page_bytes: u32 = conn.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        LENGTH.set(0);
        conn.wal_hook(Some(|_, pages| {
            LENGTH.set(u64::try_from(pages).unwrap_or(0));
            Ok(())
        }));
        Ok(Self { long: (LONG_BYTES / u64::from(page_bytes.max(1))).max(2 * PAGES), pause: PAUSE_FIRST, next: None })
    }

    /// Runs after a commit: copies the log back into the database when it is long enough.
    pub(crate) fn after_commit(&mut self, conn: &Connection) {
        let length = LENGTH.get();
        if length < PAGES {
            return;
        }
        let now = monotonic();
        if length < self.long || self.next.is_some_and(|next| now < next) {
            checkpoint(conn, "PRAGMA wal_checkpoint(PASSIVE)");
            return;
        }
        if !self.begin_anew(conn) {
            self.next = Some(monotonic() + self.pause);
            self.pause = (self.pause * 2).min(PAUSE_LAST);
        }
    }

    /// Runs before the connection is closed, when the writer is idle. Others may keep the file open.
    pub(crate) fn at_the_end(&mut self, conn: &Connection) {
        if LENGTH.get() >= self.long {
            self.begin_anew(conn);
        }
    }

    fn begin_anew(&mut self, conn: &Connection) -> bool {
        let is_done =
            patience::until(monotonic() + WAIT, || checkpoint(conn, "PRAGMA wal_checkpoint(TRUNCATE)") == Some(false));
        if is_done {
            LENGTH.set(0);
            (self.pause, self.next) = (PAUSE_FIRST, None);
        }
        is_done
    }
}

/// Runs a checkpoint and answers whether another connection was in the way. An error does no harm: the log only gets
/// longer, and the next commit meets the same error.
fn checkpoint(conn: &Connection, sql: &str) -> Option<bool> {
    conn.query_row(sql, [], |row| row.get(0)).ok()
}

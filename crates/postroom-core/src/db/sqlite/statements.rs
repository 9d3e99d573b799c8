//! Counts the statements that SQLite was given.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rusqlite::Connection;
use rusqlite::trace::TraceEventCodes;

static COUNTED: AtomicU64 = AtomicU64::new(0);
/// Whether anybody has asked. Counting slows SQLite down.
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// How many statements all SQLite stores of this process have run since this was first called, to show that something
/// runs none.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let folder = tempfile::tempdir().unwrap();
/// use postroom::{Outbox, testing};
/// use postroom::sqlite::SqliteOptions;
///
/// let store = SqliteOptions::new(folder.path().join("shop.db")).deploy_schema(true).open().await?;
/// let before = testing::statements();
/// Outbox::new(store).queue().stats().await?;
/// assert!(testing::statements() > before);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
pub fn statements() -> u64 {
    IS_ASKED.store(true, Ordering::SeqCst);
    COUNTED.load(Ordering::SeqCst)
}

/// Counts the statements of a connection from now on, if anybody has asked for it.
pub(crate) fn count(conn: &Connection) {
    if !IS_ASKED.load(Ordering::Relaxed) {
        return;
    }
    conn.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(|_| _ = COUNTED.fetch_add(1, Ordering::SeqCst)));
}

//! What is the same for every driver of SQLite.

use crate::error::{Error, ErrorKind, Result};

/// `PRAGMA synchronous` of a connection whose commits survive a power cut.
const SYNCHRONOUS_FULL: i64 = 2;

/// Asks a connection how durable its commits are.
pub(super) const SYNCHRONOUS: &str = "PRAGMA synchronous";

/// Refuses what a connection answered when its commits can be lost.
pub(super) fn check_synchronous(level: i64) -> Result<()> {
    if level >= SYNCHRONOUS_FULL {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        "this connection's commits can be lost in a power cut: an answer would go out for work that is gone. \
         Run PRAGMA synchronous = FULL on it first",
    ))
}

/// By the primary result code, which is the lowest byte of the extended one.
pub(super) fn kind_of(code: i32, message: &str) -> ErrorKind {
    match code & 0xff {
        // Constraint.
        19 => ErrorKind::Constraint,
        // Busy, locked, full, I/O.
        5 | 6 | 13 | 10 => ErrorKind::Unavailable,
        // Not a database, read-only, cannot be opened.
        26 | 8 | 14 => ErrorKind::Unsupported,
        // Corrupt.
        11 => ErrorKind::Corrupt,
        // SQLite has no code of its own for it.
        _ if message.starts_with("no such table") => ErrorKind::Schema,
        _ => ErrorKind::Database,
    }
}

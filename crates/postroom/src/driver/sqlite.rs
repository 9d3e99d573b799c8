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

/// A table of a shared cache that another connection has locked.
const LOCKED_IN_SHARED_CACHE: i32 = 262;

/// Whether the database is at fault, and not the statement: busy, a failing disk, a full one.
pub(super) fn is_outage(code: i32) -> bool {
    matches!(code & 0xff, 5 | 10 | 13)
}

/// By the primary result code, which is the lowest byte of the extended one.
pub(super) fn kind_of(code: i32, message: &str) -> ErrorKind {
    match code & 0xff {
        // Constraint.
        19 => ErrorKind::Constraint,
        _ if is_outage(code) || code == LOCKED_IN_SHARED_CACHE => ErrorKind::Unavailable,
        // Read-only, with the reason: its log or its folder cannot be written now, or the file was moved.
        8 if code != 8 => ErrorKind::Unavailable,
        // Not a database, read-only, cannot be opened.
        26 | 8 | 14 => ErrorKind::Unsupported,
        // Corrupt.
        11 => ErrorKind::Corrupt,
        // SQLite has no code of its own for it.
        _ if message.starts_with("no such table") => ErrorKind::Schema,
        _ => ErrorKind::Database,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_told_from_what_stays() {
        let kinds = |codes: &[i32]| codes.iter().map(|code| kind_of(*code, "")).collect::<Vec<_>>();
        let unavailable = [5, 517, 10, 778, 13, 262, 1032, 1544];
        assert_eq!(kinds(&unavailable), [ErrorKind::Unavailable; 8], "busy, I/O, full, read-only from now on");
        assert_eq!(kinds(&[8, 14, 26]), [ErrorKind::Unsupported; 3]);
        assert_eq!(kind_of(6, ""), ErrorKind::Database, "a statement in the way of another on the same connection");
    }
}

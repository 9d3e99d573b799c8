//! What errors of SQLite mean, whatever the driver.

use crate::support::error::{Error, ErrorKind};

/// A value that must be unique exists already.
const NOT_UNIQUE: i32 = 2067;
/// Another connection has locked a table of a shared cache.
const LOCKED_IN_SHARED_CACHE: i32 = 262;

/// Whether the database is at fault, and not the statement: it is busy, or its disk is failing or full.
fn is_outage_code(code: i32) -> bool {
    matches!(code & 0xff, 5 | 10 | 13)
}

/// Decides by the primary result code, which is the lowest byte of the extended one.
pub(crate) fn kind_of(code: i32, message: &str) -> ErrorKind {
    match code & 0xff {
        // Constraint.
        19 => ErrorKind::Constraint,
        _ if is_outage_code(code) || code == LOCKED_IN_SHARED_CACHE => ErrorKind::Unavailable,
        // Read-only for a reason that may pass: the log or the folder cannot be written now, or the file was moved.
        8 if code != 8 => ErrorKind::Unavailable,
        // Not a database, read-only, cannot be opened.
        26 | 8 | 14 => ErrorKind::Unsupported,
        // Corrupt.
        11 => ErrorKind::Corrupt,
        // SQLite has no separate code for it.
        _ if message.starts_with("no such table") => ErrorKind::Schema,
        _ => ErrorKind::Database,
    }
}

fn code_of(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error).map(|error| error.extended_code)
}

/// Whether a statement was refused because a row like its own exists already.
pub(crate) fn is_duplicate(error: &rusqlite::Error) -> bool {
    code_of(error) == Some(NOT_UNIQUE)
}

/// Whether the database is busy or full, or cannot read or write its disk.
pub(crate) fn is_outage(error: &(dyn std::error::Error + 'static)) -> bool {
    code_of(error).is_some_and(is_outage_code)
}

/// Whether another connection holds the lock that the call waited for.
pub(crate) fn is_busy(error: &Error) -> bool {
    std::error::Error::source(error).and_then(code_of).is_some_and(|code| code & 0xff == 5)
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

//! What errors of PostgreSQL mean, whatever the driver.

use sqlx::postgres::PgDatabaseError;

use crate::support::error::ErrorKind;

/// Errors that an undeclared pooler causes: a setting it does not know, a prepared statement that does not exist on
/// this connection, or one that another client made.
pub(crate) const POOLED: [&str; 3] = [NO_SUCH_SETTING, "26000", "42P05"];
/// A pooler does not know a setting that was requested when the connection was opened.
pub(crate) const NO_SUCH_SETTING: &str = "08P01";

/// Whether the server takes no writes at the moment: it is read-only, or its disk is full.
pub(crate) fn refuses(code: &str) -> bool {
    matches!(code, "25006" | "53100")
}

/// Decides by the class of the SQLSTATE and, where that is not enough, by the whole of it.
pub(crate) fn kind_of(code: &str) -> ErrorKind {
    match code {
        "40001" | "40P01" | "55P03" | "25P02" => ErrorKind::NotCommitted,
        "25006" | "57014" => ErrorKind::Unavailable,
        "42P01" | "3F000" | "42883" => ErrorKind::Schema,
        // The database does not exist, or the user has no permission.
        "3D000" | "42501" => ErrorKind::Unsupported,
        code if POOLED.contains(&code) => ErrorKind::Unsupported,
        _ => match code.get(..2) {
            Some("08" | "53" | "57" | "58") => ErrorKind::Unavailable,
            Some("23") => ErrorKind::Constraint,
            Some("28") => ErrorKind::Unsupported,
            Some("XX") => ErrorKind::Corrupt,
            _ => ErrorKind::Database,
        },
    }
}

/// Whether the error is a deadlock, a lost race, or a statement after one of them.
pub(crate) fn is_conflict(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
    let error = error.and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    error.is_some_and(|error| kind_of(error.code()) == ErrorKind::NotCommitted)
}

/// Whether the server takes no writes at the moment: it is read-only, or its disk is full.
pub(crate) fn refuses_writes(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
    let error = error.and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    error.is_some_and(|error| refuses(error.code()))
}

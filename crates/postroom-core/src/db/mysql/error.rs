//! What errors of MySQL and MariaDB mean.

use sqlx::mysql::MySqlDatabaseError;

use crate::db::sqlx_09::explained;
use crate::support::error::{Error, ErrorKind};

/// The server, or the transaction, takes no writes.
const READ_ONLY: [u16; 3] = [1290, 1792, 1836];
/// The disk or the table's space is full.
const FULL: [u16; 2] = [1021, 1114];

pub(crate) fn number_of(error: &sqlx::Error) -> Option<u16> {
    let error = error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(error.number())
}

/// Whether the error is a deadlock or a lost race.
pub(crate) fn is_conflict(error: &(dyn std::error::Error + 'static)) -> bool {
    let number = error.downcast_ref::<sqlx::Error>().and_then(number_of);
    number.is_some_and(|number| kind_of(number) == ErrorKind::NotCommitted)
}

/// Whether the server takes no writes at the moment: it is read-only, or its disk is full.
pub(crate) fn refuses_writes(error: &(dyn std::error::Error + 'static)) -> bool {
    let number = error.downcast_ref::<sqlx::Error>().and_then(number_of);
    number.is_some_and(|number| READ_ONLY.contains(&number) || FULL.contains(&number))
}

pub(crate) fn failed(source: sqlx::Error) -> Error {
    let kind = number_of(&source).map_or(ErrorKind::Database, kind_of);
    explained("MySQL", source, |_| kind, "")
}

pub(crate) fn kind_of(number: u16) -> ErrorKind {
    match number {
        // Deadlock, lock wait, a record that changed since it was read (MariaDB 11.6 and newer), NOWAIT.
        1213 | 1205 | 1020 | 3572 => ErrorKind::NotCommitted,
        number if READ_ONLY.contains(&number) || FULL.contains(&number) => ErrorKind::Unavailable,
        // Too many connections, a shutdown, a killed connection, a server that is going away.
        1040 | 1053 | 1077 | 1079 | 1317 | 1927 | 1203 | 1226 => ErrorKind::Unavailable,
        // Login, database and permissions.
        1045 | 1044 | 1049 | 1142 | 1143 | 1227 | 1370 | 1419 => ErrorKind::Unsupported,
        1146 | 1305 => ErrorKind::Schema,
        1048 | 1062 | 1364 | 1366 | 1406 | 1451 | 1452 | 3819 | 4025 => ErrorKind::Constraint,
        _ => ErrorKind::Database,
    }
}

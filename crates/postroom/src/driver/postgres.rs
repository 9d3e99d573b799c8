//! What is the same for every driver of PostgreSQL.

use crate::error::ErrorKind;

/// By the SQLSTATE's class and, where that does not say enough, by the whole of it.
pub(super) fn kind_of(code: &str) -> ErrorKind {
    match code {
        "40001" | "40P01" | "55P03" => ErrorKind::NotCommitted,
        "25006" | "57014" => ErrorKind::Unavailable,
        "42P01" | "3F000" | "42883" => ErrorKind::Schema,
        "3D000" => ErrorKind::Unsupported,
        _ => match code.get(..2) {
            Some("08" | "53" | "57" | "58") => ErrorKind::Unavailable,
            Some("23") => ErrorKind::Constraint,
            Some("28") => ErrorKind::Unsupported,
            Some("XX") => ErrorKind::Corrupt,
            _ => ErrorKind::Database,
        },
    }
}

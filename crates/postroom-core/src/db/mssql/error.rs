//! What SQL Server's error numbers mean, and which servers are too old.

use tiberius::error::Error as TdsError;

use crate::support::error::{Error, ErrorKind};

/// A unique constraint and a unique index report it with different numbers.
const DUPLICATE: [u32; 2] = [2627, 2601];
/// Babelfish: an error of the PostgreSQL below it that has no SQL Server number.
const UNNUMBERED: u32 = 33_557_097;
const FATAL: u8 = 20;
const TLS_HINT: &str = "name your own authority with trust_server_certificate_ca=FILE, and the name in the \
                        certificate with host_name_in_certificate=NAME";
/// The first version that supports JSON and `DROP … IF EXISTS`.
const OLDEST_VERSION: u32 = 13;
const OLDEST_LEVEL: i64 = 130;
/// The databases and managed instances of Azure, and those of Fabric, number their versions in another way.
const AZURE_EDITIONS: [&str; 5] = ["5", "8", "9", "11", "12"];

/// Whether a server of this version and edition can be trusted with the schema.
pub(crate) fn is_new_enough(version: &str, edition: &str, product: &str) -> bool {
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    AZURE_EDITIONS.contains(&edition) || product.contains("Babelfish") || major >= Some(OLDEST_VERSION)
}

/// Whether the database's compatibility level is recent enough.
pub(crate) fn is_compatible(level: Option<i64>, product: &str) -> bool {
    product.contains("Babelfish") || level.is_none_or(|level| level >= OLDEST_LEVEL)
}

pub(crate) fn is_duplicate(error: &TdsError) -> bool {
    error.code().is_some_and(|code| DUPLICATE.contains(&code))
}

/// Whether the error is a deadlock or a lost race.
pub(crate) fn is_conflict(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<TdsError>().is_some_and(|error| kind_of(error) == ErrorKind::NotCommitted)
}

/// Whether the server takes no writes at the moment: it is read-only, or its disk or log is full.
pub(crate) fn refuses_writes(error: &(dyn std::error::Error + 'static)) -> bool {
    let code = error.downcast_ref::<TdsError>().and_then(TdsError::code);
    matches!(code, Some(3906 | 3908 | 1101 | 1105 | 9002))
}

/// Whether the server does not have the database, or does not open it.
pub(crate) fn is_database_missing(error: &TdsError) -> bool {
    matches!(error.code(), Some(4060 | 4064))
}

/// If the browser service of a server's instances does not answer, the server counts as unreachable.
pub(crate) fn of_browser(error: TdsError) -> TdsError {
    match error {
        TdsError::Conversion(message) => {
            TdsError::Io { kind: std::io::ErrorKind::TimedOut, message: message.into_owned() }
        }
        error => error,
    }
}

pub(crate) fn failed(source: TdsError) -> Error {
    described(kind_of(&source), source)
}

/// The server's error as an error of this kind.
pub(crate) fn described(kind: ErrorKind, source: TdsError) -> Error {
    let hint = if kind == ErrorKind::Schema { "; deploy the schema first" } else { "" };
    match &source {
        // The text may repeat values, and so may a program that prints the cause.
        TdsError::Server(error) if repeats_values(error.code()) => {
            let (code, state) = (error.code(), error.state());
            Error::new(kind, format!("SQL Server: error {code}, state {state}: a constraint or a value's type"))
        }
        TdsError::Server(error) => {
            Error::new(kind, format!("SQL Server: {} (error {}){hint}", error.message(), error.code()))
                .caused_by(source.clone())
        }
        // The driver adds advice for Rust callers.
        TdsError::Tls(why) => {
            let why = why.split(". To connect").next().unwrap_or_default();
            Error::new(kind, format!("SQL Server: no encrypted connection: {why}; {TLS_HINT}"))
        }
        _ => Error::new(kind, format!("SQL Server: {source}")).caused_by(source),
    }
}

/// Whether the error's text repeats a value. Duplicate keys, truncated texts and failed conversions do.
fn repeats_values(code: u32) -> bool {
    matches!(code, 2627 | 2601 | 2628 | 8152 | 245 | 248 | 8114 | 547)
}

fn kind_of(error: &TdsError) -> ErrorKind {
    match error {
        // From this severity on, the server closes the connection.
        TdsError::Server(error) if error.class() >= FATAL => ErrorKind::Unavailable,
        TdsError::Server(error) if error.code() == UNNUMBERED => kind_of_unnumbered(error.message()),
        TdsError::Server(error) => kind_of_number(error.code()),
        TdsError::Io { .. } | TdsError::Tls(_) | TdsError::Protocol(_) | TdsError::Routing { .. } => {
            ErrorKind::Unavailable
        }
        TdsError::Conversion(_) | TdsError::Utf8 | TdsError::Utf16 | TdsError::Encoding(_) => ErrorKind::Corrupt,
        _ => ErrorKind::Database,
    }
}

fn kind_of_number(code: u32) -> ErrorKind {
    match code {
        // Deadlock, lock timeout, a snapshot that is too old, a transaction that was rolled back or cannot go on; the
        // same in memory-optimised tables; and transactions that our own texts refuse to commit.
        1205 | 1222 | 3935 | 3951 | 3960 | 3961 | 3966 | 3998 | 3930 | 3902 | 3903 | 41301 | 41302 | 41305 | 41325
        | 41839 | 51005 | 51006 => ErrorKind::NotCommitted,
        // Out of locks, memory, versions, disk or log; read-only; the server or the database is shutting down or
        // starting.
        1204 | 701 | 802 | 845 | 8628 | 8645 | 8651 | 3958 | 3967 | 1101 | 1105 | 9002 | 3906 | 3908 | 596 | 615
        | 617 | 669 | 921 | 922 | 926 | 927 | 942 | 952 | 976 | 978 | 979 | 982 | 983 | 1132 | 4221 | 6005 | 17142
        | 17197 | 18401 | 18451 => ErrorKind::Unavailable,
        // The network, and what Azure reports when it moves a database or is overloaded.
        20
        | 64
        | 121
        | 233
        | 10053
        | 10054
        | 10060
        | 10928
        | 10929
        | 10936
        | 40020
        | 40143
        | 40166
        | 40197
        | 40501
        | 40540
        | 40545
        | 40549..=40553
        | 40613
        | 40615
        | 40648
        | 42108
        | 42109
        | 49918..=49920 => ErrorKind::Unavailable,
        // Login, database and permissions.
        18452
        | 18456
        | 18470
        | 18486..=18488
        | 4060
        | 4064
        | 911
        | 916
        | 229
        | 230
        | 262
        | 297
        | 300
        | 1088
        | 2760
        | 3701
        | 15151
        | 15247
        | 15517 => ErrorKind::Unsupported,
        208 | 2812 | 2715 | 207 => ErrorKind::Schema,
        515 | 547 | 1946 | 2601 | 2627 | 2628 | 8152 | 245 | 220 | 8115 | 8114 => ErrorKind::Constraint,
        823..=825 | 605 => ErrorKind::Corrupt,
        _ => ErrorKind::Database,
    }
}

/// Only the text distinguishes these errors.
fn kind_of_unnumbered(message: &str) -> ErrorKind {
    let says = |words: &[&str]| words.iter().any(|words| message.contains(words));
    if says(&["deadlock detected", "lock timeout", "could not serialize", "could not obtain lock", "concurrently"]) {
        ErrorKind::NotCommitted
    } else if says(&["permission denied", "must be owner", "must be superuser", "must be member"]) {
        ErrorKind::Unsupported
    } else if says(&["does not exist"]) {
        ErrorKind::Schema
    } else if says(&[
        "terminating connection",
        "shutting down",
        "starting up",
        "not yet accepting",
        "too many clients",
        "recovery mode",
    ]) {
        ErrorKind::Unavailable
    } else {
        ErrorKind::Database
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_told_by_their_version() {
        for (version, edition, product) in [
            ("13.0.5026.0", "3", "Microsoft SQL Server 2016"),
            ("16.0.1000.6", "2", "Microsoft SQL Server 2022"),
            ("12.0.2000.8", "5", "Microsoft SQL Azure"),
            ("12.0.2000.8", "12", "Microsoft SQL Azure"),
            ("12.0.2000.8", "3", "Babelfish for PostgreSQL with SQL Server Compatibility"),
        ] {
            assert!(is_new_enough(version, edition, product), "{version} {product}");
        }
        for version in ["12.0.6024.0", "11.0.2100.60", "", "nonsense"] {
            assert!(!is_new_enough(version, "3", "Microsoft SQL Server"), "{version}");
        }
        assert!(!is_compatible(Some(120), "Microsoft SQL Server") && is_compatible(Some(130), "Microsoft SQL Server"));
    }

    #[test]
    fn a_certificate_that_is_refused_is_told_with_our_own_settings() {
        let told =
            failed(TdsError::Tls("rejected: UnknownIssuer. To connect anyway you can: (1) `Config::trust…`".into()));
        let told = told.to_string();
        assert!(told.contains("UnknownIssuer; ") && told.contains("trust_server_certificate_ca="), "{told}");
        assert!(!told.contains("Config::"), "{told}");
    }

    #[test]
    fn what_may_be_tried_again_is_told_by_its_number() {
        for code in [1205, 1222, 3960, 41302] {
            assert_eq!(kind_of_number(code), ErrorKind::NotCommitted, "{code}");
        }
        for code in [40501, 40613, 49918, 49919, 49920, 10054, 8645, 3967] {
            assert_eq!(kind_of_number(code), ErrorKind::Unavailable, "{code}");
        }
        let silent = of_browser(TdsError::Conversion("SQL browser timeout".into()));
        assert_eq!(kind_of(&silent), ErrorKind::Unavailable);
        assert_eq!(kind_of_unnumbered("tuple concurrently updated"), ErrorKind::NotCommitted);
        assert_eq!(kind_of_unnumbered("relation \"a\" does not exist"), ErrorKind::Schema);
        assert_eq!(kind_of_number(8134), ErrorKind::Database);
    }
}

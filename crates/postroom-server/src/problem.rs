//! Errors for people: what is wrong, and what to try.

use std::fmt;
use std::io;
use std::process::ExitCode;

use postroom::ErrorKind;

const ERROR: u8 = 1;
const NOTHING_FOUND: u8 = 3;
const UNHEALTHY: u8 = 4;
const OTHER_SCHEMA: u8 = 5;

/// What is wrong, and what to try.
#[derive(Debug)]
pub(crate) struct Problem {
    what: String,
    advice: String,
    code: u8,
}

impl Problem {
    pub(crate) fn new(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what: what.into(), advice: advice.into(), code: ERROR }
    }

    /// Nothing has the given id.
    pub(crate) fn nothing_found(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what: what.into(), advice: advice.into(), code: NOTHING_FOUND }
    }

    /// The database was examined and has problems.
    pub(crate) fn unhealthy(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what: what.into(), advice: advice.into(), code: UNHEALTHY }
    }

    /// The tables are missing, or have a version that this program does not support.
    pub(crate) fn other_schema(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what: what.into(), advice: advice.into(), code: OTHER_SCHEMA }
    }

    pub(crate) fn is_nothing_found(&self) -> bool {
        self.code == NOTHING_FOUND
    }

    pub(crate) fn advice(&self) -> &str {
        &self.advice
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Problem {}

/// Reports the error to the user and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    // The reader of the output has closed it, as in `postroom failed | head`.
    if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    tracing::debug!(error = format!("{error:#}"), "failed");
    eprintln!("error: {}", chain(error));
    if let Some(problem) = error.downcast_ref::<Problem>() {
        eprintln!("  try: {}", problem.advice);
        return ExitCode::from(problem.code);
    }
    eprintln!("  try: {}", advice_on(error));
    ExitCode::from(ERROR)
}

/// Whether the database was reached, but its tables are missing or have another version.
pub(crate) fn is_about_schema(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<postroom::Error>());
    causes.any(|error| error.kind() == ErrorKind::Schema)
}

/// The error in one line.
pub(crate) fn told(error: &anyhow::Error) -> String {
    chain(error)
}

fn advice_on(error: &anyhow::Error) -> &'static str {
    if let Some(advice) = error.chain().find_map(specific) {
        advice
    } else if let Some(error) = error.chain().find_map(|cause| cause.downcast_ref::<postroom::Error>()) {
        advice(error.kind())
    } else if error.chain().any(|cause| cause.is::<sqlx::Error>()) {
        advice(ErrorKind::Unavailable)
    } else if error.chain().any(|cause| cause.is::<io::Error>()) {
        "check that this user may read and write there and that the disk is not full, or use another path"
    } else {
        advice(ErrorKind::Database)
    }
}

/// Advice for one particular error.
fn specific(cause: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        return match error.kind() {
            io::ErrorKind::AddrInUse => Some("use another port, or stop the program that listens on this one"),
            io::ErrorKind::AddrNotAvailable => Some("use an address of this machine, like 127.0.0.1"),
            _ => None,
        };
    }
    let error = cause.downcast_ref::<sqlx::Error>()?.as_database_error()?;
    if error.code().as_deref() == Some("42501") {
        return Some(
            "ask the owner of the tables to grant the rights: GRANT USAGE ON SCHEMA infra TO app; GRANT SELECT, \
             INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA infra TO app",
        );
    }
    let number = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>()?.number();
    [1044, 1142, 1143, 1227, 1370].contains(&number).then_some(
        "ask an administrator to grant the rights, with the names of your database and user: GRANT SELECT, INSERT, \
         UPDATE, DELETE ON shop.* TO app",
    )
}

fn advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidInput => "the same command with --help, which lists the allowed values",
        ErrorKind::Duplicate => "--if-taken keep or replace, or `postroom show ID` for the message that has the key",
        ErrorKind::Schema => {
            "`postroom migrate`, which creates or updates the tables and changes nothing else; if they are newer than \
             this program, upgrade the program"
        }
        ErrorKind::Unsupported => "another database: --db PATH, or --db URL for a server and a user that may use it",
        ErrorKind::Unavailable => {
            "again in a moment; another program may hold a lock, the disk may be full, or the server may be down"
        }
        ErrorKind::Corrupt => {
            "`postroom doctor` for details, and `postroom restore` with a backup: the database is damaged"
        }
        _ => "the same command with --verbose, which logs more",
    }
}

/// The error and its causes in one line. A cause that the text already contains is left out. The library's errors are
/// written for people, so the chain ends there; deeper causes go to the log.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let is_last = cause.is::<postroom::Error>();
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        if is_last {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow::Error::new(io::Error::other("disk on fire")).context("cannot write: disk on fire");
        assert_eq!(chain(&error), "cannot write: disk on fire");
        assert_eq!(chain(&error.context("no backup")), "no backup: cannot write: disk on fire");
    }
}

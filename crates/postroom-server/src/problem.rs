//! Errors as people read them: what is wrong, and what to try.

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

    /// There is nothing under the id that was asked for.
    pub(crate) fn nothing_found(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what: what.into(), advice: advice.into(), code: NOTHING_FOUND }
    }

    /// The database was examined, and it is not well.
    pub(crate) fn unhealthy(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what: what.into(), advice: advice.into(), code: UNHEALTHY }
    }

    /// The tables are missing, or of a version that this program does not know.
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

/// Tells the user, and says how the program ends.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    // Whoever reads the output has seen enough, as in `postroom failed | head`.
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

/// Whether the database was reached, and its tables are not those that this program knows.
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
        "another place, or to make room and allow this user to read and write there"
    } else {
        advice(ErrorKind::Database)
    }
}

/// What helps against one error and no other.
fn specific(cause: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        return match error.kind() {
            io::ErrorKind::AddrInUse => Some("another port there, or end the program that listens at this one"),
            io::ErrorKind::AddrNotAvailable => Some("an address of this machine: 127.0.0.1 always is one"),
            _ => None,
        };
    }
    let error = cause.downcast_ref::<sqlx::Error>()?.as_database_error()?;
    if error.code().as_deref() == Some("42501") {
        return Some(
            "to let the owner of the tables give the rights: GRANT USAGE ON SCHEMA infra TO app; GRANT SELECT, \
             INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA infra TO app",
        );
    }
    let number = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>()?.number();
    [1044, 1142, 1143, 1227, 1370].contains(&number).then_some(
        "to let an administrator give the rights: GRANT SELECT, INSERT, UPDATE, DELETE ON shop.* TO app, with the \
         names of your database and of this user",
    )
}

fn advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidInput => "the same command with --help: it names what is allowed",
        ErrorKind::Schema => "`postroom migrate`, which adds the tables and leaves everything else as it is",
        ErrorKind::Unsupported => {
            "another database: --db PATH, or --db with the URL of a server and a user who may use it"
        }
        ErrorKind::Unavailable => {
            "again in a moment: another program holds the database, the disk is full, or the server is down"
        }
        ErrorKind::Corrupt => "a backup: the database is damaged; `postroom doctor` says more",
        _ => "again with --verbose, which logs what happens",
    }
}

/// The error and its causes in one line. Many errors repeat their cause in their own words: once is enough. The
/// library's errors are written for people; what lies behind them is for the log.
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

//! How a handler says that it failed.

use std::fmt;
use std::time::Duration;

use crate::db::errors;
use crate::queue::{Cause, Fault, Outcome};
use crate::support::error::{Error, ErrorKind, panic_message};

/// What a handler returns.
///
/// ```
/// use postroom::{Ctx, HandlerResult, Memory};
/// # use postroom::Command;
/// # #[derive(serde::Serialize, serde::Deserialize, Command)]
/// # #[command("stock.reserve", reply = String)]
/// # struct Reserve { order: u64 }
///
/// async fn reserve(_: &mut Ctx<Memory>, wanted: Reserve) -> HandlerResult<String> {
///     Ok(format!("shelf {}", wanted.order % 10))
/// }
/// # let handlers = postroom::Handlers::new().on(reserve);
/// ```
pub type HandlerResult<T> = Result<T, HandlerError>;

/// A handler's failure. Any error turned into one by `?` means: try again later.
///
/// What is the database's fault and not the message's spends no attempt: after a deadlock, a serialization failure or a
/// broken connection the handler is run again at once, a few times, and while the database is away the message waits.
/// A driver's error is recognised wherever it stands among the causes.
///
/// Its text is kept with the message; only the first line of it is logged.
///
/// It does not implement [`std::error::Error`] itself; that is what lets every error become one.
///
/// ```
/// use std::time::Duration;
/// use postroom::HandlerError;
///
/// fn charge(amount: &str) -> Result<(), HandlerError> {
///     let amount: i64 = amount.parse()?; // any error: try again later
///     if amount < 0 {
///         return Err(HandlerError::terminal("nobody is charged less than nothing"));
///     }
///     Err(HandlerError::retry_after(Duration::from_secs(60), "the bank is closed"))
/// }
///
/// assert!(charge("-1").unwrap_err().is_terminal());
/// assert!(!charge("one").unwrap_err().is_terminal());
/// ```
pub struct HandlerError {
    pub(crate) fault: Fault,
}

/// What an error that a handler passed on says of the database, if it says anything.
fn by_database(error: &(dyn std::error::Error + 'static)) -> Option<Cause> {
    match error.downcast_ref::<Error>().map(Error::kind) {
        Some(ErrorKind::NotCommitted) => Some(Cause::DatabaseConflict),
        Some(ErrorKind::Unavailable) => Some(Cause::DatabaseUnavailable),
        _ if errors::is_outage(error) || errors::refuses_writes(error) => Some(Cause::DatabaseUnavailable),
        _ => errors::is_conflict(error).then_some(Cause::DatabaseConflict),
    }
}

impl HandlerError {
    fn new(cause: Cause, why: impl fmt::Display) -> Self {
        Self { fault: Fault::new(cause, why.to_string()) }
    }

    /// Try again, by the retry policy.
    pub fn retry(why: impl fmt::Display) -> Self {
        Self::new(Cause::HandlerFailed, why)
    }

    /// Try again after this long.
    pub fn retry_after(delay: Duration, why: impl fmt::Display) -> Self {
        Self { fault: Fault::new(Cause::HandlerFailed, why.to_string()).retry_after(delay) }
    }

    /// Try again after this long, at least a second, without spending an attempt: this message has to wait.
    ///
    /// Such a message never dies; it can only expire.
    pub fn postpone(delay: Duration, why: impl fmt::Display) -> Self {
        Self { fault: Fault::new(Cause::Postponed, why.to_string()).retry_after(delay) }
    }

    /// What the handler needs is down. No attempt is spent, and when that goes on, all messages of the topic wait: one
    /// at a time is tried until one goes through.
    ///
    /// ```
    /// use postroom::{Cause, HandlerError, Whose};
    ///
    /// let error = HandlerError::unavailable("the bank does not answer");
    /// assert_eq!((error.cause(), error.cause().whose()), (Cause::Unavailable, Whose::Place));
    /// ```
    pub fn unavailable(why: impl fmt::Display) -> Self {
        Self::new(Cause::Unavailable, why)
    }

    /// Never try again: the message is dead.
    pub fn terminal(why: impl fmt::Display) -> Self {
        Self { fault: Fault::new(Cause::Refused, why.to_string()).for_good() }
    }

    /// Whether the message is dead.
    pub fn is_terminal(&self) -> bool {
        self.fault.is_final()
    }

    /// What went wrong, and whose failure that is.
    pub fn cause(&self) -> Cause {
        self.fault.cause()
    }

    /// How long to wait before the next try, if the handler said so.
    pub fn retry_delay(&self) -> Option<Duration> {
        self.fault.pause()
    }

    /// Whether the database was out of reach.
    pub(crate) fn is_outage(&self) -> bool {
        self.cause() == Cause::DatabaseUnavailable
    }

    /// Wait for a program that can read it.
    pub(crate) fn newer(why: impl fmt::Display) -> Self {
        Self::new(Cause::NewerVersion, why)
    }

    #[doc(hidden)]
    pub fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        Self::new(Cause::HandlerPanicked, format_args!("the handler panicked: {}", panic_message(panic)))
    }

    #[doc(hidden)]
    pub fn why(&self) -> &str {
        self.fault.why()
    }

    #[doc(hidden)]
    pub fn into_why(self) -> String {
        self.fault.into_why()
    }
}

/// What became of a message elsewhere, as a handler's failure.
impl From<Fault> for HandlerError {
    fn from(fault: Fault) -> Self {
        Self { fault }
    }
}

impl<E: std::error::Error + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let (mut message, mut cause) = (error.to_string(), by_database(&error));
        let mut source = error.source();
        while let Some(deeper) = source {
            let text = deeper.to_string();
            // Many errors repeat their cause in their own words.
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = cause.or_else(|| by_database(deeper));
            source = deeper.source();
        }
        Self::new(cause.unwrap_or(Cause::HandlerFailed), message)
    }
}

impl From<HandlerError> for Outcome {
    fn from(error: HandlerError) -> Self {
        Self::Failed(match error.fault {
            // Time after time: then it is the handler's after all.
            fault if fault.cause() == Cause::DatabaseConflict => Fault::new(Cause::RolledBack, fault.into_why()),
            fault => fault,
        })
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.fault.why())
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerError").field("cause", &self.cause()).field("message", &self.fault.why()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Whose;

    #[test]
    fn a_question_mark_means_retry_and_keeps_the_causes() {
        fn fails() -> HandlerResult<()> {
            let cause = std::io::Error::other("connection refused");
            Err(crate::Error::callback(cause))?;
            Ok(())
        }
        let error = fails().unwrap_err();
        assert_eq!((error.cause(), error.retry_delay()), (Cause::HandlerFailed, None));
        assert_eq!(error.to_string(), "connection refused");
    }

    #[test]
    fn who_has_no_time_now_costs_no_attempt() {
        let postponed = HandlerError::postpone(Duration::from_secs(60), "closed for lunch");
        assert!(!postponed.is_terminal() && postponed.retry_delay() == Some(Duration::from_secs(60)));
        assert_eq!(postponed.cause().whose(), Whose::Place);
    }

    #[test]
    fn the_databases_fault_is_found_among_the_causes() {
        let of = |kind| HandlerError::from(Error::callback(Error::new(kind, "it said"))).cause();
        assert_eq!(of(ErrorKind::NotCommitted), Cause::DatabaseConflict);
        assert_eq!(of(ErrorKind::Unavailable), Cause::DatabaseUnavailable);
        assert_eq!(of(ErrorKind::Constraint), Cause::HandlerFailed);
    }

    #[cfg(feature = "rusqlite-0_39")]
    #[test]
    fn an_outage_of_sqlite_is_known_by_its_code() {
        let of = |code| {
            let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            HandlerError::from(error).cause()
        };
        // Busy, I/O error at a write, full.
        assert_eq!([5, 778, 13].map(of), [Cause::DatabaseUnavailable; 3]);
        // A constraint, a table that another statement of the same handler has locked, a file it cannot open.
        assert_eq!([19, 6, 14].map(of), [Cause::HandlerFailed; 3]);
    }
}

//! How a handler reports a failure.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::db::errors;
use crate::queue::{Cause, Fault, Outcome};
use crate::support::error::{Error, ErrorKind, panic_message};

/// The result of a handler.
///
/// ```
/// use postroom::{Ctx, HandlerResult};
/// use postroom::store::Memory;
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

/// A handler's failure. An error that `?` converts into one means: try again later.
///
/// A failure of the database spends no attempt. After a deadlock, a serialization failure or a broken connection, the
/// handler runs again at once, a few times. While the database is unreachable, the message waits. The error of a driver
/// is recognised anywhere in the chain of causes.
///
/// The text is stored with the message; only its first line is logged.
///
/// Everything that converts to `Box<dyn Error + Send + Sync>` converts to a `HandlerError` by `?`: errors of libraries,
/// boxed errors, text, and `anyhow::Error`. For this reason it does not implement [`std::error::Error`] itself.
///
/// ```
/// use std::time::Duration;
/// use postroom::HandlerError;
///
/// fn amount(text: &str) -> Result<i64, Box<dyn std::error::Error + Send + Sync>> {
///     Ok(text.strip_suffix(" EUR").ok_or("in euros, please")?.parse()?)
/// }
///
/// fn charge(text: &str) -> Result<(), HandlerError> {
///     let amount = amount(text)?; // any error: try again later
///     if amount < 0 {
///         return Err(HandlerError::terminal("nobody is charged less than nothing"));
///     }
///     Err(HandlerError::retry_after(Duration::from_secs(60), "the bank is closed"))
/// }
///
/// assert!(charge("-1 EUR").unwrap_err().is_terminal());
/// assert!(!charge("one EUR").unwrap_err().is_terminal());
/// assert_eq!(charge("1").unwrap_err().to_string(), "in euros, please");
/// ```
pub struct HandlerError {
    pub(crate) fault: Fault,
}

/// Returns what an error that a handler passed on says about the database, if anything.
fn by_database(error: &(dyn StdError + 'static)) -> Option<Cause> {
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

    /// Returns an error and its causes, in order.
    fn caused_by<'e>(errors: impl Iterator<Item = &'e (dyn StdError + 'static)>) -> Self {
        let (mut message, mut cause) = (String::new(), None);
        for error in errors {
            let text = error.to_string();
            if message.is_empty() {
                message = text;
            } else if !message.contains(&text) {
                // Many errors repeat their cause in their own text.
                message = format!("{message}: {text}");
            }
            cause = cause.or_else(|| by_database(error));
        }
        Self::new(cause.unwrap_or(Cause::HandlerFailed), message)
    }

    /// Tries again, by the retry policy.
    pub fn retry(why: impl fmt::Display) -> Self {
        Self::new(Cause::HandlerFailed, why)
    }

    /// Tries again after this time.
    pub fn retry_after(delay: Duration, why: impl fmt::Display) -> Self {
        Self { fault: Fault::new(Cause::HandlerFailed, why.to_string()).retry_after(delay) }
    }

    /// Tries again after this time, at least a second, without spending an attempt: this message has to wait.
    ///
    /// A message that only waits never becomes dead; it can only expire.
    pub fn postpone(delay: Duration, why: impl fmt::Display) -> Self {
        Self { fault: Fault::new(Cause::Postponed, why.to_string()).retry_after(delay) }
    }

    /// Reports that something the handler needs is down. No attempt is spent. If it goes on, all messages of the topic
    /// wait, and one at a time is tried until one succeeds.
    ///
    /// ```
    /// use postroom::HandlerError;
    /// use postroom::queue::{Cause, Whose};
    ///
    /// let error = HandlerError::unavailable("the bank does not answer");
    /// assert_eq!((error.cause(), error.cause().whose()), (Cause::Unavailable, Whose::Place));
    /// ```
    pub fn unavailable(why: impl fmt::Display) -> Self {
        Self::new(Cause::Unavailable, why)
    }

    /// Never tries again: the message is dead.
    pub fn terminal(why: impl fmt::Display) -> Self {
        Self { fault: Fault::new(Cause::Refused, why.to_string()).for_good() }
    }

    /// Returns whether the message is dead.
    pub fn is_terminal(&self) -> bool {
        self.fault.is_final()
    }

    /// Returns the failure, with its cause and whose it is.
    pub fn cause(&self) -> Cause {
        self.fault.cause()
    }

    /// Returns how long to wait before the next attempt, if the handler set a time.
    pub fn retry_delay(&self) -> Option<Duration> {
        self.fault.pause()
    }

    /// Returns whether the database was unreachable.
    pub(crate) fn is_outage(&self) -> bool {
        self.cause() == Cause::DatabaseUnavailable
    }

    /// Makes the message wait for a program that can read it.
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

/// Converts the outcome of a message elsewhere to a handler's failure.
impl From<Fault> for HandlerError {
    fn from(fault: Fault) -> Self {
        Self { fault }
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>> + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        #[cfg(feature = "anyhow")]
        if let Some(error) = (&error as &dyn std::any::Any).downcast_ref::<anyhow::Error>() {
            // Boxed, it would hide the first of its causes.
            return Self::caused_by(error.chain());
        }
        let error: Box<dyn StdError + Send + Sync> = error.into();
        let first: &(dyn StdError + 'static) = error.as_ref();
        Self::caused_by(std::iter::successors(Some(first), |&error| error.source()))
    }
}

impl From<HandlerError> for Outcome {
    fn from(error: HandlerError) -> Self {
        Self::Failed(match error.fault {
            // If it happens again and again, it is the handler's failure after all.
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

    #[test]
    fn whatever_can_be_boxed_becomes_a_failure_by_a_question_mark() {
        type Boxed = Box<dyn StdError + Send + Sync>;
        fn passed_on<E>(error: E) -> HandlerError
        where
            HandlerError: From<E>,
        {
            let fails = || -> HandlerResult<()> { Err(error)? };
            fails().unwrap_err()
        }
        assert_eq!(passed_on("no").to_string(), "no");
        assert_eq!(passed_on(String::from("no")).to_string(), "no");
        assert_eq!(passed_on(Boxed::from("no")).to_string(), "no");
        assert_eq!(passed_on(anyhow::anyhow!("no")).to_string(), "no");
        let lost = || Error::new(ErrorKind::NotCommitted, "a deadlock");
        assert_eq!(passed_on(Boxed::from(lost())).cause(), Cause::DatabaseConflict);
        // A handler's own failure stays unchanged.
        assert!(passed_on(HandlerError::terminal("never")).is_terminal());
    }

    #[test]
    fn the_databases_fault_is_found_behind_what_was_said_of_it() {
        let told = anyhow::Error::new(Error::new(ErrorKind::NotCommitted, "a deadlock")).context("the order");
        let failure = HandlerError::from(told);
        assert_eq!((failure.cause(), failure.why()), (Cause::DatabaseConflict, "the order: a deadlock"));
    }

    #[cfg(feature = "anyhow")]
    #[test]
    fn the_databases_fault_is_found_in_anyhow() {
        let failure = HandlerError::from(anyhow::Error::new(Error::new(ErrorKind::Unavailable, "away")));
        assert_eq!((failure.cause(), failure.why()), (Cause::DatabaseUnavailable, "away"));
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn an_outage_of_sqlite_is_known_by_its_code() {
        let of = |code| {
            let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            HandlerError::from(error).cause()
        };
        // Busy, an I/O error while writing, and a full disk.
        assert_eq!([5, 778, 13].map(of), [Cause::DatabaseUnavailable; 3]);
        // A constraint, a table that another statement of the same handler has locked, and a file that cannot be
        // opened.
        assert_eq!([19, 6, 14].map(of), [Cause::HandlerFailed; 3]);
    }
}

//! How a handler says that it failed.

use std::fmt;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::driver;
use crate::error::{Error, ErrorKind, panic_message};

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
    pub(crate) fate: Fate,
    pub(crate) message: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Retry {
        after: Option<Duration>,
    },
    Terminal,
    /// Not the message's fault: it waits, and no attempt is spent.
    Postpone {
        after: Duration,
    },
    /// A newer program wrote the message, and a newer one will read it. It has waited since then.
    Newer {
        since: Timestamp,
    },
    /// The database rolled the transaction back and may take the same one now: after a deadlock, or a lost race.
    Conflict,
    /// The database cannot be reached.
    Outage,
}

impl Fate {
    /// What an error that a handler passed on says of the database, if it says anything.
    fn by_database(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        match error.downcast_ref::<Error>().map(Error::kind) {
            Some(ErrorKind::NotCommitted) => Some(Self::Conflict),
            Some(ErrorKind::Unavailable) => Some(Self::Outage),
            _ if driver::refuses_writes(error) => Some(Self::Outage),
            _ => driver::is_conflict(error).then_some(Self::Conflict),
        }
    }
}

impl HandlerError {
    /// Try again, by the worker's policy.
    pub fn retry(why: impl fmt::Display) -> Self {
        Self { fate: Fate::Retry { after: None }, message: why.to_string() }
    }

    /// Try again after this long.
    pub fn retry_after(delay: Duration, why: impl fmt::Display) -> Self {
        Self { fate: Fate::Retry { after: Some(delay) }, message: why.to_string() }
    }

    /// Try again after this long, at least a second, without spending an attempt: whoever is needed has no time now.
    ///
    /// Such a message is never given up; it can only expire.
    pub fn postpone(delay: Duration, why: impl fmt::Display) -> Self {
        Self { fate: Fate::Postpone { after: delay }, message: why.to_string() }
    }

    /// Never try again: the message is dead.
    pub fn terminal(why: impl fmt::Display) -> Self {
        Self { fate: Fate::Terminal, message: why.to_string() }
    }

    /// Whether the message is dead.
    pub fn is_terminal(&self) -> bool {
        self.fate == Fate::Terminal
    }

    /// How long to wait before the next try, if the handler said so.
    pub fn retry_delay(&self) -> Option<Duration> {
        match self.fate {
            Fate::Retry { after } => after,
            Fate::Postpone { after } => Some(after),
            _ => None,
        }
    }

    /// Wait for a program that can read it.
    pub(crate) fn newer(since: Timestamp, why: impl fmt::Display) -> Self {
        Self { fate: Fate::Newer { since }, message: why.to_string() }
    }

    pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        Self::retry(format_args!("the handler panicked: {}", panic_message(panic)))
    }
}

impl<E: std::error::Error + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let (mut message, mut fate) = (error.to_string(), Fate::by_database(&error));
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Many errors repeat their cause in their own words.
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            fate = fate.or_else(|| Fate::by_database(cause));
            source = cause.source();
        }
        Self { fate: fate.unwrap_or(Fate::Retry { after: None }), message }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerError").field("fate", &self.fate).field("message", &self.message).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::Outcome;

    #[test]
    fn a_question_mark_means_retry_and_keeps_the_causes() {
        fn fails() -> HandlerResult<()> {
            let cause = std::io::Error::other("connection refused");
            Err(crate::Error::callback(cause))?;
            Ok(())
        }
        let error = fails().unwrap_err();
        assert_eq!(error.fate, Fate::Retry { after: None });
        assert_eq!(error.message, "connection refused");
    }

    #[test]
    fn who_has_no_time_now_costs_no_attempt() {
        let (minute, why) = (Duration::from_secs(60), "closed for lunch");
        let postponed = HandlerError::postpone(minute, why);
        assert!(!postponed.is_terminal() && postponed.retry_delay() == Some(minute));
        assert_eq!(Outcome::from(postponed), Outcome::Postpone { after: minute, why: why.into() });
    }

    #[test]
    fn the_databases_fault_is_found_among_the_causes() {
        let of = |kind| HandlerError::from(Error::callback(Error::new(kind, "it said"))).fate;
        assert_eq!(of(ErrorKind::NotCommitted), Fate::Conflict);
        assert_eq!(of(ErrorKind::Unavailable), Fate::Outage);
        assert_eq!(of(ErrorKind::Constraint), Fate::Retry { after: None });
    }
}

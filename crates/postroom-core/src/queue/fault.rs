//! Whose failure it is. This is decided once, where something failed, and everything else builds on it.
//!
//! ```text
//!  HandlerError ─┐                ┌─ the message's: spends an attempt; dead when none is left
//!  Delivery ─────┼─▶ Fault ─────▶─┼─ the place's: spends nothing; the place is held until it answers
//!  a crash ──────┘  (Cause, why)  └─ ours: spends nothing; tried again
//! ```

use std::fmt;
use std::time::Duration;

/// A place is held for at most this long, whatever it asks for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// A place is held for at least this long, so that it is not asked again at once.
const RETRY_AFTER_MIN: Duration = Duration::from_millis(10);

/// Whose failure it is: who has to change something before the message can go through.
///
/// ```
/// use postroom::queue::{Cause, Whose};
///
/// assert_eq!(Cause::HandlerFailed.whose(), Whose::Message);
/// assert_eq!(Cause::Unreachable.whose(), Whose::Place);
/// assert_eq!(Cause::Crashed.whose(), Whose::Ours);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Whose {
    /// The message's own: its handler returned an error, or it was refused. Only this spends attempts.
    Message,
    /// The place's: the destination or the handler is missing, down, or refuses access. All messages for it wait.
    Place,
    /// Ours: this process, its database or its machine failed.
    Ours,
}

impl Whose {
    /// Returns `message`, `place` or `ours`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Place => "place",
            Self::Ours => "ours",
        }
    }
}

/// What failed. Its code is stored with each failure, and its meaning never changes.
///
/// ```
/// use postroom::queue::Cause;
///
/// assert_eq!(Cause::TimedOut.code(), "timed_out");
/// assert_eq!(Cause::of_code("no_route"), Some(Cause::NoRoute));
/// assert_eq!(Cause::of_code("written by a newer release"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The handler returned an error, here or at the destination.
    HandlerFailed,
    /// The handler panicked.
    HandlerPanicked,
    /// The handler or the destination refused the message for good.
    Refused,
    /// The database rolled the handler's transaction back again and again.
    RolledBack,
    /// The stored row cannot be read as a message.
    Unreadable,
    /// There is no route to the destination.
    NoRoute,
    /// There is no handler for the topic.
    NoHandler,
    /// No key for the destination is valid at the moment.
    NoKey,
    /// The connection was refused or broke, the name was not found, or the certificate was not valid.
    Unreachable,
    /// There was no answer in time.
    TimedOut,
    /// The place refuses access: 401, 403 or 407.
    NotAllowed,
    /// The address is wrong, or the handler is not there: 404 or 405.
    NotFound,
    /// The place asks for time: 429, or 503 with `Retry-After`.
    Busy,
    /// The place, or something in front of it, is down: 408 or 5xx.
    Unavailable,
    /// An answer came, but nothing proves that the destination sent it.
    Unproven,
    /// The message was written by a newer program than the one that read it.
    NewerVersion,
    /// The handler asked to be called again later.
    Postponed,
    /// The process ended while the message was in progress.
    Crashed,
    /// The database was unreachable, locked, full or read-only.
    DatabaseUnavailable,
    /// The database rolled a transaction back, and would accept the same one again.
    DatabaseConflict,
}

impl Cause {
    /// All causes.
    pub const ALL: &[Self] = &[
        Self::HandlerFailed,
        Self::HandlerPanicked,
        Self::Refused,
        Self::RolledBack,
        Self::Unreadable,
        Self::NoRoute,
        Self::NoHandler,
        Self::NoKey,
        Self::Unreachable,
        Self::TimedOut,
        Self::NotAllowed,
        Self::NotFound,
        Self::Busy,
        Self::Unavailable,
        Self::Unproven,
        Self::NewerVersion,
        Self::Postponed,
        Self::Crashed,
        Self::DatabaseUnavailable,
        Self::DatabaseConflict,
    ];

    /// Returns its stored code and whose failure it is. This is the only place that decides.
    fn facts(self) -> (&'static str, Whose) {
        match self {
            Self::HandlerFailed => ("handler_failed", Whose::Message),
            Self::HandlerPanicked => ("handler_panicked", Whose::Message),
            Self::Refused => ("refused", Whose::Message),
            Self::RolledBack => ("rolled_back", Whose::Message),
            Self::Unreadable => ("unreadable", Whose::Message),
            Self::NoRoute => ("no_route", Whose::Place),
            Self::NoHandler => ("no_handler", Whose::Place),
            Self::NoKey => ("no_key", Whose::Place),
            Self::Unreachable => ("unreachable", Whose::Place),
            Self::TimedOut => ("timed_out", Whose::Place),
            Self::NotAllowed => ("not_allowed", Whose::Place),
            Self::NotFound => ("not_found", Whose::Place),
            Self::Busy => ("busy", Whose::Place),
            Self::Unavailable => ("unavailable", Whose::Place),
            Self::Unproven => ("unproven", Whose::Place),
            Self::NewerVersion => ("newer_version", Whose::Place),
            Self::Postponed => ("postponed", Whose::Place),
            Self::Crashed => ("crashed", Whose::Ours),
            Self::DatabaseUnavailable => ("database_unavailable", Whose::Ours),
            Self::DatabaseConflict => ("database_conflict", Whose::Ours),
        }
    }

    /// Returns its stored code.
    pub fn code(self) -> &'static str {
        self.facts().0
    }

    /// Returns whose failure it is.
    pub fn whose(self) -> Whose {
        self.facts().1
    }

    /// Returns the cause with this stored code.
    pub fn of_code(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|cause| cause.code() == code)
    }

    /// Returns whether all messages of the same place would fail too, so that the place is held. A message that is too
    /// new, or that a handler postponed, says nothing about the others.
    #[doc(hidden)]
    pub fn holds_the_place(self) -> bool {
        self.whose() == Whose::Place && !matches!(self, Self::NewerVersion | Self::Postponed)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A failure: a description, and its [`Cause`].
///
/// ```
/// use std::time::Duration;
/// use postroom::queue::{Cause, Fault, Whose};
/// use postroom::worker::Delivery;
///
/// let busy = Fault::new(Cause::Busy, "429 Too Many Requests").retry_after(Duration::from_secs(5));
/// assert_eq!((busy.whose(), busy.why()), (Whose::Place, "429 Too Many Requests"));
/// let delivery = Delivery::from(busy);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Fault {
    cause: Cause,
    why: String,
    retry_after: Option<Duration>,
    is_final: bool,
    is_alone: bool,
}

impl Fault {
    /// Creates a failure. The first line of `why` is logged, and all of it is stored with the message.
    pub fn new(cause: Cause, why: impl Into<String>) -> Self {
        Self { cause, why: why.into(), retry_after: None, is_final: false, is_alone: false }
    }

    /// Sets the time that a peer asked for, kept within bounds.
    #[doc(hidden)]
    #[must_use]
    pub fn asking_for(self, pause: Option<Duration>) -> Self {
        match pause {
            Some(pause) => self.retry_after(pause.clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX)),
            None => self,
        }
    }

    crate::setters! {
        /// Sets the time that was asked for.
        pub fn retry_after(mut self, pause: Duration) { self.retry_after = Some(pause); }

        /// Makes it final: the message is dead.
        pub fn for_good(mut self) { self.is_final = true; }

        /// Keeps the place open, because other messages for it may well go through.
        pub fn of_this_message_alone(mut self) { self.is_alone = true; }
    }

    /// Returns the cause.
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Returns whose failure it is.
    pub fn whose(&self) -> Whose {
        self.cause.whose()
    }

    /// Returns the description.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Returns how much time was asked for.
    pub fn pause(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns whether the message is dead.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// Returns whether all messages of the same place would fail too.
    pub fn holds_the_place(&self) -> bool {
        self.cause.holds_the_place() && !self.is_alone
    }

    pub(crate) fn into_why(self) -> String {
        self.why
    }
}

// The description may quote the message, so only the cause is printed.
impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault").field("cause", &self.cause).field("is_final", &self.is_final).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_a_code_of_its_own() {
        for cause in Cause::ALL {
            assert_eq!(Cause::of_code(cause.code()), Some(*cause));
        }
    }

    #[test]
    fn only_a_places_failure_holds_the_place() {
        let holding = Cause::ALL.iter().filter(|cause| cause.holds_the_place());
        assert!(holding.clone().all(|cause| cause.whose() == Whose::Place));
        assert!(!Cause::NewerVersion.holds_the_place() && Cause::NoRoute.holds_the_place());
    }
}

//! The outcome of a delivery.

use std::fmt;

use postroom_core::queue::Cause;
use postroom_core::support::error::{Error, ErrorKind};
use postroom_core::work::handler::HandlerError;

/// The outcome of a delivered message. In both cases the broker may forget it.
///
/// ```
/// use postroom::idempotent::Once;
///
/// assert_eq!(Once::Ran("shelf 7").ran(), Some("shelf 7"));
/// assert!(Once::<&str>::Duplicate.is_duplicate());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Once<R> {
    /// The handler ran, and everything is stored.
    Ran(R),
    /// This handler had already processed the message, so it did not run.
    Duplicate,
}

impl<R> Once<R> {
    /// Returns the handler's answer, if the handler ran.
    pub fn ran(self) -> Option<R> {
        match self {
            Self::Ran(answer) => Some(answer),
            Self::Duplicate => None,
        }
    }

    /// Returns whether the handler had already processed the message.
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Self::Duplicate)
    }
}

/// The reason why a message was not handled. Nothing is stored, except for the mark if [`Marking`](crate::Marking)
/// says so.
///
/// ```
/// use postroom::HandlerError;
/// use postroom::idempotent::{Once, Unhandled};
///
/// fn tell_the_broker(handled: Result<Once<()>, Unhandled>) -> &'static str {
///     match handled {
///         Ok(_) => "ack",
///         Err(why) if why.is_terminal() => "dead letter",
///         Err(_) => "deliver again",
///     }
/// }
///
/// assert_eq!(tell_the_broker(Ok(Once::Duplicate)), "ack");
/// assert_eq!(tell_the_broker(Err(Unhandled::Handler(HandlerError::terminal("no such item")))), "dead letter");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Unhandled<E = HandlerError> {
    /// The handler failed or panicked. Its error says whether the broker should deliver the message again.
    Handler(E),
    /// The database failed or cannot be reached, so the message must be delivered again later. With
    /// [`ErrorKind::InvalidInput`] the message itself cannot be stored.
    Store(Error),
}

impl Unhandled {
    /// Returns whether it will never succeed, so that the message is a dead letter.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Handler(failure) => failure.is_terminal(),
            // The message's id, payload or headers cannot be stored, however often it is delivered.
            Self::Store(error) => error.kind() == ErrorKind::InvalidInput,
        }
    }

    /// If the handler only passed on a failure of the database, the handler itself did not fail.
    pub(super) fn by(failure: HandlerError) -> Self {
        match failure.cause() {
            Cause::DatabaseConflict => Self::Store(Error::new(ErrorKind::NotCommitted, failure.into_why())),
            Cause::DatabaseUnavailable => Self::Store(Error::new(ErrorKind::Unavailable, failure.into_why())),
            _ => Self::Handler(failure),
        }
    }
}

impl<E> From<Error> for Unhandled<E> {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl<E: fmt::Display> fmt::Display for Unhandled<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handler(failure) => failure.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for Unhandled<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Handler(_) => None,
            Self::Store(error) => Some(error),
        }
    }
}

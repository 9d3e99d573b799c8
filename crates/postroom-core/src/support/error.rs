//! Errors, by kind, each with its cause.

use std::error::Error as StdError;
use std::fmt;

/// The result of almost every call in this crate.
///
/// ```
/// fn key(header: &str) -> postroom::Result<postroom::InboxKey> {
///     postroom::InboxKey::new("stripe", header)
/// }
///
/// assert!(key("evt_1").is_ok() && key("").is_err());
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error. Programs base their decisions on it.
///
/// ```
/// use postroom::{Error, ErrorKind};
///
/// fn status(error: &Error) -> u16 {
///     match error.kind() {
///         ErrorKind::InvalidInput => 400,
///         ErrorKind::NotFound | ErrorKind::UnknownStore => 404,
///         _ if error.is_transient() => 503,
///         _ => 500,
///     }
/// }
///
/// assert_eq!(status(&postroom::InboxKey::new("stripe", "").unwrap_err()), 400);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument is not allowed. Nothing was written.
    InvalidInput,
    /// Another message has the same unique key, and this one was to be refused then. Nothing was written.
    Duplicate,
    /// The lease ran out and another worker may have claimed the message. Roll back.
    LeaseLost,
    /// There is no such message.
    NotFound,
    /// There is no store for that key.
    UnknownStore,
    /// A stored row cannot be read as a message.
    Corrupt,
    /// The database is busy, full or unreachable. The same call may succeed later.
    Unavailable,
    /// The tables are missing, or older or newer than this version supports.
    Schema,
    /// The database, or one of its settings, cannot give a guarantee that is needed.
    Unsupported,
    /// A constraint of the database refused the write.
    Constraint,
    /// A handler called its own store outside its transaction: the store would wait for itself.
    InsideHandler,
    /// The transaction was rolled back. Nothing of it is stored.
    NotCommitted,
    /// The connection broke during the commit, and the outcome is unknown.
    InDoubt,
    /// The caller's own code failed or panicked inside a transaction, which was rolled back.
    Callback,
    /// The store was closed.
    Closed,
    /// The message was refused, is dead or has expired, so there will be no answer.
    NotDelivered,
    /// No answer came in time. The message is still in progress, and you can wait for its answer again.
    TimedOut,
    /// Any other error of the database.
    Database,
}

/// An error: its [`kind`](Error::kind), a description, and its cause as [`source`](StdError::source).
///
/// ```
/// use std::error::Error as _;
/// use postroom::{Error, ErrorKind};
///
/// let error = Error::callback(std::io::Error::other("the disk is full"));
/// assert_eq!(error.kind(), ErrorKind::Callback);
/// assert_eq!(error.to_string(), "the disk is full");
/// assert!(error.source().is_some_and(|cause| cause.is::<std::io::Error>()));
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    #[doc(hidden)]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), source: None }))
    }

    #[doc(hidden)]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    #[doc(hidden)]
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Creates an error of the caller's own code. Returned from a transaction, it rolls the transaction back and is
    /// passed on.
    pub fn callback(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let source = source.into();
        Self::new(ErrorKind::Callback, source.to_string()).caused_by(source)
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns whether the same call may succeed later without any change.
    pub fn is_transient(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Unavailable | ErrorKind::NotCommitted | ErrorKind::TimedOut)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Error");
        debug.field("kind", &self.0.kind).field("message", &self.0.message);
        if let Some(source) = &self.0.source {
            debug.field("source", source);
        }
        debug.finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_kept_and_can_be_walked_to() {
        let cause = std::io::Error::other("disk on fire");
        let error = Error::new(ErrorKind::Unavailable, "the store cannot be reached").caused_by(cause);
        assert_eq!(error.source().map(ToString::to_string), Some("disk on fire".into()));
        assert!(error.is_transient());
    }
}

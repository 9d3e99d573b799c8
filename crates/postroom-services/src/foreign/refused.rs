//! What becomes of a request whose signature is not good.

use std::fmt;

/// A request whose signature is not good. To the sender all refusals look the same, so that nobody learns from one how
/// to make a better forgery.
#[derive(Clone, Copy)]
pub struct Refused(RefusalReason);

/// Why a request was refused: for a log line or a metric, never for the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RefusalReason {
    /// A header of the scheme is not there.
    MissingHeader,
    /// A header of the scheme cannot be read, or is there twice.
    MalformedHeader,
    /// No signature was made with one of our secrets.
    WrongSignature,
    /// Well signed, but too long ago: a replay, or a clock that is wrong.
    TooOld,
    /// Well signed, but for a time to come.
    TooNew,
}

impl Refused {
    /// For a log line or a metric only.
    pub(crate) fn reason(self) -> RefusalReason {
        self.0
    }
}

impl From<RefusalReason> for Refused {
    fn from(reason: RefusalReason) -> Self {
        Self(reason)
    }
}

impl RefusalReason {
    /// Its name in log lines and metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::MissingHeader => "missing_header",
            Self::MalformedHeader => "malformed_header",
            Self::WrongSignature => "wrong_signature",
            Self::TooOld => "too_old",
            Self::TooNew => "too_new",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the signature is not valid")
    }
}

// Without the reason: an error that is printed may end up in an answer.
impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Refused")
    }
}

impl std::error::Error for Refused {}

//! Refused requests: their signature is not valid.

use std::fmt;

/// A request whose signature is not valid. All refusals look the same to the sender, so that nobody learns from one
/// how to make a better forgery.
#[derive(Clone, Copy)]
pub struct Refused(RefusalReason);

/// The reason why a request was refused. It is for logs and metrics, never for the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RefusalReason {
    /// A header of the scheme is missing.
    MissingHeader,
    /// A header of the scheme cannot be read, or appears twice.
    MalformedHeader,
    /// No signature was made with any of our secrets.
    WrongSignature,
    /// The signature is valid, but too old: this is a replay, or a clock is wrong.
    TooOld,
    /// The signature is valid, but its time is in the future.
    TooNew,
}

impl Refused {
    /// Returns the reason, for logs and metrics only.
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
    /// Returns its name in logs and metrics.
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

// The reason is left out, because a printed error may end up in an answer.
impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Refused")
    }
}

impl std::error::Error for Refused {}

//! How a message leaves for another service: the contract every wire keeps.

use std::fmt;
use std::time::Duration;

use crate::message::Message;
use crate::store::BoxFuture;

/// Takes messages to other services. No transaction is open while it does.
pub trait Transport: Send + Sync + 'static {
    /// Sends one message and says what became of it.
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery>;
}

/// What became of a message that was sent.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Delivery {
    /// The other side has it, for good.
    Accepted {
        /// Its answer.
        response: Option<String>,
    },
    /// The other side will never take it.
    Refused {
        /// Why.
        why: String,
    },
    /// It did not get there, or nobody knows.
    Failed {
        /// Why.
        why: String,
    },
    /// The other side asked to wait: no attempt is spent.
    Busy {
        /// How long to wait.
        retry_after: Duration,
        /// Why.
        why: String,
    },
    /// There is no way to that destination from here.
    NoRoute,
}

// Answers are the user's data: never printed.
impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accepted { .. } => "Accepted",
            Self::Refused { .. } => "Refused",
            Self::Failed { .. } => "Failed",
            Self::Busy { .. } => "Busy",
            Self::NoRoute => "NoRoute",
        })
    }
}

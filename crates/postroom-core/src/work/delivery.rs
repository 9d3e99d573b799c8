//! How a message is sent to another service: the contract of every transport.

use std::fmt;

use crate::message::Message;
use crate::queue::{Cause, Fault, Outcome};
use crate::store::BoxFuture;
use crate::work::places::Limits;

/// Sends messages to other services. No transaction is open while it does.
///
/// ```
/// use postroom::{Handlers, Message, Worker};
/// use postroom::store::{BoxFuture, Memory, MemoryStore};
/// use postroom::worker::{Delivery, Transport};
///
/// /// Hands messages to a broker.
/// struct Broker;
/// # impl Broker { async fn publish(&self, _: &str, _: &str) -> std::io::Result<()> { Ok(()) } }
///
/// impl Transport for Broker {
///     fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
///         Box::pin(async move {
///             match self.publish(&message.topic, &message.payload).await {
///                 Ok(()) => Delivery::Accepted { response: None },
///                 Err(error) => Delivery::unreachable(error.to_string()),
///             }
///         })
///     }
/// }
///
/// let worker = Worker::<Memory>::outbox(MemoryStore::new(), Handlers::new()).transport(Broker);
/// ```
pub trait Transport: Send + Sync + 'static {
    /// Returns the limits for a destination. Messages wait for their destination before they take one of the worker's
    /// slots.
    fn limits(&self, _destination: &str) -> Limits {
        Limits::default()
    }

    /// Sends one message and returns the outcome.
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery>;
}

/// The outcome of sending a message.
///
/// ```
/// use std::time::Duration;
/// use postroom::queue::{Cause, Fault};
/// use postroom::worker::Delivery;
///
/// fn judge(status: u16) -> Delivery {
///     match status {
///         200..300 => Delivery::Accepted { response: None },
///         // The message's own failure: the first one is final, the second one spends an attempt.
///         400 | 422 => Delivery::refused(format!("it answered {status}")),
///         500 => Fault::new(Cause::HandlerFailed, "it answered 500").into(),
///         // The destination's failure: no attempt is spent, and its messages wait until it answers again.
///         429 => Fault::new(Cause::Busy, "it asked for time").retry_after(Duration::from_secs(5)).into(),
///         _ => Delivery::unreachable(format!("it answered {status}")),
///     }
/// }
///
/// assert_eq!(judge(204), Delivery::Accepted { response: None });
/// ```
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Delivery {
    /// The other side has accepted it for good.
    Accepted {
        /// The answer.
        response: Option<String>,
    },
    /// It was not accepted, or this is not known.
    Failed(Fault),
}

impl Delivery {
    /// Returns the outcome of a message that the other side will never accept.
    pub fn refused(why: impl Into<String>) -> Self {
        Self::Failed(Fault::new(Cause::Refused, why).for_good())
    }

    /// Returns the outcome of a message that the other side did not get or did not answer. All messages to it wait.
    pub fn unreachable(why: impl Into<String>) -> Self {
        Self::Failed(Fault::new(Cause::Unreachable, why))
    }

    /// Returns the outcome of a message to a destination without a route.
    pub fn no_route(destination: Option<&str>) -> Self {
        let why = format!("no route to the destination {}", destination.unwrap_or_default());
        Self::Failed(Fault::new(Cause::NoRoute, why))
    }

    /// Returns the failure, if there is one.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Accepted { .. } => None,
            Self::Failed(fault) => Some(fault),
        }
    }
}

impl From<Fault> for Delivery {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

// Answers are the user's data, so they are never printed.
impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted { .. } => f.write_str("Accepted"),
            Self::Failed(fault) => fault.fmt(f),
        }
    }
}

impl From<Delivery> for Outcome {
    fn from(delivery: Delivery) -> Self {
        match delivery {
            Delivery::Accepted { response } => Self::Done { response },
            Delivery::Failed(fault) => Self::Failed(fault),
        }
    }
}

//! How a message leaves for another service: the contract every wire keeps.

mod address;
mod breaker;
mod config;
mod courier;
#[cfg(feature = "grpc")]
pub(crate) mod grpc;
#[cfg(feature = "http")]
mod http;
mod in_process;
mod judge;
mod parcel;
mod services;
mod wires;

pub use address::Address;
pub use config::ServicesConfig;
pub use courier::{Courier, Destination};
#[cfg(feature = "grpc")]
pub use grpc::GrpcService;
#[cfg(feature = "http")]
pub use http::{Egress, HttpService, ListenOptions, Listener, PushUrl, TlsIdentity};
pub use in_process::Neighbours;
pub use judge::Peer;
pub use services::{Service, Services};

use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::message::Message;
use crate::store::BoxFuture;

/// Takes messages to other services. No transaction is open while it does.
///
/// ```
/// use postroom::{BoxFuture, Delivery, Handlers, Memory, MemoryStore, Message, Transport, Worker};
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
///                 Err(error) => Delivery::Failed { why: error.to_string() },
///             }
///         })
///     }
/// }
///
/// let worker = Worker::<Memory>::outbox(MemoryStore::new(), Handlers::new()).transport(Broker);
/// ```
pub trait Transport: Send + Sync + 'static {
    /// Waits until a message may be sent to its destination, before it takes up one of the worker's places; or says
    /// why it may not for a while. What it gives is held while the message is on its way.
    fn admit<'a>(&'a self, _message: &'a Message) -> BoxFuture<'a, Result<Pass, Delivery>> {
        Box::pin(async { Ok(Pass::default()) })
    }

    /// Sends one message and says what became of it.
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery>;
}

/// Held while a message is on its way.
///
/// ```
/// use std::sync::Arc;
/// use postroom::{BoxFuture, Delivery, Message, Pass, Transport};
/// use tokio::sync::Semaphore;
///
/// /// No more than so many messages are on their way at once.
/// struct Limited<T>(T, Arc<Semaphore>);
///
/// impl<T: Transport> Transport for Limited<T> {
///     fn admit<'a>(&'a self, _: &'a Message) -> BoxFuture<'a, Result<Pass, Delivery>> {
///         Box::pin(async { self.1.clone().acquire_owned().await.map(Pass::holding).map_err(|_| Delivery::NoRoute) })
///     }
///
///     fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
///         self.0.send(message)
///     }
/// }
/// ```
#[derive(Default)]
pub struct Pass(Option<Box<dyn Any + Send + Sync>>);

impl Pass {
    /// Holds this until the message has arrived.
    pub fn holding(held: impl Any + Send + Sync) -> Self {
        Self(Some(Box::new(held)))
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pass").field(&self.0.is_some()).finish()
    }
}

/// What became of a message that was sent.
///
/// ```
/// use std::time::Duration;
/// use postroom::Delivery;
///
/// fn judge(status: u16) -> Delivery {
///     match status {
///         200..300 => Delivery::Accepted { response: None },
///         429 => Delivery::Busy { retry_after: Duration::from_secs(5), why: "it asked for time".into() },
///         400 | 422 => Delivery::Refused { why: format!("it answered {status}") },
///         _ => Delivery::Failed { why: format!("it answered {status}") },
///     }
/// }
///
/// assert_eq!(judge(204), Delivery::Accepted { response: None });
/// ```
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

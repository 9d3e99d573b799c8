//! Where a message is processed.

use std::fmt;

use crate::message::Message;

/// Where a message is processed: another service, or the handlers of a topic here. A failing place affects only its own
/// messages.
///
/// ```
/// use postroom::queue::Place;
///
/// assert_eq!(Place::Service("inventory".into()).to_string(), "inventory");
/// assert_eq!(Place::Topic("order.placed".into()).to_string(), "the topic order.placed");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Place {
    /// Another service, by its name.
    Service(String),
    /// The handlers of a topic in this process.
    Topic(String),
}

impl Place {
    /// Returns the place of this message.
    pub fn of(message: &Message) -> Self {
        match message.destination() {
            Some(destination) => Self::Service(destination.to_owned()),
            None => Self::Topic(message.topic.clone()),
        }
    }

    /// Returns whether it is the place of this message.
    pub(crate) fn is_of(&self, message: &Message) -> bool {
        match (self, message.destination()) {
            (Self::Service(name), Some(destination)) => name == destination,
            (Self::Topic(topic), None) => *topic == message.topic,
            _ => false,
        }
    }

    /// Returns the name of the service or topic.
    pub fn name(&self) -> &str {
        match self {
            Self::Service(name) | Self::Topic(name) => name,
        }
    }

    /// Returns `service` or `topic`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Service(_) => "service",
            Self::Topic(_) => "topic",
        }
    }

    /// Returns the place of this kind and name.
    pub(crate) fn read(kind: &str, name: &str) -> Option<Self> {
        match kind {
            "service" => Some(Self::Service(name.to_owned())),
            "topic" => Some(Self::Topic(name.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(name) => f.write_str(name),
            Self::Topic(name) => write!(f, "the topic {name}"),
        }
    }
}

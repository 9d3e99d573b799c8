//! What an operator pauses or limits. Pure.

use std::fmt;

use crate::message::{Message, check_name};
use crate::queue::Place;
use crate::support::error::{Error, Result};

/// A queue, or a part of it, that an operator pauses or limits.
///
/// ```
/// use postroom::operator::Scope;
///
/// assert_eq!(Scope::topic("order.paid")?.to_string(), "the topic order.paid");
/// assert_eq!(Scope::destination("billing")?.to_string(), "billing");
/// assert_eq!(Scope::lane("order-7")?.to_string(), "the lane order-7");
/// assert_eq!(Scope::lanes("invoice.print")?.to_string(), "each lane of invoice.print");
/// assert_eq!(Scope::Queue.to_string(), "the whole queue");
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Scope {
    /// All messages of the queue.
    Queue,
    /// The messages to another service, or those of a topic that is handled here.
    Place(Place),
    /// The messages of one lane.
    Lane(String),
    /// The messages of each lane whose first message has this topic.
    Lanes(String),
}

impl Scope {
    /// Returns the messages of a topic that is handled here.
    pub fn topic(name: impl Into<String>) -> Result<Self> {
        Self::named("a topic", name.into(), Place::Topic)
    }

    /// Returns the messages to another service.
    pub fn destination(name: impl Into<String>) -> Result<Self> {
        Self::named("a destination", name.into(), Place::Service)
    }

    /// Returns the messages of one lane.
    pub fn lane(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        check_name("a lane", &name)?;
        Ok(Self::Lane(name))
    }

    /// Returns the messages of all lanes whose first message has this topic. What is set for a lane itself wins.
    pub fn lanes(topic: impl Into<String>) -> Result<Self> {
        let topic = topic.into();
        check_name("a topic", &topic)?;
        Ok(Self::Lanes(topic))
    }

    fn named(what: &str, name: String, place: fn(String) -> Place) -> Result<Self> {
        check_name(what, &name)?;
        if name.contains('\n') {
            return Err(Error::invalid(format!("{what} must not contain a line break here")));
        }
        Ok(Self::Place(place(name)))
    }

    /// Returns `queue`, `service`, `topic`, `lane` or `lanes`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Place(place) => place.kind(),
            Self::Lane(_) => "lane",
            Self::Lanes(_) => "lanes",
        }
    }

    /// Returns the name of the service, topic or lane. A whole queue has none.
    pub fn name(&self) -> &str {
        match self {
            Self::Queue => "",
            Self::Place(place) => place.name(),
            Self::Lane(name) | Self::Lanes(name) => name,
        }
    }

    /// Returns the place, if it is a service or a topic.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Place(place) => Some(place),
            _ => None,
        }
    }

    /// Returns whether it is about lanes.
    pub fn is_of_lanes(&self) -> bool {
        matches!(self, Self::Lane(_) | Self::Lanes(_))
    }

    /// Returns whether a message belongs to it, as far as the message tells: the first one of its lane may have another
    /// topic.
    ///
    /// ```
    /// use postroom::Message;
    /// use postroom::operator::{Rule, Scope};
    ///
    /// fn is_paused(rules: &[Rule], message: &Message) -> bool {
    ///     rules.iter().any(|rule| rule.paused.is_some() && rule.scope.covers(message))
    /// }
    /// ```
    pub fn covers(&self, message: &Message) -> bool {
        match self {
            Self::Queue => true,
            Self::Place(place) => place.is_of(message),
            Self::Lane(name) => message.lane.as_ref() == Some(name),
            Self::Lanes(topic) => message.lane.is_some() && message.topic == *topic,
        }
    }

    pub(crate) fn read(kind: &str, name: &str) -> Option<Self> {
        match kind {
            "queue" => Some(Self::Queue),
            "lane" => Some(Self::Lane(name.to_owned())),
            "lanes" => Some(Self::Lanes(name.to_owned())),
            _ => Place::read(kind, name).map(Self::Place),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue => f.write_str("the whole queue"),
            Self::Place(place) => place.fmt(f),
            Self::Lane(name) => write!(f, "the lane {name}"),
            Self::Lanes(topic) => write!(f, "each lane of {topic}"),
        }
    }
}

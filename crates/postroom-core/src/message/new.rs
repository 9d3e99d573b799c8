//! A message before it is stored in the outbox, and what it has in common with one for the inbox.

use std::fmt;
use std::time::Duration;

use crate::message::payload::VERSION_HEADER;
use crate::message::{Headers, Incoming, Kind, Message, MessageId, Origin, Payload, Unique, WorkItemId, check, json};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, Result};

/// How long a message to another service lives if it does not set its own time to live.
pub const SERVICE_TTL: Duration = Duration::from_secs(24 * 3600);

/// The longest head start of a message. One that was due before it was enqueued goes ahead of others by that time, but
/// by no more than this.
pub(crate) const HEAD_START_MAX: Duration = Duration::from_secs(24 * 3600);

/// The header that makes a message expire at its receiver too. In an outbox it is only a request: what travels is the
/// expiry time of the message's row.
pub const EXPIRES_AT: &str = "rf-expires-at";

/// The header in which the lane of a message travels to its receiver.
pub const LANE: &str = "rf-lane";

/// When a message is due. Durations count from its enqueuing.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Due {
    Now,
    At(Timestamp),
    After(Duration),
    Before(Duration),
}

/// A message to put in an outbox.
///
/// ```
/// use std::time::Duration;
/// use postroom::NewMessage;
///
/// let message = NewMessage::new("order.approved", r#"{"order":7}"#)
///     .correlation_id("order-7")
///     .expires_after(Duration::from_secs(3600));
/// ```
#[derive(Clone, PartialEq)]
pub struct NewMessage {
    pub(crate) message_id: MessageId,
    /// Whether the caller gave it that id, perhaps not for the first time.
    pub(crate) has_given_id: bool,
    pub(crate) kind: Kind,
    pub(crate) topic: String,
    pub(crate) payload: String,
    pub(crate) destination: Option<String>,
    pub(crate) headers: Headers,
    pub(crate) correlation_id: Option<String>,
    pub(crate) lane: Option<String>,
    pub(crate) due: Due,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) expires_after: Option<Duration>,
    /// The time to live from the retry policy, for a message that does not set its own.
    pub(crate) unasked_ttl: Option<Option<Duration>>,
    pub(crate) max_attempts: Option<u32>,
    /// Whether its type is an event.
    pub(crate) stays_here: bool,
    pub(crate) unique: Option<Unique>,
}

impl NewMessage {
    /// Creates a message with a new id. It is due immediately, for a handler in this process.
    pub fn new(topic: impl Into<String>, payload: impl Into<String>) -> Self {
        Self {
            message_id: MessageId::new(),
            has_given_id: false,
            kind: Kind::Event,
            topic: topic.into(),
            payload: payload.into(),
            destination: None,
            headers: Headers::new(),
            correlation_id: None,
            lane: None,
            due: Due::Now,
            expires_at: None,
            expires_after: None,
            unasked_ttl: None,
            max_attempts: None,
            stays_here: false,
            unique: None,
        }
    }

    /// Creates a message with `payload` as JSON, under its type's topic and in its lane.
    pub fn of<P: Payload>(payload: &P) -> Result<Self> {
        let json = json::write(format_args!("the payload for {}", P::TOPIC), payload)?;
        let mut message = Self::new(P::TOPIC, json).kind(P::KIND).lane(payload.lane().unwrap_or_default());
        message.stays_here = P::STAYS_HERE;
        Ok(if P::VERSION == 1 { message } else { message.header(VERSION_HEADER, P::VERSION.to_string()) })
    }

    crate::setters! {
        /// Sets the id. A message that is enqueued again with the same id is recognised as a duplicate.
        pub fn id(mut self, id: MessageId) { (self.message_id, self.has_given_id) = (id, true); }

        /// Sends it to another service. By default it then expires 24 hours after it is due.
        pub fn to(mut self, destination: impl Into<String>) { self.destination = Some(destination.into()); }

        /// Sets the time before which it is not handled or sent.
        pub fn due_at(mut self, time: Timestamp) { self.due = Due::At(time); }

        /// Sets how long after enqueuing it becomes due, by the store's clock.
        pub fn due_after(mut self, delay: Duration) { self.due = Due::After(delay); }

        /// Lets it go ahead of others, as if it had been due this long ago; at most 24 hours. Whatever waits for longer
        /// still comes first, so nothing waits for ever. It takes the place of a due time.
        pub fn head_start(mut self, ahead: Duration) { self.due = Due::Before(ahead); }

        /// Gives it a key that at most one message has at a time.
        pub fn unique(mut self, unique: Unique) { self.unique = Some(unique); }

        /// Sets the time at which it expires.
        pub fn expires_at(mut self, time: Timestamp) { (self.expires_at, self.expires_after) = (Some(time), None); }

        /// Sets how long after enqueuing it expires, by the store's clock.
        pub fn expires_after(mut self, ttl: Duration) { (self.expires_at, self.expires_after) = (None, Some(ttl)); }
    }

    /// Makes it expire at its receiver as well. Without this, a message that reached another service in time is handled
    /// there, however long that takes. Only receivers of this library support it.
    #[must_use]
    pub fn expires_there(self) -> Self {
        self.header(EXPIRES_AT, "wanted")
    }

    /// Returns the id of the logical message.
    pub fn message_id(&self) -> MessageId {
        self.message_id
    }

    /// Returns the id that its row in the outbox will have.
    pub fn work_item_id(&self) -> WorkItemId {
        WorkItemId::of(self.message_id, self.destination.as_deref())
    }

    /// Returns its topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Checks whether an outbox would accept it, and returns the problem otherwise. Enqueuing does this too.
    ///
    /// ```
    /// use postroom::NewMessage;
    ///
    /// assert!(NewMessage::new("order.placed", "{}").check().is_ok());
    /// assert!(NewMessage::new("", "{}").check().is_err());
    /// assert!(NewMessage::new("order.placed", "{}").to("Bad Name").check().is_err());
    /// // It would have expired before it is due.
    /// let [minute, hour] = [60, 3600].map(std::time::Duration::from_secs);
    /// assert!(NewMessage::new("order.placed", "{}").due_after(hour).expires_after(minute).check().is_err());
    /// ```
    pub fn check(&self) -> Result<()> {
        self.check_content()?;
        if let Some(destination) = &self.destination {
            check::service("destination", destination)?;
        }
        check::life(self.expires_after)?;
        self.unique.as_ref().map_or(Ok(()), Unique::check)?;
        if matches!(self.due, Due::Before(ahead) if ahead > HEAD_START_MAX) {
            return Err(Error::invalid("a head start is at most 24 hours"));
        }
        self.check_contradictions()
    }

    /// Gives it the correlation id of the message that its sender handles, unless it has its own.
    pub(crate) fn because_of(mut self, handled: &Message) -> Self {
        self.correlation_id = self.correlation_id.or_else(|| handled.correlation_id.clone());
        self
    }

    pub(crate) fn due(&self, now: Timestamp) -> Option<Timestamp> {
        match self.due {
            Due::Now => None,
            Due::At(time) => Some(time),
            Due::After(delay) => Some(now.plus(delay)),
            Due::Before(ahead) => Some(now.minus(ahead)),
        }
    }

    pub(crate) fn expires(&self, now: Timestamp) -> Option<Timestamp> {
        // A message that is due tomorrow must not expire before that.
        let begin = || self.due(now).unwrap_or(now).max(now);
        let usual = self.destination.as_ref().map(|_| SERVICE_TTL);
        let unasked = || self.unasked_ttl.unwrap_or(usual).map(|ttl| begin().plus(ttl));
        self.expires_at.or_else(|| self.expires_after.map(|ttl| now.plus(ttl))).or_else(unasked)
    }

    /// Converts it to the message that a row stored now contains.
    #[doc(hidden)]
    pub fn to_message(&self, now: Timestamp) -> Message {
        let destination = self.destination.clone();
        Message {
            origin: Origin::Outbox { id: self.work_item_id(), message_id: self.message_id, destination },
            kind: self.kind,
            topic: self.topic.clone(),
            payload: self.payload.clone(),
            payload_dropped: false,
            headers: self.headers.clone(),
            correlation_id: self.correlation_id.clone(),
            lane: self.lane.clone(),
            created_at: now,
            due_at: self.due(now),
            expires_at: self.expires(now),
            attempts: 0,
            max_attempts: self.max_attempts,
            last_error: None,
        }
    }
}

/// The settings that messages for the outbox and for the inbox share.
macro_rules! shared_setters {
    ($message:ty) => {
        impl $message {
            /// Sets its kind.
            #[must_use]
            pub fn kind(mut self, kind: Kind) -> Self {
                self.kind = kind;
                self
            }

            /// Adds a header.
            #[must_use]
            pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
                self.headers.insert(name.into(), value.into());
                self
            }

            /// Sets its correlation id. An empty text means none.
            #[must_use]
            pub fn correlation_id(mut self, id: impl Into<String>) -> Self {
                self.correlation_id = Some(id.into()).filter(|id| !id.is_empty());
                self
            }

            /// Puts it into a lane, such as `order-7`. Messages of one lane are handled or sent one after the other, in
            /// the order in which they were committed. If one fails, those behind it wait until it succeeds; if it is
            /// dead, until an operator requeues or dismisses it. Other lanes, and messages without one, do not wait. An
            /// empty text means none.
            #[must_use]
            pub fn lane(mut self, lane: impl Into<String>) -> Self {
                self.lane = Some(lane.into()).filter(|lane| !lane.is_empty());
                self
            }

            /// Marks it dead after this many failed attempts, whatever the worker's policy says.
            #[must_use]
            pub fn max_attempts(mut self, attempts: u32) -> Self {
                self.max_attempts = Some(attempts);
                self
            }

            pub(super) fn check_content(&self) -> Result<()> {
                check::name("topic", &self.topic)?;
                check::payload(&self.payload)?;
                check::headers(&self.headers)?;
                if let Some(id) = &self.correlation_id {
                    check::name("correlation id", id)?;
                }
                if let Some(lane) = &self.lane {
                    check::name("lane", lane)?;
                }
                if self.max_attempts == Some(0) {
                    return Err(Error::invalid("max attempts must be at least 1"));
                }
                Ok(())
            }
        }

        // Payloads and headers are the user's secrets, so they are never printed.
        impl fmt::Debug for $message {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($message))
                    .field("topic", &self.topic)
                    .field("correlation_id", &self.correlation_id)
                    .field("lane", &self.lane)
                    .field("payload_bytes", &self.payload.len())
                    .finish_non_exhaustive()
            }
        }
    };
}

shared_setters!(NewMessage);
shared_setters!(Incoming);

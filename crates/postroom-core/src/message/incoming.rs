//! A message that has arrived, before it is stored in the inbox.

use std::time::Duration;

use crate::message::{ContentHash, Headers, InboxKey, Kind, Message, Origin, check};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, Result};

/// A message that has arrived, to put in an inbox.
///
/// ```
/// use postroom::{InboxKey, Incoming};
///
/// let key = InboxKey::new("stripe", "evt_1")?;
/// let payload = r#"{"amount":100}"#;
/// let incoming = Incoming::new(key, "payment.received", payload).hash(postroom::message::hash_bytes(payload));
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Incoming {
    pub(crate) key: InboxKey,
    #[doc(hidden)]
    pub kind: Kind,
    #[doc(hidden)]
    pub topic: String,
    #[doc(hidden)]
    pub payload: String,
    pub(crate) hash: Option<ContentHash>,
    #[doc(hidden)]
    pub headers: Headers,
    #[doc(hidden)]
    pub correlation_id: Option<String>,
    #[doc(hidden)]
    pub lane: Option<String>,
    pub(crate) due_at: Option<Timestamp>,
    #[doc(hidden)]
    pub expires_at: Option<Timestamp>,
    pub(crate) expires_after: Option<Duration>,
    pub(crate) max_attempts: Option<u32>,
}

impl Incoming {
    /// Creates a message that arrived under `key`.
    pub fn new(key: InboxKey, topic: impl Into<String>, payload: impl Into<String>) -> Self {
        Self {
            key,
            kind: Kind::Event,
            topic: topic.into(),
            payload: payload.into(),
            hash: None,
            headers: Headers::new(),
            correlation_id: None,
            lane: None,
            due_at: None,
            expires_at: None,
            expires_after: None,
            max_attempts: None,
        }
    }

    crate::setters! {
        /// Sets the hash of its content, so that the same id with different content is noticed. Use
        /// [`hash_bytes`](crate::hash_bytes), or a [`ContentHash`] of another algorithm.
        pub fn hash(mut self, hash: impl Into<ContentHash>) { self.hash = Some(hash.into()); }

        /// Sets the time before which it is not handled.
        pub fn due_at(mut self, time: Timestamp) { self.due_at = Some(time); }

        /// Sets the time at which it expires without being handled. Its key is still recognised afterwards.
        pub fn expires_at(mut self, time: Timestamp) { (self.expires_at, self.expires_after) = (Some(time), None); }

        /// Sets how long after enqueuing it expires without being handled, by the store's clock.
        pub fn expires_after(mut self, ttl: Duration) { (self.expires_at, self.expires_after) = (None, Some(ttl)); }
    }

    pub(crate) fn expires(&self, now: Timestamp) -> Option<Timestamp> {
        self.expires_at.or_else(|| self.expires_after.map(|ttl| now.plus(ttl)))
    }

    pub(crate) fn is_past_expiry(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires| expires <= now)
    }

    /// Converts it to the message that a row stored now contains.
    #[doc(hidden)]
    pub fn to_message(&self, now: Timestamp) -> Message {
        Message {
            origin: Origin::Inbox { key: self.key.clone(), hash: self.hash.clone(), last_seen_at: now },
            kind: self.kind,
            topic: self.topic.clone(),
            payload: self.payload.clone(),
            payload_dropped: false,
            headers: self.headers.clone(),
            correlation_id: self.correlation_id.clone(),
            lane: self.lane.clone(),
            created_at: now,
            due_at: self.due_at,
            expires_at: self.expires(now),
            attempts: 0,
            max_attempts: self.max_attempts,
            last_error: None,
        }
    }

    /// Returns the key by which the inbox recognises it.
    pub fn key(&self) -> &InboxKey {
        &self.key
    }

    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        check::life(self.expires_after)?;
        self.check_content()
    }

    /// Checks a message that did not come through a receiver. Such a message must not set the wire's own headers.
    #[doc(hidden)]
    pub fn check_from_outside(&self) -> Result<()> {
        let prefix = check::RESERVED;
        match self.headers.keys().find(|name| name.starts_with(prefix)) {
            Some(name) => {
                Err(Error::invalid(format!("the header {name}: names that begin with {prefix} are reserved")))
            }
            None => self.check(),
        }
    }
}

//! CloudEvents 1.0 over HTTP: events become messages, and messages become events.
//!
//! | event | message |
//! |---|---|
//! | `id`, `source`, `type` | id, source, topic |
//! | `time` | when it was enqueued, to the microsecond and in UTC |
//! | `datacontenttype` | the header `content-type` |
//! | `subject`, `dataschema`, each extension | the headers `ce-subject`, `ce-dataschema`, `ce-…` |
//! | `data` | the payload; none is an empty one |

mod attributes;
mod binary;
mod header_value;
mod structured;
#[cfg(test)]
mod tests;

use std::fmt;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;

use crate::foreign::optional_header;
use postroom_core::message::{Headers, Message};
use postroom_core::support::clock::Timestamp;
use postroom_core::support::error::{Error, Result};

const MEDIA_TYPE: &str = "application/cloudevents";
const BATCH_MEDIA_TYPE: &str = "application/cloudevents-batch";
const JSON_MEDIA_TYPE: &str = "application/cloudevents+json";
/// The message header for `datacontenttype`, and the prefix of the headers for other attributes.
const CONTENT_TYPE_HEADER: &str = "content-type";
const PREFIX: &str = "ce-";

/// How a CloudEvent is written to an HTTP request. Receivers understand both forms.
///
/// ```
/// use postroom::services::{Peer, Service};
/// use postroom::webhooks::CloudEventsMode;
///
/// let audit = Service::new("audit", "https://audit.example.com/events")
///     .peer(Peer::CloudEvents(CloudEventsMode::Structured));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum CloudEventsMode {
    /// The payload is the body; everything else is in headers. A signature of the body does not cover the headers.
    #[default]
    Binary,
    /// Everything is in the body, as one JSON object.
    Structured,
}

/// A message as a CloudEvent.
#[derive(Clone, PartialEq)]
pub struct CloudEvent {
    pub(crate) id: String,
    pub(crate) source: String,
    /// The event's `type`.
    pub(crate) topic: String,
    pub(crate) time: Option<Timestamp>,
    /// `content-type`, and `ce-…` for each attribute that has no field here.
    #[doc(hidden)]
    pub headers: Headers,
    pub(crate) payload: String,
}

impl CloudEvent {
    /// Turns a message of this service into an event. Only those headers that are attributes go with it.
    pub(crate) fn of(message: &Message, source: &str) -> Self {
        let headers = message.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
        let headers = headers.filter(|(name, _)| name.starts_with(PREFIX) || name == CONTENT_TYPE_HEADER);
        let mut event = Self {
            id: message.id(),
            source: source.to_owned(),
            topic: message.topic.clone(),
            time: Some(message.created_at),
            headers: headers.collect(),
            payload: message.payload.clone(),
        };
        // Receivers can do little with data that has no type, and messages rarely name one.
        if event.content_type().is_none() && !event.payload.is_empty() {
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&event.payload).is_ok();
            let implied = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
            event.headers.insert(CONTENT_TYPE_HEADER.into(), implied.into());
        }
        event
    }

    /// Returns whether a request says that its body is an event, valid or not.
    pub(crate) fn is_structured(headers: &HeaderMap) -> bool {
        content_type(headers).is_ok_and(|given| media_type(given).starts_with(MEDIA_TYPE))
    }

    /// Reads the event from a request.
    #[doc(hidden)]
    pub fn read(headers: &HeaderMap, body: &[u8]) -> Result<Self> {
        match media_type(content_type(headers)?).as_str() {
            JSON_MEDIA_TYPE => structured::read(body),
            batch if batch.starts_with(BATCH_MEDIA_TYPE) => {
                Err(Error::invalid("batches of CloudEvents are not accepted; send each event in a separate request"))
            }
            other if other.starts_with(MEDIA_TYPE) => {
                Err(Error::invalid(format!("CloudEvents are accepted only as {JSON_MEDIA_TYPE} or in binary mode")))
            }
            _ => binary::read(headers, body),
        }
    }

    /// Writes the headers and the body of a request with this event.
    #[doc(hidden)]
    pub fn write(&self, mode: CloudEventsMode) -> Result<(HeaderMap, Bytes)> {
        match mode {
            CloudEventsMode::Binary => binary::write(self),
            CloudEventsMode::Structured => structured::write(self),
        }
    }

    fn content_type(&self) -> Option<&str> {
        self.headers.get(CONTENT_TYPE_HEADER).map(String::as_str).filter(|given| !given.is_empty())
    }
}

/// Returns the content type of a request, or an empty text if it has none.
fn content_type(headers: &HeaderMap) -> Result<&str> {
    Ok(optional_header(headers, CONTENT_TYPE.as_str())?.unwrap_or_default())
}

/// Returns a content type without its parameters, in lower case.
fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

// Payloads and headers are the user's secrets, so they are never printed.
impl fmt::Debug for CloudEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudEvent")
            .field("id", &self.id)
            .field("source", &self.source)
            .field("topic", &self.topic)
            .field("time", &self.time)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

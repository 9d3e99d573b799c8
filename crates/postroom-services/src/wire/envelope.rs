//! The envelope: the fields of a message between services, the same on every transport.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::wire::grammar;
use postroom_core::message::{EXPIRES_AT, Headers, IN_REPLY_TO, Kind, LANE, Message, Origin, RESERVED};
use postroom_core::support::clock::Timestamp;
use postroom_core::support::error::{Error, Result};

/// The header that says how to read the text of a payload. Without it, the payload is JSON.
pub const CONTENT_TYPE: &str = "content-type";
/// A payload without a content type that is not JSON gets this one.
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// The headers of the wire itself; no message may set them.
pub(crate) const VERSION: &str = "rf-version";
pub(crate) const TIMESTAMP: &str = "rf-timestamp";
pub(crate) const HMAC: &str = "rf-hmac";

/// A message as it travels between services.
///
/// The payload is JSON and keeps its bytes. A payload that is not JSON travels as a JSON string, with its content
/// type in the headers.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Envelope {
    pub message_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    pub source_service_id: String,
    pub message_type: String,
    pub endpoint: String,
    pub payload: Box<RawValue>,
    #[serde(default)]
    pub headers: Headers,
}

impl Envelope {
    /// Builds the envelope of an outbox message from `source`.
    pub(crate) fn of(message: &Message, source: &str) -> Result<Self> {
        let Origin::Outbox { message_id, .. } = &message.origin else {
            return Err(Error::invalid("only messages of the outbox can be sent"));
        };
        let mut headers = message.headers.clone();
        headers.retain(|name, _| !name.starts_with(RESERVED) || name == IN_REPLY_TO);
        headers.extend(message.expires_there().map(|at| (EXPIRES_AT.to_owned(), at.to_string())));
        headers.extend(message.lane.clone().map(|lane| (LANE.to_owned(), lane)));
        let payload = to_json(&message.payload, &mut headers)?;
        Ok(Self {
            message_id: message_id.to_string(),
            correlation_id: message.correlation_id.clone(),
            source_service_id: source.to_owned(),
            message_type: wire_kind(message.kind).as_str().to_owned(),
            endpoint: message.topic.clone(),
            payload,
            headers,
        })
    }

    #[doc(hidden)]
    pub fn parse(json: &[u8]) -> Result<Self> {
        // Serde would also accept an array of the same values, without the field names.
        if !json.trim_ascii_start().starts_with(b"{") {
            return Err(Error::invalid("the envelope must be a JSON object"));
        }
        let envelope: Self = serde_json::from_slice(json).map_err(|error| {
            // Serde's own error is not used, because it quotes what was sent.
            let (line, column) = (error.line(), error.column());
            Error::invalid(format!("the envelope is not valid: see line {line}, column {column}"))
        })?;
        envelope.check()?;
        Ok(envelope)
    }

    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        grammar::message_id(&self.message_id)?;
        grammar::service("sourceServiceId", &self.source_service_id)?;
        grammar::endpoint(&self.endpoint)?;
        self.kind().map(|_| ())
    }

    #[doc(hidden)]
    pub fn to_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|error| Error::invalid("the envelope cannot be written as JSON").caused_by(error))
    }

    /// Returns the kind of the message.
    pub(crate) fn kind(&self) -> Result<Kind> {
        let kind = Kind::from_name(&self.message_type).filter(|kind| *kind != Kind::Event);
        kind.ok_or_else(|| Error::invalid("messageType must be Signal, Command, PushCall or Response"))
    }

    /// Returns when the message expires, if its sender set a time.
    pub(crate) fn expires_at(&self) -> Result<Option<Timestamp>> {
        let given = self.headers.get(EXPIRES_AT).map(|text| text.parse());
        given.transpose().map_err(|_| Error::invalid(format!("the header {EXPIRES_AT} is not an RFC 3339 time")))
    }

    /// Returns the payload as the sender's application wrote it.
    #[doc(hidden)]
    pub fn payload_text(&self) -> Result<String> {
        from_json(&self.payload, &self.headers)
    }
}

// Payloads and headers are the user's secrets, so they are never printed.
impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope")
            .field("message_id", &self.message_id)
            .field("source", &self.source_service_id)
            .field("endpoint", &self.endpoint)
            .field("payload_bytes", &self.payload.get().len())
            .finish_non_exhaustive()
    }
}

/// Returns the kind on the wire. A local event with a destination becomes a signal: it informs another service.
pub(crate) fn wire_kind(kind: Kind) -> Kind {
    if kind == Kind::Event { Kind::Signal } else { kind }
}

/// Turns text into a JSON value. Text that is not JSON becomes a string, and the headers say so.
pub fn to_json(text: &str, headers: &mut Headers) -> Result<Box<RawValue>> {
    let is_json = headers.get(CONTENT_TYPE).is_none_or(|kind| is_json(kind));
    let value = is_json.then(|| RawValue::from_string(text.to_owned()).ok()).flatten();
    if let Some(value) = value {
        return Ok(value);
    }
    if is_json {
        headers.insert(CONTENT_TYPE.into(), PLAIN_TEXT.into());
    }
    serde_json::value::to_raw_value(text)
        .map_err(|error| Error::invalid("the text cannot be written as a JSON string").caused_by(error))
}

/// Returns the text that a JSON value stands for.
pub fn from_json(value: &RawValue, headers: &Headers) -> Result<String> {
    if headers.get(CONTENT_TYPE).is_none_or(|kind| is_json(kind)) {
        return Ok(value.get().to_owned());
    }
    serde_json::from_str(value.get())
        .map_err(|_| Error::invalid("a payload whose content type is not JSON must be a JSON string"))
}

fn is_json(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}

/// A receiver's answer to a message.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The receiver has accepted the message for good.
    #[serde(default)]
    pub acknowledged: bool,
    /// The receiver already had the message.
    #[serde(default)]
    pub duplicate_detected: bool,
    /// The handler's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Reply>,
    /// The reason why the message was not accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Answer {
    /// Returns the handler's answer as the handler wrote it.
    #[doc(hidden)]
    pub fn payload(&self) -> Option<String> {
        Some(self.payload.as_ref()?.text().to_owned())
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("acknowledged", &self.acknowledged)
            .field("duplicate_detected", &self.duplicate_detected)
            .finish_non_exhaustive()
    }
}

/// A handler's answer: JSON that keeps its bytes.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
#[allow(missing_debug_implementations, reason = "answers are the user's data: never printed")]
pub struct Reply(Box<RawValue>);

impl Reply {
    /// Wraps the handler's text. Text that is not JSON becomes a string.
    #[doc(hidden)]
    pub fn of(text: &str) -> Result<Self> {
        to_json(text, &mut Headers::new()).map(Self)
    }

    pub(crate) fn text(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Reply {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for Reply {}

#[cfg(test)]
mod tests {
    use super::*;
    use postroom_core::message::NewMessage;

    const AT: Timestamp = Timestamp::from_micros(1_771_070_400_000_000);

    #[test]
    fn when_a_message_expires_is_told_only_if_its_sender_wants_that() {
        let mut message = NewMessage::new("a", "{}").to_message(AT);
        message.expires_at = Some(AT);
        assert_eq!(Envelope::of(&message, "orders").unwrap().expires_at().unwrap(), None);
        message.headers.insert(EXPIRES_AT.into(), "wanted".into());
        assert_eq!(Envelope::of(&message, "orders").unwrap().expires_at().unwrap(), Some(AT));
        message.expires_at = None;
        assert_eq!(Envelope::of(&message, "orders").unwrap().expires_at().unwrap(), None);
    }

    #[test]
    fn an_envelope_is_an_object() {
        let object = r#" {"messageId":"0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01","sourceServiceId":"orders",
            "messageType":"Signal","endpoint":"a","payload":{}}"#;
        Envelope::parse(object.as_bytes()).unwrap();
        let array = r#"["0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01",null,"orders","Signal","a",{},{}]"#;
        let refused = Envelope::parse(array.as_bytes()).unwrap_err();
        assert!(refused.to_string().contains("must be a JSON object"), "{refused}");
    }
}

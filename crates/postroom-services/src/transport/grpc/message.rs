//! The messages of the wire: their meaning, and which of their fields are signed.

use std::fmt;

use serde_json::value::RawValue;

use super::generated as v1;
use crate::receiver::Reply;
use crate::wire::envelope::{self, Envelope};
use postroom_core::message::digest_pieces;
use postroom_core::support::error::{Error, Result};

impl v1::Envelope {
    /// Computes the digest that a signature covers. It is over the values, because the same values can be encoded as
    /// different bytes. Both ends compute it from the message that travels.
    pub(super) fn digest(&self) -> [u8; 32] {
        let correlation_id = self.correlation_id.as_deref().unwrap_or_default();
        let fields = [
            &self.message_id,
            correlation_id,
            &self.source_service_id,
            &self.message_type,
            &self.endpoint,
            &self.payload,
        ];
        // The map keeps the headers sorted by name.
        let headers = self.headers.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        digest_pieces(fields.into_iter().chain(headers).map(str::as_bytes))
    }
}

impl From<Envelope> for v1::Envelope {
    fn from(envelope: Envelope) -> Self {
        Self {
            message_id: envelope.message_id,
            correlation_id: envelope.correlation_id,
            source_service_id: envelope.source_service_id,
            message_type: envelope.message_type,
            endpoint: envelope.endpoint,
            payload: Box::<str>::from(envelope.payload).into_string(),
            headers: envelope.headers,
        }
    }
}

impl TryFrom<v1::Envelope> for Envelope {
    type Error = Error;

    fn try_from(message: v1::Envelope) -> Result<Self> {
        let envelope = Self {
            message_id: message.message_id,
            correlation_id: message.correlation_id,
            source_service_id: message.source_service_id,
            message_type: message.message_type,
            endpoint: message.endpoint,
            // Serde's own error is not used, because it quotes what was sent.
            payload: RawValue::from_string(message.payload).map_err(|_| Error::invalid("the payload is not JSON"))?,
            headers: message.headers,
        };
        envelope.check()?;
        Ok(envelope)
    }
}

impl v1::Answer {
    /// Computes the digest that a receipt covers, besides the status.
    pub(super) fn digest(&self) -> [u8; 32] {
        let flag = |set: bool| if set { "1" } else { "0" };
        let payload = self.payload.as_deref().unwrap_or_default();
        let error = self.error.as_deref().unwrap_or_default();
        let fields = [flag(self.acknowledged), flag(self.duplicate_detected), payload, error];
        digest_pieces(fields.map(str::as_bytes))
    }

    /// Converts it to the answer that all transports share.
    pub(super) fn into_answer(self) -> crate::wire::Answer {
        crate::wire::Answer {
            acknowledged: self.acknowledged,
            duplicate_detected: self.duplicate_detected,
            payload: self.payload.and_then(|text| envelope::Reply::of(&text).ok()),
            error: self.error,
        }
    }
}

impl From<&Reply> for v1::Answer {
    fn from(reply: &Reply) -> Self {
        let answer = reply.to_answer();
        Self {
            acknowledged: answer.acknowledged,
            duplicate_detected: answer.duplicate_detected,
            payload: answer.payload(),
            error: answer.error,
            status: reply.status.into(),
        }
    }
}

// Payloads and headers are the user's secrets, so they are never printed.
impl fmt::Debug for v1::Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope")
            .field("message_id", &self.message_id)
            .field("source", &self.source_service_id)
            .field("endpoint", &self.endpoint)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for v1::Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("acknowledged", &self.acknowledged)
            .field("duplicate_detected", &self.duplicate_detected)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

//! A message on its way out, with everything that a wire needs to write and sign it.

use http::HeaderMap;

use crate::wire::envelope::{self, Envelope};
use crate::wire::headers;
use crate::wire::key::Key;
use crate::wire::signature::{Head, Receipt, Signature, sign_v1};
use postroom_core::message::Message;
use postroom_core::support::clock::Timestamp;
use postroom_core::support::error::Result;

/// A message, its sender and its destination, and the keys they share.
#[derive(Debug)]
pub(crate) struct Parcel<'m> {
    pub(crate) message: &'m Message,
    pub(crate) source: &'m str,
    pub(crate) destination: &'m str,
    pub(crate) keys: Vec<Key>,
    pub(crate) now: Timestamp,
}

impl Parcel<'_> {
    /// Builds the envelope. With v1, the signature is inside.
    pub(crate) fn envelope(&self, v1: bool) -> Result<Envelope> {
        let mut envelope = Envelope::of(self.message, self.source)?;
        envelope.headers.insert(envelope::VERSION.into(), "2.0".into());
        envelope.headers.insert(envelope::TIMESTAMP.into(), self.now.to_string());
        if let (true, Some(key)) = (v1, self.keys.first()) {
            let signature = sign_v1(&envelope, key);
            envelope.headers.insert(envelope::HMAC.into(), signature);
        }
        Ok(envelope)
    }

    /// Builds the head that v2 signs for this path and content.
    pub(crate) fn head(&self, path: &str, content_type: &str, digest: [u8; 32]) -> Head {
        Head {
            source: self.source.to_owned(),
            destination: self.destination.to_owned(),
            method: "POST".to_owned(),
            path: path.to_owned(),
            message_id: self.message.id(),
            enqueued_at: self.message.created_at,
            due_at: self.message.due_at,
            attempt: self.message.attempts + 1,
            timestamp: self.now,
            content_type: content_type.to_owned(),
            digest,
        }
    }

    /// Returns whether an answer with these headers comes from the destination itself.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "nothing is signed in process"))]
    pub(crate) fn proves(&self, beside: &HeaderMap, status: u16, digest: [u8; 32]) -> bool {
        let expected = Receipt {
            destination: self.destination.to_owned(),
            message_id: self.message.id(),
            timestamp: self.now,
            status,
            digest,
            beside: headers::beside(beside),
        };
        let receipt = beside.get(headers::RECEIPT).and_then(|receipt| receipt.to_str().ok());
        receipt.is_some_and(|receipt| expected.is_signed(&Signature::parse_list(receipt), &self.keys))
    }
}

//! Finds out who sent a request. Every failure gets the same answer; only the log has the reason.

use std::time::Duration;

use http::HeaderMap;

use super::options::TOLERANCE;
use super::{Receiver, Reply};
use crate::wire::envelope::{self, Envelope};
use crate::wire::headers;
use crate::wire::key::Key;
use crate::wire::signature::{Head, Receipt, is_signed_v1};
use postroom_core::store::Store;
use postroom_core::support::clock::Timestamp;
use postroom_core::telemetry::{self, Distrust};
use postroom_core::work::handler::Backend;

/// A request whose source is verified.
#[derive(Clone, Debug)]
pub(crate) struct Authenticated {
    pub(crate) source: String,
    /// What was signed. It is `None` for v1 and for messages in process.
    pub(crate) head: Option<Head>,
    /// The keys that sign the receipt.
    keys: Vec<Key>,
    /// It came through a webhook, where nobody waits for an answer.
    pub(crate) is_webhook: bool,
}

impl Authenticated {
    /// The source is known without our signatures, because the message came in process or was signed by v1.
    pub(crate) fn by_other_means(source: &str) -> Self {
        Self { source: source.to_owned(), head: None, keys: Vec::new(), is_webhook: false }
    }

    /// The source is known by a provider's signature, or by the hook the message came to.
    pub(crate) fn by_webhook(source: &str) -> Self {
        Self { is_webhook: true, ..Self::by_other_means(source) }
    }

    /// Returns whether the inbox may have forgotten the message by now.
    pub(crate) fn is_too_old(&self, window: Duration, now: Timestamp) -> bool {
        self.head.as_ref().is_some_and(|head| {
            let since = head.due_at.map_or(head.enqueued_at, |due| due.max(head.enqueued_at));
            since < now.minus(window)
        })
    }

    /// Signs the receipt of an answer. There is none for senders that cannot read one.
    pub(crate) fn receipt(&self, status: u16, digest: [u8; 32], beside: Option<[String; 2]>) -> Option<String> {
        let head = self.head.as_ref()?;
        let receipt = Receipt {
            destination: head.destination.clone(),
            message_id: head.message_id.clone(),
            timestamp: head.timestamp,
            status,
            digest,
            beside,
        };
        Some(receipt.sign(&self.keys))
    }
}

impl<B: Backend> Receiver<B> {
    /// Verifies a request by its head alone, before any of the body is read.
    pub(crate) fn authenticate(&self, head: &HeaderMap, method: &str, path: &str) -> Result<Authenticated, Reply> {
        let (head, signatures) = headers::read(head, method, path).map_err(|error| Reply::malformed(&error))?;
        let now = self.wall();
        let sources = self.0.sources();
        let known = sources.get(&head.source);
        let keys = known.map(|known| known.keys.active(now)).unwrap_or_default();
        let is_signed = head.is_signed(&signatures, &keys, &self.0.decoys);
        let is_timely = is_near(head.timestamp, now) && head.enqueued_at <= head.timestamp.plus(TOLERANCE);
        let distrust = match known {
            None => Distrust::UnknownSource,
            Some(_) if !is_signed => Distrust::Signature,
            Some(_) if head.destination != self.0.service => Distrust::Destination,
            Some(_) if !is_timely => Distrust::Time,
            Some(known) => {
                known.has_used_v2();
                return Ok(Authenticated { source: head.source.clone(), head: Some(head), keys, is_webhook: false });
            }
        };
        Err(self.distrust(&head.message_id, &head.source, distrust))
    }

    /// Verifies a request of a foreign peer, which signs inside the envelope.
    pub(crate) fn authenticate_v1(&self, envelope: &Envelope) -> Result<Authenticated, Reply> {
        let sources = self.0.sources();
        let known = sources.get(&envelope.source_service_id);
        let keys = known.map(|known| known.keys.active(self.wall())).unwrap_or_default();
        let signature = envelope.headers.get(envelope::HMAC).map(String::as_str).unwrap_or_default();
        let is_signed = is_signed_v1(envelope, signature, &keys, &self.0.decoys);
        let distrust = match known {
            None => Distrust::UnknownSource,
            Some(known) if !known.may_use_v1() => Distrust::Version,
            Some(_) if !is_signed => Distrust::Signature,
            // Keys may have been replaced since the sources were checked for shared keys.
            Some(known) if known.shares_a_key(&envelope.source_service_id, &sources).is_some() => Distrust::Signature,
            Some(_) => return Ok(Authenticated::by_other_means(&envelope.source_service_id)),
        };
        Err(self.distrust(&envelope.message_id, &envelope.source_service_id, distrust))
    }

    fn distrust(&self, message_id: &str, source: &str, why: Distrust) -> Reply {
        telemetry::distrusted(self.0.store.name(), message_id, source, why);
        Reply::unauthorized()
    }

    /// Checks that the body is the one that was signed, before any of it is parsed.
    pub(crate) fn matches_digest(&self, from: &Authenticated, digest: [u8; 32]) -> Result<(), Reply> {
        match &from.head {
            Some(head) if head.digest != digest => Err(self.distrust(&head.message_id, &from.source, Distrust::Body)),
            _ => Ok(()),
        }
    }

    /// Checks that the body contains what the head signed.
    pub(crate) fn matches(
        &self,
        from: &Authenticated,
        message_id: &str,
        source: &str,
        digest: [u8; 32],
    ) -> Result<(), Reply> {
        let fits = from
            .head
            .as_ref()
            .is_none_or(|head| head.digest == digest && head.message_id == message_id && head.source == source);
        if fits { Ok(()) } else { Err(self.distrust(message_id, &from.source, Distrust::Body)) }
    }
}

fn is_near(time: Timestamp, now: Timestamp) -> bool {
    time >= now.minus(TOLERANCE) && time <= now.plus(TOLERANCE)
}

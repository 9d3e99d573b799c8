//! A peer that knows only the `.proto` file: it signs requests and checks receipts as described there.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use sha2::{Digest, Sha256};

use super::SECRET;
use crate::transport::grpc::generated::{Answer, Envelope};
use postroom_core::message::MessageId;
use postroom_core::support::clock::Clock;

pub(super) const PATH: &str = "/postroom.v1.Receiver/Receive";

pub(super) fn envelope() -> Envelope {
    Envelope {
        message_id: MessageId::new().to_string(),
        correlation_id: Some("order-7".to_owned()),
        source_service_id: "orders".to_owned(),
        message_type: "Command".to_owned(),
        endpoint: "reserve".to_owned(),
        payload: r#"{"order":7}"#.to_owned(),
        headers: [("b", "2"), ("a", "1")].map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
    }
}

fn encode(pieces: &[&[u8]]) -> Vec<u8> {
    let mut bytes = (pieces.len() as u64).to_le_bytes().to_vec();
    for piece in pieces {
        bytes.extend((piece.len() as u64).to_le_bytes());
        bytes.extend(*piece);
    }
    bytes
}

fn mac(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(bytes).finalize().into_bytes().to_vec()
}

pub(super) fn digest(envelope: &Envelope) -> [u8; 32] {
    let mut pieces = vec![
        envelope.message_id.as_bytes(),
        envelope.correlation_id.as_deref().unwrap_or("").as_bytes(),
        envelope.source_service_id.as_bytes(),
        envelope.message_type.as_bytes(),
        envelope.endpoint.as_bytes(),
        envelope.payload.as_bytes(),
    ];
    let mut names: Vec<&String> = envelope.headers.keys().collect();
    names.sort_by_key(|name| name.as_bytes());
    for name in names {
        pieces.extend([name.as_bytes(), envelope.headers[name].as_bytes()]);
    }
    Sha256::digest(encode(&pieces)).into()
}

/// Returns the signed metadata of a request.
pub(super) fn metadata(envelope: &Envelope, content_type: &str) -> HeaderMap {
    metadata_for(PATH, envelope, content_type)
}

/// Returns the signed metadata of a request to another path.
pub(super) fn metadata_for(path: &str, envelope: &Envelope, content_type: &str) -> HeaderMap {
    let now = Clock::Database.now().as_micros().to_string();
    let digest = digest(envelope);
    let (source, id) = (&envelope.source_service_id, &envelope.message_id);
    let signature = mac(
        &mac(SECRET.as_bytes(), b"postroom v2 request"),
        &encode(&[
            b"rf-sig-v2",
            b"req",
            b"2026-11",
            source.as_bytes(),
            b"inventory",
            b"POST",
            path.as_bytes(),
            id.as_bytes(),
            now.as_bytes(),
            b"",
            b"1",
            now.as_bytes(),
            content_type.as_bytes(),
            &digest,
        ]),
    );
    let mut headers = HeaderMap::new();
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    for (name, value) in [
        ("rf-version", "2"),
        ("rf-source", source),
        ("rf-destination", "inventory"),
        ("rf-message-id", id),
        ("rf-enqueued-at", &now),
        ("rf-attempt", "1"),
        ("rf-timestamp", &now),
        ("rf-content-sha256", &digits),
        ("rf-signature", &format!("v2;kid=2026-11;{}", URL_SAFE_NO_PAD.encode(signature))),
    ] {
        headers.insert(name, value.parse().unwrap());
    }
    headers
}

/// Computes the receipt that an answer must have.
pub(super) fn receipt(request: &HeaderMap, answer: &Answer, beside: [&str; 2]) -> String {
    let flag = |set: bool| if set { b"1" } else { b"0" };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (payload, error) = (text(&answer.payload), text(&answer.error));
    let fields = [flag(answer.acknowledged), flag(answer.duplicate_detected), payload.as_bytes(), error.as_bytes()];
    let receipt = mac(
        &mac(SECRET.as_bytes(), b"postroom v2 receipt"),
        &encode(&[
            b"rf-ack-v2",
            b"ack",
            b"2026-11",
            request["rf-destination"].as_bytes(),
            request["rf-message-id"].as_bytes(),
            request["rf-timestamp"].as_bytes(),
            answer.status.to_string().as_bytes(),
            &Sha256::digest(encode(&fields)),
            beside[0].as_bytes(),
            beside[1].as_bytes(),
        ]),
    );
    format!("v2;kid=2026-11;{}", URL_SAFE_NO_PAD.encode(receipt))
}

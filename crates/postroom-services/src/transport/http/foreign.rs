//! Writes requests to peers that do not speak our own wire.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::JSON;
use super::client::typed;
use crate::foreign::{CloudEvent, WebhookSigner};
use crate::transport::judge::Peer;
use crate::transport::parcel::Parcel;
use crate::wire::envelope::CONTENT_TYPE;
use postroom_core::message::Headers;
use postroom_core::support::error::Result;

/// Writes the head and body of a message to a foreign peer, signed if there is a secret.
pub(super) fn write(peer: Peer, parcel: &Parcel<'_>, signer: Option<&WebhookSigner>) -> Result<(HeaderMap, Vec<u8>)> {
    let (mut head, body) = match peer {
        Peer::CloudEvents(mode) => {
            let (head, body) = CloudEvent::of(parcel.message, parcel.source).write(mode)?;
            (head, body.to_vec())
        }
        _ => plain(parcel)?,
    };
    if let Some(signer) = signer {
        head.extend(signer.sign(&parcel.message.id(), parcel.now, &body)?);
    }
    Ok((head, body))
}

/// Writes the payload as the body, and everything else as headers.
fn plain(parcel: &Parcel<'_>) -> Result<(HeaderMap, Vec<u8>)> {
    let message = parcel.message;
    let mut head = typed(message.headers.get(CONTENT_TYPE).map_or(JSON, String::as_str))?;
    for (name, value) in named(&message.headers) {
        head.insert(name, value);
    }
    crate::wire::headers::set(&mut head, "rf-message-id", &message.id())?;
    crate::wire::headers::set(&mut head, "rf-source", parcel.source)?;
    if let Ok(topic) = HeaderValue::from_str(&message.topic) {
        head.insert("rf-endpoint", topic);
    }
    Ok((head, message.payload.clone().into_bytes()))
}

/// Returns the message's own headers that HTTP can carry, without those that control HTTP itself.
fn named(headers: &Headers) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    const STEERING: &[&str] = &[
        "host",
        "content-length",
        "content-type",
        "connection",
        "transfer-encoding",
        "te",
        "upgrade",
        "trailer",
        "keep-alive",
        "proxy-connection",
        "expect",
    ];
    headers.iter().filter_map(|(name, value)| {
        let name: HeaderName = name.parse().ok()?;
        let value = HeaderValue::from_str(value).ok()?;
        (!STEERING.contains(&name.as_str())).then_some((name, value))
    })
}

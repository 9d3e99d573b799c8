//! Standard Webhooks: HMAC-SHA256 of id, time and body, in three headers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::foreign::secret::Keys;
use crate::foreign::{RefusalReason, WebhookSecret, header, json, scheme, text};
use postroom_core::support::clock::Timestamp;
use postroom_core::support::error::{Error, Result};

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
/// The version of signatures made with a shared secret; other signatures in the list are for other receivers.
const VERSION: &str = "v1";
/// The specification requires signing keys of at least this many bytes.
const KEY_BYTES_MIN: usize = 24;

pub(super) fn verify(keys: &Keys, headers: &HeaderMap, body: &[u8]) -> Result<Timestamp, RefusalReason> {
    let (id, time) = (header(headers, ID.as_str())?, header(headers, TIMESTAMP.as_str())?);
    let signed_at = scheme::seconds(time).filter(|_| is_id(id)).ok_or(RefusalReason::MalformedHeader)?;
    let listed = header(headers, SIGNATURE.as_str())?.split(' ').filter_map(|item| item.split_once(','));
    let coded = listed.filter(|(version, _)| *version == VERSION).map(|(_, coded)| coded);
    let signatures: Vec<[u8; 32]> = coded.filter_map(|coded| STANDARD.decode(coded).ok()?.try_into().ok()).collect();
    if !keys.accept(&signed_parts(id, time, body), &signatures) {
        return Err(RefusalReason::WrongSignature);
    }
    Ok(signed_at)
}

/// Returns the id, topic and payload.
pub(super) fn read(headers: &HeaderMap, body: &[u8]) -> Result<(String, String, String)> {
    let id = header(headers, ID.as_str()).map_err(|_| Error::invalid("the header webhook-id is missing"))?;
    let payload = text(body)?;
    let topic = json::required(&json::members(payload)?, "type", "the topic")?;
    Ok((id.to_owned(), topic, payload.to_owned()))
}

fn signed_parts<'a>(id: &'a str, time: &'a str, body: &'a [u8]) -> [&'a [u8]; 5] {
    [id.as_bytes(), b".", time.as_bytes(), b".", body]
}

/// An id must not contain a full stop: otherwise one signature would fit several combinations of id, time and body.
fn is_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'.')
}

/// Signs webhooks as [Standard Webhooks](https://www.standardwebhooks.com) specifies, once with each secret. While a
/// secret is being replaced, receivers that have either of the two accept the signature.
///
/// ```
/// use postroom::webhooks::{WebhookSecret, WebhookSigner};
///
/// let secret = WebhookSecret::parse(&WebhookSecret::generate())?;
/// let signer = WebhookSigner::new([secret])?;
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WebhookSigner {
    keys: Keys,
}

impl WebhookSigner {
    /// Creates a signer that signs with each of these secrets. A secret is `whsec_` followed by base64 of at least 24
    /// bytes.
    pub fn new(secrets: impl IntoIterator<Item = WebhookSecret>) -> Result<Self> {
        let keys = Keys::decoded(secrets)?;
        let shortest = keys.shortest();
        if shortest < KEY_BYTES_MIN {
            let needed = format!("signing webhooks needs at least {KEY_BYTES_MIN}");
            return Err(Error::invalid(format!("the secret has {shortest} bytes; {needed}")));
        }
        Ok(Self { keys })
    }

    /// Returns the headers for this body, sent at this time. The id stays the same when it is sent again, the time
    /// does not.
    #[doc(hidden)]
    pub fn sign(&self, id: &str, at: Timestamp, body: &[u8]) -> Result<[(HeaderName, HeaderValue); 3]> {
        if !is_id(id) {
            return Err(Error::invalid("the id of a webhook must be visible ASCII without full stops"));
        }
        let time = at.as_micros().div_euclid(1_000_000).to_string();
        let signatures = self.keys.sign(&signed_parts(id, &time, body));
        let listed: Vec<_> = signatures.iter().map(|made| format!("{VERSION},{}", STANDARD.encode(made))).collect();
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_| Error::invalid("not a valid header value"));
        Ok([(ID, value(id)?), (TIMESTAMP, value(&time)?), (SIGNATURE, value(&listed.join(" "))?)])
    }
}

#[cfg(test)]
mod tests;

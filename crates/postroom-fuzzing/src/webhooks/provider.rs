//! The providers' side of it, written once more: how they sign.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::Mac;
use http::HeaderMap;

use postroom_core::support::clock::Timestamp;
use postroom_services::foreign::{WebhookScheme, WebhookSecret, WebhookSigner};
use postroom_services::wire::algorithm::mac;
use postroom_services::wire::signature::hex;

/// For Standard Webhooks base64, for the others a text.
const CODED: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Provider {
    StandardWebhooks,
    Stripe,
    GitHub,
}

pub(super) const PROVIDERS: [Provider; 3] = [Provider::StandardWebhooks, Provider::Stripe, Provider::GitHub];

impl Provider {
    pub(super) fn scheme(self) -> WebhookScheme {
        let scheme = match self {
            Self::StandardWebhooks => WebhookScheme::standard_webhooks([secret()]),
            Self::Stripe => WebhookScheme::stripe([secret()]),
            Self::GitHub => WebhookScheme::github([secret()]),
        };
        scheme.expect("a good secret")
    }

    /// Whether it signs when it did so.
    pub(super) fn is_timed(self) -> bool {
        self != Self::GitHub
    }

    /// The headers of a request; none for an id that this provider would not use.
    pub(super) fn sign(self, id: &str, at: Timestamp, body: &[u8]) -> Option<HeaderMap> {
        let seconds = at.as_micros() / 1_000_000;
        let (name, value) = match self {
            Self::StandardWebhooks => {
                let signer = WebhookSigner::new([secret()]).expect("a good secret");
                return signer.sign(id, at, body).ok().map(HeaderMap::from_iter);
            }
            Self::Stripe => {
                let digits = hex(&hmac(CODED.as_bytes(), &[seconds.to_string().as_bytes(), b".", body]));
                ("stripe-signature", format!("t={seconds},v1={digits}"))
            }
            Self::GitHub => ("x-hub-signature-256", format!("sha256={}", hex(&hmac(CODED.as_bytes(), &[body])))),
        };
        let value = value.parse().expect("a header's value");
        Some(HeaderMap::from_iter([(http::HeaderName::from_static(name), value)]))
    }

    /// Whether the signature of this very request stands in its headers.
    pub(super) fn is_signed(self, headers: &HeaderMap, body: &[u8]) -> bool {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match self {
            Self::StandardWebhooks => {
                let key = STANDARD.decode(CODED).expect("it is base64");
                let signed = format!("{}.{}.", header("webhook-id"), header("webhook-timestamp"));
                let expected = format!("v1,{}", STANDARD.encode(hmac(&key, &[signed.as_bytes(), body])));
                // With a full stop in the id, other values would be signed by it too.
                let is_id = !header("webhook-id").contains('.');
                is_id && header("webhook-signature").split(' ').any(|listed| listed == expected)
            }
            Self::Stripe => {
                let mut listed = header("stripe-signature").split(',').map(str::trim);
                let time = listed.clone().find_map(|item| item.strip_prefix("t=")).unwrap_or_default();
                let expected = format!("v1={}", hex(&hmac(CODED.as_bytes(), &[time.as_bytes(), b".", body])));
                listed.any(|item| item == expected)
            }
            Self::GitHub => {
                header("x-hub-signature-256") == format!("sha256={}", hex(&hmac(CODED.as_bytes(), &[body])))
            }
        }
    }
}

fn secret() -> WebhookSecret {
    WebhookSecret::parse(CODED).expect("a good secret")
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mac = parts.iter().fold(mac(key), |mac, part| mac.chain_update(part));
    mac.finalize().into_bytes().into()
}

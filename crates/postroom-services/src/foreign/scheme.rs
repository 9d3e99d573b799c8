//! Webhooks of well-known providers: whether a request is one, and what it says.

use std::fmt;
use std::time::Duration;

use http::HeaderMap;

use crate::foreign::secret::Keys;
use crate::foreign::{RefusalReason, Refused, WebhookSecret, github, standard_webhooks, stripe};
use postroom_core::support::clock::Timestamp;
use postroom_core::support::error::Result;

/// How far a signature's time may lie from ours, in both directions.
const TOLERANCE: Duration = Duration::from_secs(300);

/// How a provider signs its webhooks, and the secrets that count now.
///
/// While a secret is being replaced, give both: what was signed with one of them is taken.
///
/// ```
/// use postroom::{WebhookScheme, WebhookSecret};
///
/// let (old, new) = (WebhookSecret::parse("whsec_old")?, WebhookSecret::parse("whsec_new")?);
/// let stripe = WebhookScheme::stripe([old, new])?;
/// let github = WebhookScheme::github([WebhookSecret::parse("It's a Secret to Everybody")?])?;
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WebhookScheme {
    provider: Provider,
    keys: Keys,
}

#[derive(Clone, Copy, Debug)]
enum Provider {
    StandardWebhooks,
    Stripe,
    GitHub,
}

impl WebhookScheme {
    /// [Standard Webhooks](https://www.standardwebhooks.com), with secrets like `whsec_…`. The message's id is
    /// `webhook-id`, its topic the body's `type`; both are signed. What was signed more than five minutes ago is
    /// refused.
    pub fn standard_webhooks(secrets: impl IntoIterator<Item = WebhookSecret>) -> Result<Self> {
        Ok(Self { provider: Provider::StandardWebhooks, keys: Keys::decoded(secrets)? })
    }

    /// Stripe, and whoever signs as it does. The message's id is the body's `id`, its topic the body's `type`; both are
    /// signed. What was signed more than five minutes ago is refused.
    pub fn stripe(secrets: impl IntoIterator<Item = WebhookSecret>) -> Result<Self> {
        Ok(Self { provider: Provider::Stripe, keys: Keys::literal(secrets)? })
    }

    /// GitHub, and whoever signs as it does. The message's id is `X-GitHub-Delivery`, its topic `X-GitHub-Event`: one
    /// handler for all actions of an event, as one chooses events there.
    ///
    /// GitHub signs the body alone, and no time: somebody who once saw a delivery can send its body again as another
    /// delivery or event. Receive these by TLS, and let handlers stand a repetition.
    pub fn github(secrets: impl IntoIterator<Item = WebhookSecret>) -> Result<Self> {
        Ok(Self { provider: Provider::GitHub, keys: Keys::literal(secrets)? })
    }

    /// Whether an event in the body is signed with its id and time.
    pub(crate) fn signs_events(&self) -> bool {
        matches!(self.provider, Provider::StandardWebhooks)
    }

    /// Its name in log lines and metrics.
    pub fn name(&self) -> &'static str {
        match self.provider {
            Provider::StandardWebhooks => "standard-webhooks",
            Provider::Stripe => "stripe",
            Provider::GitHub => "github",
        }
    }

    /// Whether the provider signed this request, and not too long ago.
    #[doc(hidden)]
    pub fn verify<'a>(&self, headers: &'a HeaderMap, body: &'a [u8], now: Timestamp) -> Result<Verified<'a>, Refused> {
        let signed_at = match self.provider {
            Provider::StandardWebhooks => Some(standard_webhooks::verify(&self.keys, headers, body)?),
            Provider::Stripe => Some(stripe::verify(&self.keys, headers, body)?),
            Provider::GitHub => github::verify(&self.keys, headers, body).map(|()| None)?,
        };
        // After the signature, so that "too old" is said of the provider's own words only.
        if let Some(signed_at) = signed_at {
            check_time(signed_at, now)?;
        }
        Ok(Verified { provider: self.provider, headers, body, signed_at })
    }
}

fn check_time(signed_at: Timestamp, now: Timestamp) -> Result<(), RefusalReason> {
    if now.since(signed_at) > TOLERANCE {
        return Err(RefusalReason::TooOld);
    }
    if signed_at.since(now) > TOLERANCE {
        return Err(RefusalReason::TooNew);
    }
    Ok(())
}

/// The time that a number of seconds since 1970 stands for: digits alone.
pub(super) fn seconds(text: &str) -> Option<Timestamp> {
    let seconds: i64 = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())??;
    seconds.checked_mul(1_000_000).map(Timestamp::from_micros)
}

/// A request that its provider signed.
pub struct Verified<'a> {
    provider: Provider,
    headers: &'a HeaderMap,
    body: &'a [u8],
    signed_at: Option<Timestamp>,
}

impl Verified<'_> {
    /// What it says; an error names what is missing.
    #[doc(hidden)]
    pub fn message(&self) -> Result<WebhookMessage> {
        let (id, topic, payload) = match self.provider {
            Provider::StandardWebhooks => standard_webhooks::read(self.headers, self.body)?,
            Provider::Stripe => stripe::read(self.body)?,
            Provider::GitHub => github::read(self.headers, self.body)?,
        };
        Ok(WebhookMessage { id, topic, payload, enqueued_at: self.signed_at })
    }
}

/// What a webhook says.
pub struct WebhookMessage {
    /// The provider's id for it: the same when it is sent again.
    #[doc(hidden)]
    pub id: String,
    /// What it is about.
    #[doc(hidden)]
    pub topic: String,
    /// The body, byte for byte.
    #[doc(hidden)]
    pub payload: String,
    /// When it was signed; GitHub does not say so.
    pub(crate) enqueued_at: Option<Timestamp>,
}

impl fmt::Debug for Verified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verified")
            .field("provider", &self.provider)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

// Payloads are the user's secrets: they are never printed.
impl fmt::Debug for WebhookMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookMessage")
            .field("id", &self.id)
            .field("topic", &self.topic)
            .field("enqueued_at", &self.enqueued_at)
            .field("payload_bytes", &self.payload.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_digits_alone() {
        assert_eq!(seconds("1614265330"), Some(Timestamp::from_micros(1_614_265_330_000_000)));
        for bad in ["", "+5", "-5", " 5", "5.0", "0x5", "\u{665}", "9223372036854775807", "99999999999999999999"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}

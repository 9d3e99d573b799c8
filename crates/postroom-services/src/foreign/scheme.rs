//! Webhooks of well-known providers: verifies requests and reads their messages.

use std::fmt;
use std::time::Duration;

use http::HeaderMap;

use crate::foreign::secret::Keys;
use crate::foreign::{RefusalReason, Refused, WebhookSecret, github, standard_webhooks, stripe};
use postroom_core::support::clock::Timestamp;
use postroom_core::support::error::Result;

/// The time of a signature may differ from our clock by this much, in both directions.
const TOLERANCE: Duration = Duration::from_secs(300);

/// How a provider signs its webhooks, and the secrets that are valid now.
///
/// While a secret is being replaced, give both: a signature with either of them is accepted.
///
/// ```
/// use postroom::webhooks::{WebhookScheme, WebhookSecret};
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
    /// Creates a scheme for [Standard Webhooks](https://www.standardwebhooks.com), with secrets like `whsec_…`. The
    /// message's id is `webhook-id`, and its topic is the body's `type`; both are signed. A signature older than five
    /// minutes is refused.
    pub fn standard_webhooks(secrets: impl IntoIterator<Item = WebhookSecret>) -> Result<Self> {
        Ok(Self { provider: Provider::StandardWebhooks, keys: Keys::decoded(secrets)? })
    }

    /// Creates a scheme for Stripe, and for services that sign in the same way. The message's id is the body's `id`,
    /// and its topic is the body's `type`; both are signed. A signature older than five minutes is refused.
    pub fn stripe(secrets: impl IntoIterator<Item = WebhookSecret>) -> Result<Self> {
        Ok(Self { provider: Provider::Stripe, keys: Keys::literal(secrets)? })
    }

    /// Creates a scheme for GitHub, and for services that sign in the same way. The message's id is
    /// `X-GitHub-Delivery`, and its topic is `X-GitHub-Event`. One handler gets all actions of an event, just as you
    /// subscribe to whole events at GitHub.
    ///
    /// GitHub signs only the body, without a time. Somebody who once saw a delivery can send its body again as
    /// another delivery or event. Receive these webhooks over TLS, and make sure that handlers tolerate a repetition.
    pub fn github(secrets: impl IntoIterator<Item = WebhookSecret>) -> Result<Self> {
        Ok(Self { provider: Provider::GitHub, keys: Keys::literal(secrets)? })
    }

    /// Returns whether the signature of an event in the body covers its id and time.
    pub(crate) fn signs_events(&self) -> bool {
        matches!(self.provider, Provider::StandardWebhooks)
    }

    /// Returns its name in logs and metrics.
    pub fn name(&self) -> &'static str {
        match self.provider {
            Provider::StandardWebhooks => "standard-webhooks",
            Provider::Stripe => "stripe",
            Provider::GitHub => "github",
        }
    }

    /// Checks that the provider signed this request, and that the signature is not too old.
    #[doc(hidden)]
    pub fn verify<'a>(&self, headers: &'a HeaderMap, body: &'a [u8], now: Timestamp) -> Result<Verified<'a>, Refused> {
        let signed_at = match self.provider {
            Provider::StandardWebhooks => Some(standard_webhooks::verify(&self.keys, headers, body)?),
            Provider::Stripe => Some(stripe::verify(&self.keys, headers, body)?),
            Provider::GitHub => github::verify(&self.keys, headers, body).map(|()| None)?,
        };
        // The time is checked after the signature, so that only a genuine request is called too old.
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

/// Parses a time given as seconds since 1970, in digits only.
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
    /// Reads the message. An error names what is missing.
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

/// The message in a webhook.
pub struct WebhookMessage {
    /// The provider's id of the message, which stays the same when it is sent again.
    #[doc(hidden)]
    pub id: String,
    /// The topic of the message.
    #[doc(hidden)]
    pub topic: String,
    /// The body, byte for byte.
    #[doc(hidden)]
    pub payload: String,
    /// When it was signed. GitHub does not sign a time.
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

// Payloads are the user's secrets, so they are never printed.
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

//! Webhooks of the providers that we know.

mod provider;

use std::time::Duration;

use http::HeaderMap;

use super::input::Change;
use postroom_core::support::clock::Timestamp;
use provider::PROVIDERS;

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
const TOO_LATE: Duration = Duration::from_secs(301);

/// What is accepted holds the one signature that it must hold.
pub(super) fn take_nothing_unsigned(headers: &HeaderMap, body: &[u8]) {
    for provider in PROVIDERS {
        let scheme = provider.scheme();
        let Ok(verified) = scheme.verify(headers, body, NOW) else { continue };
        assert!(provider.is_signed(headers, body), "{}", scheme.name());
        if let Ok(message) = verified.message() {
            assert_eq!(message.payload.as_bytes(), body, "{}", scheme.name());
            assert!(!message.id.is_empty() && !message.topic.is_empty(), "{}", scheme.name());
        }
    }
}

/// What the provider signs is accepted, in its time and as it was. The header `change` says what else it becomes.
pub(super) fn take_what_is_signed(headers: &HeaderMap, body: &[u8]) {
    let header = |name: &str| headers.get(name).map(|value| value.as_bytes()).unwrap_or_default();
    let (change, id) = (Change::of(header("change")), String::from_utf8_lossy(header("webhook-id")));
    for provider in PROVIDERS {
        let scheme = provider.scheme();
        let Some(signed) = provider.sign(&id, NOW, body) else { continue };
        assert!(provider.is_signed(&signed, body), "{}", scheme.name());
        let takes = |body: &[u8], now| scheme.verify(&signed, body, now).is_ok();
        assert!(takes(body, NOW), "{}", scheme.name());
        let changed = change.edit_bytes(body);
        assert_eq!(takes(&changed, NOW), changed == body, "{}", scheme.name());
        for time in [NOW.minus(TOO_LATE), NOW.plus(TOO_LATE)] {
            assert_eq!(takes(body, time), !provider.is_timed(), "{}", scheme.name());
        }
    }
}

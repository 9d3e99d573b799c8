//! Peers that do not speak our own wire: CloudEvents, and the signatures of well-known webhooks. Nothing here does
//! I/O.

mod cloud_events;
mod github;
mod json;
mod refused;
mod scheme;
mod secret;
mod standard_webhooks;
mod stripe;
#[cfg(test)]
mod tests;

pub use cloud_events::CloudEvent;
pub use cloud_events::CloudEventsMode;
pub(crate) use refused::{RefusalReason, Refused};
pub use scheme::WebhookScheme;
pub use secret::WebhookSecret;
pub use standard_webhooks::WebhookSigner;

use http::HeaderMap;

use postroom_core::support::error::{Error, Result};

/// Returns the body as text. Payloads are text, so other bytes are refused.
fn text(body: &[u8]) -> Result<&str> {
    std::str::from_utf8(body).map_err(|error| {
        let at = error.valid_up_to();
        Error::invalid(format!("the body is not UTF-8 from byte {at} on; only text is accepted"))
    })
}

/// Returns the value of a header that must be present exactly once, as plain text.
fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, RefusalReason> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Err(RefusalReason::MissingHeader),
        (Some(value), None) => value.to_str().map_err(|_| RefusalReason::MalformedHeader),
        // The sender and we might disagree on which of the two counts.
        (Some(_), Some(_)) => Err(RefusalReason::MalformedHeader),
    }
}

/// Returns the value of a header that may be missing.
fn optional_header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>> {
    match header(headers, name) {
        Ok(value) => Ok(Some(value)),
        Err(RefusalReason::MissingHeader) => Ok(None),
        Err(_) => Err(Error::invalid(format!("the header {name} appears twice or is not plain text"))),
    }
}

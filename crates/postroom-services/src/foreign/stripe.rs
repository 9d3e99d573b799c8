//! Stripe: HMAC-SHA256 of time and body, in one header: `Stripe-Signature: t=1492774577,v1=5257a8…,v1=…`.

use http::HeaderMap;

use crate::foreign::secret::Keys;
use crate::foreign::{RefusalReason, header, json, scheme, text};
use crate::wire::signature::parse_hex;
use postroom_core::support::clock::Timestamp;
use postroom_core::support::error::Result;

const SIGNATURE: &str = "stripe-signature";

pub(super) fn verify(keys: &Keys, headers: &HeaderMap, body: &[u8]) -> Result<Timestamp, RefusalReason> {
    let (mut time, mut signatures) = (None, Vec::new());
    for item in header(headers, SIGNATURE)?.split(',') {
        match item.trim().split_once('=').ok_or(RefusalReason::MalformedHeader)? {
            ("t", text) if time.is_none() => time = Some(text),
            ("t", _) => return Err(RefusalReason::MalformedHeader),
            // An unreadable signature counts like one made with another secret.
            ("v1", digits) => signatures.extend(parse_hex(digits)),
            _ => {}
        }
    }
    let time = time.ok_or(RefusalReason::MalformedHeader)?;
    let signed_at = scheme::seconds(time).ok_or(RefusalReason::MalformedHeader)?;
    if !keys.accept(&[time.as_bytes(), b".", body], &signatures) {
        return Err(RefusalReason::WrongSignature);
    }
    Ok(signed_at)
}

/// Returns the id, topic and payload.
pub(super) fn read(body: &[u8]) -> Result<(String, String, String)> {
    let payload = text(body)?;
    let members = json::members(payload)?;
    let (id, topic) = (json::required(&members, "id", "the id")?, json::required(&members, "type", "the topic")?);
    Ok((id, topic, payload.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::WebhookScheme;
    use crate::foreign::tests::{headers, secret};

    // The secrets and the header are from Stripe's own tests; the digits were computed with Python.
    const BODY: &[u8] = br#"{"id":"evt_test_webhook","object":"event","type":"invoiceitem.created"}"#;
    const AT: Timestamp = Timestamp::from_micros(1_533_204_620_000_000);
    const GOOD: &str = "87ee41a204db9948dd8a01f2fb5c986275c866865d8907396048917993e9a18c";
    const ROLLED: &str = "244a5796036a43b0a0f43725e882d60dc56ade4f10c6def0912a3c9d17b45b1c";

    fn is_taken(text: &str, signature: &str) -> bool {
        let scheme = WebhookScheme::stripe([secret(text)]).unwrap();
        scheme.verify(&headers([("Stripe-Signature", signature)]), BODY, AT).is_ok()
    }

    #[test]
    fn what_stripe_sends_is_taken() {
        assert!(is_taken("whsec_test_secret", &format!("t=1533204620,v1={GOOD}")));
        assert!(is_taken("whsec_test_secret", &format!("t=1533204620,v1={GOOD},v0={ROLLED}")));
        assert!(is_taken("whsec_test_secret", &format!("t=1533204620, v1=bad_signature, v1={GOOD}")));
    }

    #[test]
    fn while_a_secret_is_rolled_both_are_good() {
        let signature = format!("t=1533204620,v1={GOOD},v1={ROLLED}");
        assert!(is_taken("whsec_test_secret", &signature));
        assert!(is_taken("whsec_test_secret_rolled_key", &signature));
        assert!(!is_taken("whsec_another", &signature));
    }

    #[test]
    fn what_is_not_signed_is_refused() {
        for bad in [
            "".to_owned(),
            "t=".to_owned(),
            "v1,t=1".to_owned(),
            format!("v1={GOOD}"),
            "t=1533204620".to_owned(),
            "t=1533204620,v1=".to_owned(),
            format!("t=1533204620,v0={GOOD}"),
            format!("t=1533204620,v1={ROLLED}"),
            format!("t=1533204621,v1={GOOD}"),
            format!("t=01533204620,v1={GOOD}"),
            format!("t=1533204620,t=1533204620,v1={GOOD}"),
            format!("t=1533204620,v1={}", GOOD.to_uppercase()),
            format!("t=1533204620,v1={GOOD},"),
        ] {
            assert!(!is_taken("whsec_test_secret", &bad), "{bad}");
        }
    }

    #[test]
    fn id_and_topic_are_in_the_body() {
        let (id, topic, payload) = read(BODY).unwrap();
        assert_eq!((id.as_str(), topic.as_str()), ("evt_test_webhook", "invoiceitem.created"));
        assert_eq!(payload.as_bytes(), BODY);
        for (body, named) in [(r#"{"type":"a"}"#, "\"id\""), (r#"{"id":"a"}"#, "\"type\"")] {
            let error = read(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}

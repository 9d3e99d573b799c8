//! GitHub: HMAC-SHA256 of the body, in one header: `X-Hub-Signature-256: sha256=757107…`.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use crate::foreign::secret::Keys;
use crate::foreign::{RefusalReason, header, optional_header, text};
use crate::wire::signature::parse_hex;
use postroom_core::support::error::{Error, Result};

const SIGNATURE: &str = "x-hub-signature-256";
const FORM: &str = "application/x-www-form-urlencoded";

pub(super) fn verify(keys: &Keys, headers: &HeaderMap, body: &[u8]) -> Result<(), RefusalReason> {
    let digits = header(headers, SIGNATURE)?.strip_prefix("sha256=").ok_or(RefusalReason::MalformedHeader)?;
    let signature = parse_hex(digits).ok_or(RefusalReason::MalformedHeader)?;
    if !keys.accept(&[body], &[signature]) {
        return Err(RefusalReason::WrongSignature);
    }
    Ok(())
}

/// Returns the id, topic and payload. The body's `action` is not part of the topic: if GitHub added an action to an
/// event, that would be a topic without a handler.
pub(super) fn read(headers: &HeaderMap, body: &[u8]) -> Result<(String, String, String)> {
    let sent_as = headers.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    if sent_as.get(..FORM.len()).is_some_and(|start| start.eq_ignore_ascii_case(FORM.as_bytes())) {
        return Err(Error::invalid(format!(
            "the webhook is sent as {FORM}; choose application/json in its settings on GitHub"
        )));
    }
    let (id, topic) = (named(headers, "X-GitHub-Delivery", "id")?, named(headers, "X-GitHub-Event", "topic")?);
    Ok((id, topic, text(body)?.to_owned()))
}

fn named(headers: &HeaderMap, name: &str, meaning: &str) -> Result<String> {
    let value = optional_header(headers, name)?.filter(|value| !value.is_empty()).map(str::to_owned);
    value.ok_or_else(|| Error::invalid(format!("the header {name}, which is the {meaning}, is missing")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::WebhookScheme;
    use crate::foreign::tests::{headers, secret};
    use postroom_core::support::clock::Timestamp;

    // This is the example from GitHub's documentation.
    const SECRET: &str = "It's a Secret to Everybody";
    const BODY: &[u8] = b"Hello, World!";
    const DIGITS: &str = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    fn is_taken(headers: &HeaderMap) -> bool {
        let scheme = WebhookScheme::github([secret(SECRET)]).unwrap();
        scheme.verify(headers, BODY, Timestamp::from_micros(0)).is_ok()
    }

    #[test]
    fn the_published_example_is_taken() {
        let mut headers = headers([("X-Hub-Signature-256", &format!("sha256={DIGITS}"))]);
        assert!(is_taken(&headers));
        headers.append("X-Hub-Signature-256", format!("sha256={DIGITS}").parse().unwrap());
        assert!(!is_taken(&headers));
    }

    #[test]
    fn what_is_not_signed_is_refused() {
        assert!(!is_taken(&HeaderMap::new()));
        for bad in ["", "sha256=", DIGITS, &format!("sha1={DIGITS}"), &format!("sha256={}", DIGITS.to_uppercase())] {
            assert!(!is_taken(&headers([("X-Hub-Signature-256", bad)])), "{bad}");
        }
        // GitHub still sends its older signature, but it is ignored.
        assert!(!is_taken(&headers([("X-Hub-Signature", &format!("sha256={DIGITS}"))])));
    }

    #[test]
    fn id_and_topic_are_headers_and_the_body_may_be_anything() {
        let (delivery, event) = (("X-GitHub-Delivery", "72d3162e-cc78-11e3"), ("X-GitHub-Event", "issues"));
        let (id, topic, payload) = read(&headers([delivery, event]), br#"{"action":"opened"}"#).unwrap();
        assert_eq!((id.as_str(), topic.as_str()), ("72d3162e-cc78-11e3", "issues"));
        assert_eq!(payload, r#"{"action":"opened"}"#);
        for (given, missing) in [(delivery, "X-GitHub-Event"), (event, "X-GitHub-Delivery")] {
            let error = read(&headers([given]), b"{}").unwrap_err().to_string();
            assert!(error.contains(missing), "{error}");
        }
        let twice = read(&headers([delivery, event, event]), b"{}").unwrap_err().to_string();
        assert!(twice.contains("X-GitHub-Event appears twice"), "{twice}");
    }

    #[test]
    fn a_form_is_refused_with_the_way_out() {
        let form = headers([("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")]);
        let error = read(&form, b"payload=%7B%7D").unwrap_err().to_string();
        assert!(error.contains("choose application/json"), "{error}");
    }
}

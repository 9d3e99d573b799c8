//! The signed head of a request and the receipt of an answer, as transport headers: they are the same for HTTP and
//! gRPC.

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::wire::grammar;
use crate::wire::signature::{Head, Signature, hex, parse_hex};
use postroom_core::support::clock::Timestamp;
use postroom_core::support::error::{Error, Result};

pub const VERSION: &str = "rf-version";
pub const SOURCE: &str = "rf-source";
pub const DESTINATION: &str = "rf-destination";
pub const MESSAGE_ID: &str = "rf-message-id";
pub const ENQUEUED_AT: &str = "rf-enqueued-at";
pub const DUE_AT: &str = "rf-due-at";
pub const ATTEMPT: &str = "rf-attempt";
pub const TIMESTAMP: &str = "rf-timestamp";
pub const DIGEST: &str = "rf-content-sha256";
pub(crate) const SIGNATURE: &str = "rf-signature";
pub(crate) const RECEIPT: &str = "rf-ack";
/// The receiver recognises duplicates for this many seconds.
pub(crate) const RETENTION: &str = "rf-inbox-retention";

/// Writes the signed fields, and the signatures.
pub fn write(head: &Head, signatures: &str, headers: &mut HeaderMap) -> Result<()> {
    let times = [(ENQUEUED_AT, Some(head.enqueued_at)), (DUE_AT, head.due_at), (TIMESTAMP, Some(head.timestamp))];
    for (name, time) in times {
        if let Some(time) = time {
            set(headers, name, &time.as_micros().to_string())?;
        }
    }
    set(headers, VERSION, "2")?;
    set(headers, SOURCE, &head.source)?;
    set(headers, DESTINATION, &head.destination)?;
    set(headers, MESSAGE_ID, &head.message_id)?;
    set(headers, ATTEMPT, &head.attempt.to_string())?;
    set(headers, DIGEST, &hex(&head.digest))?;
    set(headers, SIGNATURE, signatures)
}

/// Returns the response headers that a receipt covers, or `None` if none of them is present.
pub(crate) fn beside(headers: &HeaderMap) -> Option<[String; 2]> {
    let value = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default().to_owned());
    let found = [value(RETRY_AFTER.as_str()), value(RETENTION)];
    found.iter().any(Option::is_some).then(|| found.map(Option::unwrap_or_default))
}

pub fn set(headers: &mut HeaderMap, name: &'static str, value: &str) -> Result<()> {
    let value = HeaderValue::from_str(value)
        .map_err(|_| Error::invalid(format!("the value for the header {name} is not valid")))?;
    headers.insert(HeaderName::from_static(name), value);
    Ok(())
}

/// Returns whether a request claims to have a v2 signature.
pub(crate) fn is_v2(headers: &HeaderMap) -> bool {
    headers.contains_key(SIGNATURE)
}

/// Reads the signed fields of a request. It checks the grammar of every name, and that each header appears once.
pub fn read(headers: &HeaderMap, method: &str, path: &str) -> Result<(Head, Vec<Signature>)> {
    let head = Head {
        source: text(headers, SOURCE)?.to_owned(),
        destination: text(headers, DESTINATION)?.to_owned(),
        method: method.to_owned(),
        path: path.to_owned(),
        message_id: text(headers, MESSAGE_ID)?.to_owned(),
        enqueued_at: time(headers, ENQUEUED_AT)?,
        due_at: if headers.contains_key(DUE_AT) { Some(time(headers, DUE_AT)?) } else { None },
        attempt: number(headers, ATTEMPT)?,
        timestamp: time(headers, TIMESTAMP)?,
        content_type: text(headers, "content-type")?.to_owned(),
        digest: parse_hex(text(headers, DIGEST)?).ok_or_else(|| malformed(DIGEST))?,
    };
    if text(headers, VERSION)? != "2" {
        return Err(malformed(VERSION));
    }
    grammar::service(SOURCE, &head.source)?;
    grammar::service(DESTINATION, &head.destination)?;
    grammar::message_id(&head.message_id)?;
    Ok((head, Signature::parse_list(text(headers, SIGNATURE)?)))
}

/// Returns the only value of a header.
fn text<'h>(headers: &'h HeaderMap, name: &'static str) -> Result<&'h str> {
    let mut values = headers.get_all(name).iter();
    match (values.next().map(HeaderValue::to_str), values.next()) {
        (Some(Ok(text)), None) => Ok(text),
        _ => Err(malformed(name)),
    }
}

/// Parses a number in its canonical form. A sign, whitespace or leading zeros would be another text with the same
/// meaning.
fn number<T: std::str::FromStr + ToString>(headers: &HeaderMap, name: &'static str) -> Result<T> {
    let text = text(headers, name)?;
    let number = text.parse::<T>().ok().filter(|number| number.to_string() == text);
    number.ok_or_else(|| malformed(name))
}

fn time(headers: &HeaderMap, name: &'static str) -> Result<Timestamp> {
    number(headers, name).map(Timestamp::from_micros)
}

fn malformed(name: &str) -> Error {
    Error::invalid(format!("the header {name} is missing or not valid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_covers_what_stands_beside_the_answer_and_that_nothing_does() {
        let mut headers = HeaderMap::new();
        assert_eq!(beside(&headers), None);
        set(&mut headers, RETENTION, "2505600").unwrap();
        assert_eq!(beside(&headers), Some([String::new(), "2505600".to_owned()]));
        set(&mut headers, RETRY_AFTER.as_str(), "1").unwrap();
        assert_eq!(beside(&headers), Some(["1".to_owned(), "2505600".to_owned()]));
    }
}

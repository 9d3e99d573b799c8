//! A stored response: JSON in the row of its request.

use axum::body::Body;
use axum::response::Response;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderName, HeaderValue, SET_COOKIE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};
use http::response::Parts;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};

/// These headers concern one connection or one moment, or are a secret for the first client.
const NOT_KEPT: [HeaderName; 7] = [CONNECTION, CONTENT_LENGTH, DATE, SET_COOKIE, TRAILER, TRANSFER_ENCODING, UPGRADE];
const NOT_KEPT_EITHER: [&str; 4] = ["keep-alive", "proxy-authenticate", "proxy-connection", "te"];
const EVENT_STREAM: &[u8] = b"text/event-stream";
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

#[derive(Serialize, Deserialize)]
pub(super) struct Kept {
    status: u16,
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// These responses may change later. Some concern paths and methods that nobody serves, which anybody can request.
const FOR_NOW: [StatusCode; 6] = [
    StatusCode::NOT_FOUND,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::CONFLICT,
    StatusCode::TOO_EARLY,
    StatusCode::TOO_MANY_REQUESTS,
];

/// Returns whether the same response is right when the client asks again. Other responses mean: not now.
pub(super) fn is_final(status: StatusCode) -> bool {
    !status.is_server_error() && !FOR_NOW.contains(&status)
}

/// Returns whether the request was refused. What its handler wrote is then undone.
pub(super) fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error()
}

/// Returns whether a response may go on forever, or is only a preliminary one.
pub(super) fn is_endless(response: &Parts) -> bool {
    let kind = response.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_stream = kind.get(..EVENT_STREAM.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(EVENT_STREAM));
    response.status.is_informational() || is_stream
}

impl Kept {
    /// Encodes the response as JSON.
    pub(super) fn encode(response: &Parts, body: &Bytes) -> Result<String, serde_json::Error> {
        let headers = response.headers.iter().filter(|(name, _)| is_kept(name));
        let headers = headers.map(|(name, value)| (name.as_str().to_owned(), latin_1(value))).collect();
        let text = std::str::from_utf8(body).ok().map(str::to_owned);
        let base64 = text.is_none().then(|| BASE64_STANDARD.encode(body));
        serde_json::to_string(&Self { status: response.status.as_u16(), headers, text, base64 })
    }

    /// Decodes the response, or returns `None` if the text is not a stored response.
    pub(super) fn replay(json: &str) -> Option<Response> {
        let kept: Self = serde_json::from_str(json).ok()?;
        let body = match kept.base64 {
            Some(base64) => BASE64_STANDARD.decode(base64).ok()?,
            None => kept.text?.into_bytes(),
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(kept.status).ok()?;
        let headers: &mut HeaderMap = response.headers_mut();
        for (name, value) in kept.headers {
            headers.append(HeaderName::try_from(name).ok()?, from_latin_1(&value)?);
        }
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
        Some(response)
    }
}

fn is_kept(name: &HeaderName) -> bool {
    !NOT_KEPT.contains(name) && !NOT_KEPT_EITHER.contains(&name.as_str())
}

/// Converts each byte to the character with that number, because a header's value may contain any byte.
fn latin_1(value: &HeaderValue) -> String {
    value.as_bytes().iter().map(|byte| char::from(*byte)).collect()
}

fn from_latin_1(text: &str) -> Option<HeaderValue> {
    let bytes: Option<Vec<u8>> = text.chars().map(|character| u8::try_from(character).ok()).collect();
    HeaderValue::from_bytes(&bytes?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_as_it_was() {
        for body in [&b"{\"id\":7}"[..], b"", b"nul \0 inside", b"\xff\xfe"] {
            let response = http::Response::builder().status(201).header("location", "/orders/7");
            let response = response.header("x-note", "one").header("x-note", "two").header("x-name", &b"\xe9t\xe9"[..]);
            let (parts, ()) = response.body(()).unwrap().into_parts();
            let json = Kept::encode(&parts, &Bytes::from(body)).unwrap();
            assert!(!json.contains('\0'));
            let replayed = Kept::replay(&json).unwrap();
            let mut headers = parts.headers.clone();
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
            assert_eq!((replayed.status(), replayed.headers()), (parts.status, &headers));
        }
    }

    #[test]
    fn cookies_and_what_is_said_of_a_connection_are_not_kept() {
        let response = http::Response::builder().header("set-cookie", "session=1").header("connection", "close");
        let (parts, ()) = response.header("Keep-Alive", "timeout=5").body(()).unwrap().into_parts();
        let replayed = Kept::replay(&Kept::encode(&parts, &Bytes::new()).unwrap()).unwrap();
        assert_eq!(replayed.headers().len(), 1);
    }

    #[test]
    fn what_says_not_now_is_not_final() {
        for status in [200, 201, 204, 302, 400, 401, 403, 422] {
            assert!(is_final(StatusCode::from_u16(status).unwrap()), "{status}");
        }
        for status in [404, 405, 408, 409, 425, 429, 500, 502, 503] {
            assert!(!is_final(StatusCode::from_u16(status).unwrap()), "{status}");
        }
    }
}

//! How requests are identified.

use axum::extract::OriginalUri;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HOST};
use http::request::Parts;

use super::options::Scope;
use super::problem::IdempotencyProblem;
use postroom_core::message::digest_pieces;
use postroom_core::message::{ContentHash, InboxKey};
use postroom_core::support::error::Result;

const HEADER: &str = "idempotency-key";
const BYTES_MAX: usize = 255;

/// Returns the client's key: a string as in structured fields (`"8e03…"`), or the same without quotes.
pub(super) fn given(headers: &HeaderMap) -> Result<Option<String>, IdempotencyProblem> {
    let mut values = headers.get_all(HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    let key = text.and_then(|text| unquoted(text.trim()));
    let key = key.filter(|key| !key.is_empty() && key.len() <= BYTES_MAX && !key.ends_with(' '));
    key.map(Some).ok_or(IdempotencyProblem::MALFORMED_KEY)
}

fn unquoted(text: &str) -> Option<String> {
    let Some(quoted) = text.strip_prefix('"') else {
        return text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"').then(|| text.to_owned());
    };
    let mut key = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            // Parameters may follow, but none of them has a meaning here.
            '"' => return Some(key).filter(|_| matches!(characters.next(), None | Some(';'))),
            '\\' => key.push(characters.next().filter(|escaped| matches!(escaped, '"' | '\\'))?),
            plain @ ' '..='~' => key.push(plain),
            _ => return None,
        }
    }
}

/// Combines the key with the layer and the caller.
pub(super) fn scoped(name: &str, scope: Option<&Scope>, request: &Parts, key: String) -> Result<InboxKey> {
    let caller = match scope {
        Some(scope) => digest_pieces([b"scope".as_slice(), scope(request).as_bytes()]),
        None => {
            let said = request.headers.get_all(AUTHORIZATION).iter().map(|value| value.as_bytes());
            digest_pieces(std::iter::once(b"authorization".as_slice()).chain(said))
        }
    };
    InboxKey::new(format!("{name}/{}", BASE64_URL_SAFE_NO_PAD.encode(caller)), key)
}

/// Computes a hash of everything that must be the same when a key is used again.
pub(super) fn fingerprint(request: &Parts, body: &[u8]) -> ContentHash {
    // A nested router sees only the rest of the path.
    let uri = request.extensions.get::<OriginalUri>().map_or(&request.uri, |OriginalUri(uri)| uri);
    let target = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let host = request.headers.get(HOST).map_or(b"".as_slice(), |host| host.as_bytes());
    let authority = uri.authority().map_or(host, |authority| authority.as_str().as_bytes());
    let pieces = [request.method.as_str().as_bytes(), authority, target.as_bytes(), body];
    ContentHash::of("sha256-request", digest_pieces(pieces))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(values: &[&str]) -> Option<Option<String>> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HEADER, value.parse().unwrap());
        }
        given(&headers).ok()
    }

    #[test]
    fn a_key_is_a_string_with_or_without_quotes() {
        assert_eq!(key_of(&[]), Some(None));
        for (said, meant) in [
            (r#""8e03978e-40d5""#, "8e03978e-40d5"),
            ("8e03978e-40d5", "8e03978e-40d5"),
            (r#"  "a b" "#, "a b"),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            (r#""a";version=1"#, "a"),
        ] {
            assert_eq!(key_of(&[said]), Some(Some(meant.to_owned())), "{said}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let (long, longer) = ("k".repeat(255), "k".repeat(256));
        assert_eq!(key_of(&[&long]), Some(Some(long.clone())));
        for bad in ["", r#""""#, r#""open"#, r#""a"b"#, "a b", r#"a"b"#, r#""a\b""#, r#""a ""#, &longer, "\u{e9}"] {
            assert_eq!(key_of(&[bad]), None, "{bad}");
        }
        assert_eq!(key_of(&["a", "a"]), None, "which one is it?");
    }
}

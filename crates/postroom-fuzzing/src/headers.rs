//! The signed head of a request, in headers.

use http::HeaderMap;

use super::input::{Lines, request};
use postroom_services::wire::headers;
use postroom_services::wire::signature::Signature;

/// All that is signed, and has therefore one form only.
const SIGNED: [&str; 8] = [
    headers::VERSION,
    headers::SOURCE,
    headers::DESTINATION,
    headers::MESSAGE_ID,
    headers::ENQUEUED_AT,
    headers::DUE_AT,
    headers::ATTEMPT,
    headers::TIMESTAMP,
];
const NUMBERS: [&str; 4] = [headers::ENQUEUED_AT, headers::DUE_AT, headers::ATTEMPT, headers::TIMESTAMP];

/// What is read is written as it stood there, and read again as it was. First a line with a method and a path.
pub fn headers(bytes: &[u8]) {
    let mut lines = Lines(bytes);
    let first = lines.text();
    let (method, path) = first.split_once(' ').unwrap_or(("POST", &first));
    let (given, _) = request(lines.0);
    let Ok((head, signatures)) = headers::read(&given, method, path) else { return };
    numbers_have_one_form(&given);

    let mut written = HeaderMap::new();
    headers::write(&head, &listed(&signatures), &mut written).expect("what was read can be written");
    for name in SIGNED.into_iter().chain([headers::DIGEST]) {
        assert_eq!(written.get(name), given.get(name), "{name}");
    }
    headers::set(&mut written, "content-type", &head.content_type).expect("it was a header before");
    let read = headers::read(&written, method, path).expect("what was written can be read");
    assert_eq!(read, (head, signatures));
}

fn listed(signatures: &[Signature]) -> String {
    signatures.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn numbers_have_one_form(given: &HeaderMap) {
    for value in NUMBERS.iter().filter_map(|name| given.get(*name)) {
        let digits = value.as_bytes().strip_prefix(b"-").unwrap_or(value.as_bytes());
        assert!(digits.iter().all(u8::is_ascii_digit) && (value == "0" || !digits.starts_with(b"0")), "{value:?}");
    }
    let digest = given.get(headers::DIGEST).map(|digest| digest.as_bytes()).unwrap_or_default();
    assert!(digest.len() == 64 && digest.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
}

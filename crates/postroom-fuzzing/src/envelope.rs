//! Envelopes and answers.

use serde_json::value::RawValue;

use postroom_core::message::{ANSWER_TO, Headers, IN_REPLY_TO, Kind, RESERVED};
use postroom_services::receiver::incoming;
use postroom_services::wire::Answer;
use postroom_services::wire::envelope::{CONTENT_TYPE, Envelope, Reply, from_json, to_json};

/// What is read is written and read again as it was, and the payload keeps its bytes.
pub fn envelope(bytes: &[u8]) {
    if let Ok(envelope) = Envelope::parse(bytes) {
        names_follow_their_grammar(&envelope);
        payload_is_part_of(bytes, &envelope.payload);
        comes_back(&envelope);
        arrives(envelope);
    }
    if let Ok(answer) = serde_json::from_slice::<Answer>(bytes) {
        assert_eq!(answer_comes_back(&answer), answer);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        text_travels(text);
        text_is_answered(text);
    }
}

/// Said once more, and in another way than the library does.
fn names_follow_their_grammar(envelope: &Envelope) {
    let id = uuid::Uuid::try_parse(&envelope.message_id).expect("an id is a UUID");
    assert!(!id.is_nil() && id.hyphenated().to_string() == envelope.message_id, "{id}");
    let source = &envelope.source_service_id;
    assert!((1..=64).contains(&source.len()) && !source.starts_with(['.', '_', '-']), "{source:?}");
    assert!(source.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-')), "{source:?}");
    let endpoint = &envelope.endpoint;
    assert!((1..=255).contains(&endpoint.chars().count()), "{endpoint:?}");
    assert!(endpoint.split_whitespace().eq([endpoint.as_str()]), "{endpoint:?}");
    assert!(envelope.message_type != Kind::Event.as_str());
}

fn payload_is_part_of(bytes: &[u8], payload: &RawValue) {
    let payload = payload.get().as_bytes();
    assert!(bytes.windows(payload.len()).any(|part| part == payload));
}

fn comes_back(envelope: &Envelope) {
    let written = envelope.to_json().expect("what was read can be written");
    let read = Envelope::parse(&written).expect("what was written can be read");
    let fields = |envelope: &Envelope| {
        let Envelope { message_id, correlation_id, source_service_id, message_type, endpoint, payload, headers } =
            envelope.clone();
        let payload = payload.get().to_owned();
        (message_id, correlation_id, source_service_id, message_type, endpoint, payload, headers)
    };
    assert_eq!(fields(&read), fields(envelope));
    assert_eq!(read.to_json().expect("and written again"), written);
}

/// A receiver takes nothing over that only the wire itself may say.
fn arrives(envelope: Envelope) {
    let (source, payload) = (envelope.source_service_id.clone(), envelope.payload_text());
    let Ok(incoming) = incoming(&source, envelope) else { return };
    assert_eq!(Some(&incoming.payload), payload.ok().as_ref());
    assert!(!incoming.headers.contains_key(ANSWER_TO));
    for name in incoming.headers.keys().filter(|name| name.starts_with(RESERVED)) {
        assert!(name == IN_REPLY_TO && incoming.kind == Kind::Response, "{name}");
    }
}

fn answer_comes_back(answer: &Answer) -> Answer {
    let written = serde_json::to_vec(answer).expect("an answer can be written");
    serde_json::from_slice(&written).expect("what was written can be read")
}

/// Any text can be a payload, and arrives as it was; JSON without the blanks around it.
fn text_travels(text: &str) {
    for content_type in [None, Some("application/json"), Some("text/plain")] {
        let content_type = content_type.map(|given| (CONTENT_TYPE.to_owned(), given.to_owned()));
        let mut headers: Headers = content_type.clone().into_iter().collect();
        let value = to_json(text, &mut headers).expect("every text can travel");
        let is_json =
            headers == content_type.into_iter().collect() && headers.values().all(|kind| kind != "text/plain");
        let expected = if is_json { without_blanks(text) } else { text };
        assert_eq!(from_json(&value, &headers).expect("what was written can be read"), expected);
    }
}

fn text_is_answered(text: &str) {
    let payload = Reply::of(text).expect("every text can be an answer");
    let answer = Answer { acknowledged: true, payload: Some(payload), ..Answer::default() };
    // On the wire, null is no answer.
    let expected = answer.payload().filter(|payload| payload != "null");
    assert_eq!(answer_comes_back(&answer).payload(), expected);
}

fn without_blanks(json: &str) -> &str {
    json.trim_matches([' ', '\t', '\r', '\n'])
}

//! Tests that events are read back exactly as they were written.

use super::*;

#[test]
fn payloads_come_back_byte_for_byte() {
    let payloads =
        ["", "{}", " {\"a\" : 1.50, \"a\":2}", "[1,\n2]\n", "1e400", "no JSON", "\"ä\\u00e4😀\"", "a\u{1}\n\"%"];
    let content_types = ["application/json", "application/vnd.x+JSON; v=1", "text/plain", "json"].map(Some);
    for (payload, content_type) in payloads
        .into_iter()
        .flat_map(|payload| content_types.into_iter().chain([None]).map(move |content_type| (payload, content_type)))
    {
        let event = event(content_type, payload);
        for mode in [Binary, Structured] {
            assert!(there_and_back(&event, mode) == event, "{payload:?} {content_type:?} {mode:?}");
        }
    }
    // JSON is embedded in the object unchanged, and deep nesting does no harm.
    let (_, body) = event(Some("application/json"), "{\"a\" : 1.50}").write(Structured).unwrap();
    assert!(std::str::from_utf8(&body).unwrap().contains("\"data\":{\"a\" : 1.50}"));
    let deep = event(Some("application/json"), &format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)));
    assert!(there_and_back(&deep, Structured) == deep);
}

#[test]
fn random_events_come_back_in_both_modes() {
    let mut random = fastrand::Rng::with_seed(0x70_07);
    let mut text = move |least: usize| -> String {
        let length = random.usize(least..12);
        std::iter::repeat_with(|| random.char('\0'..='\u{2ffff}')).filter(|c| check_fits(*c)).take(length).collect()
    };
    for round in 0..2_000_i64 {
        let mut event = event([None, Some("text/plain")][usize::from(round % 2 == 0)], &text(0));
        (event.id, event.source, event.topic) = (text(1), text(1), text(1));
        event.time = (round % 3 != 0).then(|| Timestamp::from_micros(round * 1_234_567_890_123));
        event.headers.insert("ce-subject".into(), text(1));
        event.headers.insert(format!("ce-ext{round}"), text(0));
        assert!(there_and_back(&event, Binary) == event, "{event:?}");
        assert!(there_and_back(&event, Structured) == event, "{event:?}");
    }
}

/// Returns whether an attribute may contain this character.
fn check_fits(character: char) -> bool {
    let code = u32::from(character);
    !character.is_control() && code & 0xfffe != 0xfffe && !(0xfdd0..=0xfdef).contains(&code)
}

#[test]
fn garbage_is_refused_and_nothing_panics() {
    let mut random = fastrand::Rng::with_seed(0x70_08);
    let good = example("1", r#""datacontenttype":"application/json","data":{"a":[1]}"#);
    for _ in 0..5_000 {
        let mut body = good.clone().into_bytes();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..body.len());
            match random.u8(..3) {
                0 => body[at] = random.u8(..),
                1 => body.truncate(at.max(1)),
                _ => body.insert(at, random.choice(*b"{}[]\",:\\0u").unwrap()),
            }
        }
        let headers = http([("Content-Type", JSON)]);
        if let Ok(event) = CloudEvent::read(&headers, &body) {
            assert!(there_and_back(&event, Structured) == event);
        }
    }
    for _ in 0..5_000 {
        let (mut headers, body) = event(None, "").write(Binary).unwrap();
        let length = random.usize(..6);
        let value: Vec<u8> = (0..length).map(|_| random.choice(*b"%\"\\0aFf \xc3\xff\t").unwrap()).collect();
        headers.insert("ce-x", http::HeaderValue::from_bytes(&value).unwrap());
        if let Ok(event) = CloudEvent::read(&headers, &body) {
            assert!(there_and_back(&event, Binary) == event);
        }
    }
}

//! Tests with the examples of the specification, and with messages as events.

mod refused;
mod round_trip;

use CloudEventsMode::{Binary, Structured};

use super::*;
use crate::foreign::tests::headers as http;
use postroom_core::message::{InboxKey, Incoming};

const JSON: &str = "application/cloudevents+json";

fn structured(body: &str) -> Result<CloudEvent> {
    CloudEvent::read(&http([("Content-Type", JSON)]), body.as_bytes())
}

/// Writes an event with the attributes of most examples: everything except `data` and its type.
fn example(id: &str, more: &str) -> String {
    format!(
        r#"{{ "specversion" : "1.0", "type" : "com.example.someevent", "source" : "/mycontext", "subject": null,
              "id" : "{id}", "time" : "2018-04-05T17:31:00Z", "unsetextension": null,
              "comexampleextension1" : "value", "comexampleothervalue" : 5, {more} }}"#
    )
}

fn event(content_type: Option<&str>, payload: &str) -> CloudEvent {
    let headers = content_type.map(|given| (CONTENT_TYPE_HEADER.to_owned(), given.to_owned()));
    CloudEvent {
        id: "1".into(),
        source: "/shop".into(),
        topic: "order.paid".into(),
        time: None,
        headers: headers.into_iter().collect(),
        payload: payload.into(),
    }
}

fn there_and_back(event: &CloudEvent, mode: CloudEventsMode) -> CloudEvent {
    let (headers, body) = event.write(mode).unwrap();
    CloudEvent::read(&headers, &body).unwrap()
}

// JSON Event Format, section 3.2: each example in structured mode, and the same in binary mode.
#[test]
fn the_examples_of_the_json_format_are_read_and_written_in_binary_mode() {
    let object = "{\n        \"appinfoA\" : \"abc\",\n        \"appinfoB\" : 123\n    }";
    let json = r#""datacontenttype" : "application/json", "data" :"#;
    for (id, more, content_type, payload) in [
        (
            "B234-1234-1234",
            r#""datacontenttype" : "application/xml", "data" : "<much wow=\"xml\"/>""#.to_owned(),
            "application/xml",
            "<much wow=\"xml\"/>",
        ),
        ("C234-1234-1234", format!("{json} {object}"), "application/json", object),
        ("C234-1234-1234", format!("{json} 1.5"), "application/json", "1.5"),
        ("C234-1234-1234", format!("{json} null"), "application/json", "null"),
        ("D234-1234-1234", r#""data" : "I'm just a string""#.to_owned(), "application/json", "\"I'm just a string\""),
    ] {
        let event = structured(&example(id, &more)).unwrap();
        assert_eq!(event.time, Some(Timestamp::from_micros(1_522_949_460_000_000)));
        let (headers, body) = event.write(Binary).unwrap();
        let expected = http([
            ("ce-specversion", "1.0"),
            ("ce-type", "com.example.someevent"),
            ("ce-source", "/mycontext"),
            ("ce-id", id),
            ("ce-time", "2018-04-05T17:31:00Z"),
            ("ce-comexampleextension1", "value"),
            ("ce-comexampleothervalue", "5"),
            ("content-type", content_type),
        ]);
        assert_eq!((headers, body.as_ref()), (expected, payload.as_bytes()), "{id}");
        assert_eq!(there_and_back(&event, Binary), event);
        assert_eq!(there_and_back(&event, Structured), event);
    }
}

#[test]
fn data_in_base64_without_a_type_gets_none() {
    let body = r#"{"specversion":"1.0","type":"com.example.someevent","source":"/mycontext","id":"D234-1234-1234",
                   "data_base64" : "eyAieHl6IjogMTIzIH0="}"#;
    let event = structured(body).unwrap();
    let (headers, body) = event.write(Binary).unwrap();
    assert_eq!(body.as_ref(), br#"{ "xyz": 123 }"#);
    assert!(!headers.contains_key("content-type"));
    assert_eq!(there_and_back(&event, Structured), event);
}

// HTTP Protocol Binding, sections 3.1.4 and 3.2.4.
#[test]
fn the_example_of_the_http_binding_is_read() {
    let headers = http([
        ("Host", "webhook.example.com"),
        ("CE-SpecVersion", "1.0"),
        ("ce-type", "com.example.someevent"),
        ("ce-time", "2018-04-05T03:56:24Z"),
        ("ce-id", "1234-1234-1234"),
        ("ce-source", "/mycontext/subcontext"),
        ("ce-subject", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
        ("Content-Type", "application/json; charset=utf-8"),
    ]);
    let event = CloudEvent::read(&headers, b"{ \"a\": 1 }\n").unwrap();
    assert_eq!((event.id.as_str(), event.source.as_str()), ("1234-1234-1234", "/mycontext/subcontext"));
    assert_eq!((event.topic.as_str(), event.payload.as_str()), ("com.example.someevent", "{ \"a\": 1 }\n"));
    let expected = [("ce-subject", "Euro € 😀"), ("content-type", "application/json; charset=utf-8")];
    assert_eq!(event.headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    assert_eq!(there_and_back(&event, Binary), event);
    assert_eq!(there_and_back(&event, Structured), event);
    let (sent, _) = event.write(Structured).unwrap();
    assert_eq!(sent, http([("content-type", "application/cloudevents+json; charset=utf-8")]));
}

// The example of the main specification; senders may write the content type in several ways.
#[test]
fn the_example_of_the_specification_is_read() {
    let body = r#"{"specversion":"1.0","type":"com.github.pull_request.opened","subject":"123","id":"A234-1234-1234",
        "source":"https://github.com/cloudevents/spec/pull","time":"2018-04-05T17:31:00Z",
        "comexampleextension1":"value","comexampleothervalue":5,"datacontenttype":"text/xml",
        "data":"<much wow=\"xml\"/>"}"#;
    for content_type in [JSON, "APPLICATION/CloudEvents+JSON", "application/cloudevents+json ; charset=UTF-8"] {
        let headers = http([("Content-Type", content_type), ("ce-id", "ignored")]);
        let event = CloudEvent::read(&headers, body.as_bytes()).unwrap();
        assert_eq!((event.id.as_str(), event.headers["ce-subject"].as_str()), ("A234-1234-1234", "123"));
        assert_eq!(event.payload, "<much wow=\"xml\"/>");
    }
}

#[test]
fn true_and_whole_numbers_are_text_as_headers() {
    let more = r#""yes":true,"no":false,"least":-2147483648,"empty":"""#;
    let event = structured(&example("1", more)).unwrap();
    for (name, value) in [("ce-yes", "true"), ("ce-no", "false"), ("ce-least", "-2147483648"), ("ce-empty", "")] {
        assert_eq!(event.headers[name], value);
    }
}

#[test]
fn data_is_null_or_nothing_as_its_type_says() {
    for (more, content_type, payload) in [
        (r#""data":null"#, Some("application/json"), "null"),
        (r#""data":null,"datacontenttype":"text/plain""#, Some("text/plain"), ""),
        (r#""data_base64":null,"datacontenttype":"text/plain""#, Some("text/plain"), ""),
        (r#""datacontenttype":"""#, None, ""),
    ] {
        let event = structured(&example("1", more)).unwrap();
        assert_eq!((event.content_type(), event.payload.as_str()), (content_type, payload), "{more}");
    }
}

fn message(headers: &[(&str, &str)], payload: &str) -> Message {
    let key = InboxKey::new("elsewhere", "7").unwrap();
    let incoming = Incoming::new(key, "order.paid", payload);
    let incoming = headers.iter().fold(incoming, |incoming, (name, value)| incoming.header(*name, *value));
    incoming.to_message(Timestamp::from_micros(1_500_000))
}

#[test]
fn a_message_becomes_an_event() {
    let given = [("CE-Subject", "a"), ("ce-ext", "b"), ("Content-Type", "text/xml"), ("traceparent", "00-1-1-01")];
    let (headers, body) = CloudEvent::of(&message(&given, "<a/>"), "/shop").write(Binary).unwrap();
    let expected = http([
        ("ce-specversion", "1.0"),
        ("ce-id", "7"),
        ("ce-source", "/shop"),
        ("ce-type", "order.paid"),
        ("ce-time", "1970-01-01T00:00:01.5Z"),
        ("ce-subject", "a"),
        ("ce-ext", "b"),
        ("content-type", "text/xml"),
    ]);
    assert_eq!((headers, body.as_ref()), (expected, &b"<a/>"[..]));
}

#[test]
fn a_message_without_a_type_is_given_one() {
    let event = |payload| CloudEvent::of(&message(&[("content-type", "")], payload), "/shop");
    assert_eq!(event("{\"a\":1}").content_type(), Some("application/json"));
    assert_eq!(event("plain").content_type(), Some("text/plain; charset=utf-8"));
    assert_eq!(event("").content_type(), None);
}

#[test]
fn nothing_that_is_printed_shows_a_payload_or_a_header() {
    let mut event = event(Some("text/plain"), "hunter2");
    event.headers.insert("ce-subject".into(), "hunter2".into());
    assert!(!format!("{event:?}").contains("hunter2"));
}

//! Tests that a refusal says why, and quotes nothing.

use super::*;

#[track_caller]
fn assert_refused(event: Result<CloudEvent>, because: &str) {
    let error = event.unwrap_err().to_string();
    assert!(error.contains(because), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn data_that_is_no_text_is_refused_in_both_modes() {
    let binary = r#""datacontenttype" : "application/vnd.apache.thrift.binary", "data_base64" : "gAEAAQ==""#;
    assert_refused(structured(&example("A234-1234-1234", binary)), "not UTF-8");
    let headers = event(None, "").write(Binary).unwrap().0;
    assert_refused(CloudEvent::read(&headers, b"\x80\x01"), "not UTF-8");
    assert_refused(structured(&example("1", r#""data_base64":"... base64 ...""#)), "not base64");
    assert_refused(structured(&example("1", r#""data_base64":7"#)), "not base64");
}

#[test]
fn batches_and_other_formats_are_refused() {
    for content_type in ["application/cloudevents-batch+json; charset=utf-8", "Application/CloudEvents-Batch+json"] {
        let headers = http([("Content-Type", content_type)]);
        assert_refused(CloudEvent::read(&headers, b"[]"), "batches of CloudEvents are not accepted");
    }
    for content_type in ["application/cloudevents+avro", "application/cloudevents"] {
        assert_refused(CloudEvent::read(&http([("Content-Type", content_type)]), b""), JSON);
    }
    assert_refused(structured("[]"), "not a JSON object");
}

#[test]
fn what_is_required_is_named_when_it_is_missing() {
    let good = event(None, "hunter2");
    let (headers, body) = good.write(Binary).unwrap();
    let (kind, object) = good.write(Structured).unwrap();
    for name in ["specversion", "id", "source", "type"] {
        let named = format!("the CloudEvent has no \"{name}\"");
        let mut lacking = headers.clone();
        lacking.remove(format!("ce-{name}"));
        assert_refused(CloudEvent::read(&lacking, &body), &named);
        let mut object: serde_json::Value = serde_json::from_slice(&object).unwrap();
        object[name] = serde_json::Value::Null;
        assert_refused(CloudEvent::read(&kind, object.to_string().as_bytes()), &named);
        object[name] = "".into();
        assert!(CloudEvent::read(&kind, object.to_string().as_bytes()).is_err(), "{name}");
    }
}

#[test]
fn what_is_wrong_is_named_and_never_quoted() {
    for (more, because) in [
        (r#""specversion":"0.3""#, "two members \"specversion\""),
        (r#""dataschema":"""#, "\"dataschema\" must not be empty"),
        (r#""nested":{"a":"hunter2"}"#, "\"nested\" must be a string"),
        (r#""half":1.5"#, "\"half\" must be a string"),
        (r#""large":2147483648"#, "\"large\" must be a string"),
        (r#""Upper":"hunter2""#, "\"Upper\" cannot be an attribute"),
        (r#""a_b":"hunter2""#, "\"a_b\" cannot be an attribute"),
        (r#""":"hunter2""#, "\"\" cannot be an attribute"),
        (r#""line":"hunter2\n""#, "\"line\" has a character"),
        (r#""nonchar":"\uffff""#, "\"nonchar\" has a character"),
        (r#""lonely":"\ud800""#, "\"lonely\" must be a string"),
        (r#""data":1,"data_base64":"MQ==""#, "both \"data\" and \"data_base64\""),
        (r#""datacontenttype":"text/plain","data":{"hunter2":1}"#, "\"data\" must be a string"),
        (r#""datacontenttype":"text/plain\n","data":"""#, "\"datacontenttype\" has a character"),
        (r#""data":hunter2"#, "not a JSON object"),
    ] {
        assert_refused(structured(&example("1", more)), because);
    }
    let other = |from, to| structured(&example("1", "\"data\":0").replace(from, to));
    assert_refused(other("\"1.0\"", "\"0.3\""), "only in version 1.0");
    assert_refused(other("\"1.0\"", "1.0"), "\"specversion\" must be a string");
    assert_refused(other("2018-04-05T17:31:00Z", "hunter2"), "\"time\" is not an RFC 3339 time");
}

#[test]
fn headers_must_be_unambiguous_and_well_coded() {
    for (name, value, because) in [
        ("ce-id", "2", "ce-id appears twice"),
        ("content-type", "text/html", "content-type appears twice"),
        ("ce-datacontenttype", "text/plain", "not ce-datacontenttype"),
        ("ce-data", "hunter2", "\"data\" cannot be an attribute"),
        ("ce-a-b", "hunter2", "\"a-b\" cannot be an attribute"),
        ("ce-broken", "hunter2%C0%A0", "ce-broken is not properly"),
        ("ce-subject", "", "\"subject\" must not be empty"),
        ("ce-tab", "hunter2%09", "\"tab\" has a character"),
    ] {
        let (mut headers, body) = event(Some("text/plain"), "").write(Binary).unwrap();
        headers.append(name, value.parse().unwrap());
        assert_refused(CloudEvent::read(&headers, &body), because);
    }
    let (mut headers, body) = event(None, "").write(Binary).unwrap();
    headers.append("ce-raw", http::HeaderValue::from_bytes("ä".as_bytes()).unwrap());
    assert_refused(CloudEvent::read(&headers, &body), "ce-raw appears twice or is not plain text");
}

#[test]
fn a_message_that_cannot_be_an_event_says_why() {
    for (header, value, because) in [
        ("ce-id", "8", "the header ce-id cannot be sent"),
        ("ce-datacontenttype", "a/b", "the header ce-datacontenttype cannot be sent"),
        ("ce-not-a-name", "x", "\"not-a-name\" cannot be an attribute"),
        ("ce-", "x", "\"\" cannot be an attribute"),
        ("ce-data", "x", "\"data\" cannot be an attribute"),
        ("ce-line", "a\nb", "\"line\" has a character"),
        ("content-type", "a\nb", "\"datacontenttype\" has a character"),
    ] {
        let event = CloudEvent::of(&message(&[(header, value)], "{}"), "/shop");
        for mode in [Binary, Structured] {
            let error = event.write(mode).unwrap_err().to_string();
            assert!(error.contains(because), "{error}");
        }
    }
    assert!(CloudEvent::of(&message(&[], ""), "").write(Binary).is_err());
}

#[test]
fn an_event_in_an_event_is_never_taken_for_it() {
    let inner = r#"{"specversion":"1.0","id":"2","source":"/other","type":"inner"}"#;
    for content_type in [JSON, "Application/CloudEvents; charset=utf-8", "application/cloudevents-batch+json"] {
        let outer = event(Some(content_type), inner);
        let error = outer.write(Binary).unwrap_err().to_string();
        assert!(error.contains("cannot be sent in binary mode"), "{error}");
        assert!(there_and_back(&outer, Structured) == outer);
    }
}

#[test]
fn a_type_that_is_no_plain_text_is_no_header() {
    let event = event(Some("text/ä"), "x");
    let error = event.write(Binary).unwrap_err().to_string();
    assert!(error.contains("\"datacontenttype\" cannot be a header"), "{error}");
    assert!(there_and_back(&event, Structured) == event);
}

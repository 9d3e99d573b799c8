//! Requests and receipts that must be refused, and some that just pass: the receiver's answer, and the sender's
//! verdict.

use std::fs::File;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use serde_json::Value;
use tower_service::Service;

use super::{envelope, key_of, micros, receipt, text};
use crate::receiver::{Receiver, Source};
use crate::wire::signature::{Signature, is_signed_v1};
use postroom_core::message::Message;
use postroom_core::store::MemoryStore;
use postroom_core::support::clock::{Clock, ManualClock};
use postroom_core::work::handler::{Ctx, HandlerResult, Handlers, Memory};

const VERDICTS: &str = include_str!("../../../vectors/verdicts.jsonl");
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors");

fn verdicts() -> impl Iterator<Item = Value> {
    VERDICTS.lines().map(|line| serde_json::from_str(line).unwrap())
}

async fn handle(_: &mut Ctx<Memory>, _: Arc<Message>) -> HandlerResult<Option<String>> {
    Ok(None)
}

/// Returns the answer of a new receiver to the request of a vector.
async fn answer(vector: &Value) -> Response<Full<Bytes>> {
    let clock = ManualClock::new(micros(vector, "now").unwrap());
    let store = MemoryStore::with_clock(Clock::Manual(clock));
    let source = Source::new(text(vector, "knows"), key_of(vector));
    let topics = vector.get("topics").map(|topics| serde_json::from_value::<Vec<String>>(topics.clone()).unwrap());
    let source = topics.into_iter().fold(source, Source::topics);
    let handlers = Handlers::new().fallback(handle);
    let receiver = Receiver::<Memory>::new(text(vector, "receiver"), store, handlers, [source]).unwrap();
    let mut request = Request::builder().method(text(vector, "method").as_str()).uri(text(vector, "path"));
    for header in vector["headers"].as_array().unwrap() {
        request = request.header(header[0].as_str().unwrap(), header[1].as_str().unwrap());
    }
    let request = request.body(Full::<Bytes>::from(text(vector, "body"))).unwrap();
    let Ok(response) = receiver.service().call(request).await;
    response
}

#[tokio::test]
async fn a_receiver_answers_as_the_vectors_say() {
    let mut refused = 0;
    for vector in verdicts().filter(|vector| vector["what"] == "request") {
        let response = answer(&vector).await;
        let said = (response.status().as_u16().to_string(), response.headers().contains_key("rf-ack"));
        assert_eq!(said, (text(&vector, "answer"), vector["receipt"] == true), "{}", vector["case"]);
        refused += u32::from(said.0 != "200");
    }
    assert!(refused >= 80);
}

fn is_genuine(vector: &Value) -> bool {
    let (given, keys) = (text(vector, "signature"), [key_of(vector)]);
    match vector["what"].as_str() {
        Some("receipt") => receipt(vector).is_signed(&Signature::parse_list(&given), &keys),
        _ => is_signed_v1(&envelope(vector), &given, &keys, &[]),
    }
}

#[test]
fn receipts_and_v1_signatures_prove_what_the_vectors_say() {
    for vector in verdicts().filter(|vector| vector["what"] != "request") {
        assert_eq!(is_genuine(&vector), vector["genuine"] == true, "{}: {}", vector["what"], vector["case"]);
    }
}

#[test]
fn an_independent_implementation_judges_the_same() {
    let judging = Command::new("python3")
        .arg(format!("{FOLDER}/verdicts.py"))
        .stdin(File::open(format!("{FOLDER}/verdicts.jsonl")).unwrap())
        .output()
        .expect("python3 is needed to check the verdicts by an independent implementation");
    assert!(judging.status.success(), "{}", String::from_utf8_lossy(&judging.stdout));
}

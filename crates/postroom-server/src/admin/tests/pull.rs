//! Fetching and settling messages over HTTP.

use std::time::Duration;

use axum::http::StatusCode;
use futures_util::FutureExt;
use postroom::operator::Filter;
use postroom::queue::{Queue, Topics};
use postroom::store::Store;
use postroom::{InboxKey, Incoming, NewMessage};
use serde_json::{Value, json};

use super::super::WAITING;
use super::Node;

fn node() -> Node {
    Node::fetching(Some(Topics::only(["order.placed", "order.paid"]).unwrap()))
}

impl Node {
    async fn fetch(&self, queue: &str, asked: &Value) -> Vec<Value> {
        let said = self.post(&format!("/v1/{queue}/claim"), asked).await;
        assert_eq!(said.status, StatusCode::OK, "{}", said.text);
        said.json()["messages"].as_array().unwrap().clone()
    }

    /// Settles one message; returns the status and the result for the message.
    async fn settle(&self, verb: &str, item: Value) -> (StatusCode, Value) {
        let said = self.post(&format!("/v1/outbox/{verb}"), &json!({ "items": [item] })).await;
        (said.status, said.json()["results"][0].clone())
    }

    async fn enqueue(&self, topic: &str, payload: &str) {
        self.outbox.enqueue(NewMessage::new(topic, payload)).await.unwrap();
    }
}

#[tokio::test]
async fn a_message_is_fetched_with_all_there_is_to_know_and_its_payload_as_it_is_stored() {
    let node = node();
    let payload = "{\"b\": 1.0,  \"a\":[1e2, \"\\u00e9\"], \"b\": 2}";
    let key = InboxKey::new("shop", "evt-1").unwrap();
    let arrived = Incoming::new(key, "order.placed", payload).header("a", "b").header("rf-answer-to", "shop");
    node.store.put(arrived.correlation_id("c-1"), postroom::store::PutMode::FirstWins).await.unwrap();
    let said = node.post("/v1/inbox/claim", &json!({ "leaseSeconds": 60 })).await;
    assert!(said.text.contains(payload), "{}", said.text);
    let told = &said.json()["messages"][0];
    for (name, value) in [
        ("messageId", json!("evt-1")),
        ("topic", json!("order.placed")),
        ("source", json!("shop")),
        ("correlationId", json!("c-1")),
        ("attempt", json!(1)),
        ("headers", json!({ "a": "b" })),
    ] {
        assert_eq!(told[name], value, "{name}");
    }
    assert!(told["payloadText"].is_null() && told["lease"].is_string() && told["leasedUntil"].is_string());
}

#[tokio::test]
async fn a_payload_that_is_no_json_is_a_text() {
    let node = node();
    for payload in ["teapot", "", " 7", "{\"a\":"] {
        node.enqueue("order.paid", payload).await;
        let fetched = node.fetch("outbox", &json!({})).await;
        assert_eq!((fetched.len(), &fetched[0]["payloadText"]), (1, &json!(payload)));
        assert!(fetched[0].get("payload").is_none());
    }
}

#[tokio::test]
async fn only_what_was_asked_for_is_handed_out() {
    let node = node();
    for (topic, destination) in
        [("order.placed", None), ("order.paid", None), ("other", None), ("order.paid", Some("x"))]
    {
        let message = NewMessage::new(topic, "{}");
        let message = destination.map_or(message.clone(), |to| message.to(to));
        node.outbox.enqueue(message).await.unwrap();
    }
    assert_eq!(node.fetch("outbox", &json!({ "topics": ["order.paid"] })).await.len(), 1);
    let rest = node.fetch("outbox", &json!({})).await;
    assert_eq!((rest.len(), &rest[0]["topic"]), (1, &json!("order.placed")));
    for (path, asked, status, error) in [
        ("/v1/outbox/claim", json!({ "topics": ["other"] }), 400, "the topic \"other\" cannot be fetched"),
        ("/v1/outbox/claim", json!({ "limit": 101 }), 400, "the limit 101 is not allowed"),
        ("/v1/outbox/claim", json!({ "waitSeconds": 31 }), 400, "the wait of 31 s is too long"),
        ("/v1/outbox/claim", json!({ "leaseSeconds": 0 }), 400, "the lease is 0"),
        ("/v1/outbox/claim", json!({ "colour": 1 }), 400, "unknown field `colour`"),
        ("/v1/drafts/claim", json!({}), 404, "no such queue"),
    ] {
        let said = node.post(path, &asked).await;
        let told = said.json()["detail"].as_str().unwrap().to_owned();
        assert!(said.status == status && told.contains(error), "{asked}: {} {told}", said.status);
    }
    let said = Node::new().post("/v1/outbox/claim", &json!({})).await;
    assert_eq!(said.status, StatusCode::CONFLICT, "nothing is fetched from a node that was not told so");
}

#[tokio::test]
async fn what_was_fetched_is_settled_and_each_message_is_answered_on_its_own() {
    let node = node();
    for _ in 0..4 {
        node.enqueue("order.placed", "{}").await;
    }
    let leases: Vec<Value> =
        node.fetch("outbox", &json!({})).await.into_iter().map(|message| message["lease"].clone()).collect();
    let acked = json!({ "items": [{ "lease": leases[0], "answer": { "shelf": 7 } }, { "lease": "seven" }] });
    let said = node.post("/v1/outbox/ack", &acked).await;
    assert_eq!(said.status, StatusCode::BAD_REQUEST, "as the worst of them");
    let results = &said.json()["results"];
    assert_eq!((&results[0]["status"], &results[0]["state"]), (&json!(200), &json!("done")));
    assert_eq!((&results[1]["status"], &results[1]["lease"]), (&json!(400), &json!("seven")));
    let kept = node.outbox.queue().list(Filter::all().limit(1)).await.unwrap();
    assert_eq!(kept[0].response(), Some("{\"shelf\":7}"));

    let (status, told) = node.settle("abandon", json!({ "lease": leases[1], "error": "x", "delaySeconds": 5 })).await;
    assert_eq!((status, &told["state"]), (StatusCode::OK, &json!("waiting")));
    let (status, told) = node.settle("extend", json!({ "lease": leases[2], "leaseSeconds": 600 })).await;
    assert_eq!((status, &told["state"]), (StatusCode::OK, &json!("leased")));
    let (status, told) = node.settle("fail", json!({ "lease": leases[2], "error": "no such order" })).await;
    assert_eq!((status, &told["state"]), (StatusCode::OK, &json!("dead")));
    for verb in ["ack", "abandon", "fail"] {
        let (status, told) = node.settle(verb, json!({ "lease": leases[2] })).await;
        assert_eq!((status, &told["status"]), (StatusCode::CONFLICT, &json!(409)), "{verb}");
        assert!(told["detail"].as_str().unwrap().contains("the lease is lost"), "{told}");
    }
    let long = json!({ "lease": leases[3], "answer": "x".repeat(65 * 1024) });
    assert_eq!(node.settle("ack", long).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(node.post("/v1/outbox/ack", &json!({ "items": [] })).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn whoever_extends_the_lease_of_a_cancelled_message_is_told() {
    let node = node();
    for _ in 0..2 {
        node.enqueue("order.placed", "{}").await;
    }
    let messages = node.fetch("outbox", &json!({})).await;
    let extend =
        async |at: usize| node.settle("extend", json!({ "lease": messages[at]["lease"], "leaseSeconds": 60 })).await.1;
    let id = messages[0]["messageId"].as_str().unwrap();
    let cancelled = node.post(&format!("/_rf/outbox/{id}/cancel"), &Value::Null).await.json();
    assert_eq!(cancelled["askedToStop"], 1);
    let (first, second) = (extend(0).await, extend(1).await);
    assert_eq!((&first["state"], &first["askedToStop"]), (&json!("leased"), &json!(true)));
    assert_eq!((&second["state"], &second["askedToStop"]), (&json!("leased"), &Value::Null));
    let (_, told) = node.settle("abandon", json!({ "lease": messages[0]["lease"], "error": "it was cancelled" })).await;
    assert_eq!(told["state"], "dismissed", "it is not tried again: {told}");
    assert_eq!(node.outbox.queue().stats().await.unwrap().dismissed, 1);
}

#[tokio::test]
async fn an_answer_is_no_larger_than_four_mebibytes() {
    let node = node();
    for _ in 0..6 {
        node.enqueue("order.placed", &format!("\"{}\"", "x".repeat(1024 * 1024))).await;
    }
    assert_eq!(node.fetch("outbox", &json!({})).await.len(), 3);
    let stats = node.outbox.queue().stats().await.unwrap();
    assert_eq!((stats.leased, stats.ready), (3, 3), "the others are in line");
}

#[tokio::test(start_paused = true)]
async fn who_waits_gets_the_first_message_and_is_sent_home_when_the_node_stops() {
    let node = node();
    let asked = json!({ "waitSeconds": 30 });
    let (fetched, ()) = tokio::join!(node.fetch("outbox", &asked), node.enqueue("order.paid", "7"));
    assert_eq!(fetched[0]["payload"], 7);
    let began = tokio::time::Instant::now();
    let (fetched, ()) = tokio::join!(node.fetch("outbox", &asked), async { node.stop.ask() });
    assert!(fetched.is_empty() && began.elapsed() < Duration::from_secs(1), "nobody waited for the 30 seconds");
    assert_eq!(node.store.stats(Queue::Outbox).await.unwrap().leased, 1);
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_leave_room_for_others() {
    let node = node();
    let asked = json!({ "waitSeconds": 30 });
    let began = tokio::time::Instant::now();
    let waiting = futures_util::future::join_all((0..WAITING).map(|_| node.fetch("outbox", &asked)));
    let others = async {
        tokio::task::yield_now().await;
        assert!(node.fetch("outbox", &asked).await.is_empty());
        assert!(began.elapsed() < Duration::from_secs(1), "there is no place to wait: it is answered at once");
        node.stop.ask();
    };
    let (waited, ()) = tokio::join!(waiting.boxed_local(), others);
    assert!(waited.iter().all(Vec::is_empty));
}

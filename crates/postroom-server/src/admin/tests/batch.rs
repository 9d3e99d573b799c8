//! Batches, and the dead messages of the inbox.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use postroom::message::OwnerToken;
use postroom::{Inbox, InboxKey, Incoming};
use serde_json::{Value, json};

use super::{Node, Said, request};

async fn keyed(node: &Node, key: &str, body: &Value) -> Said {
    let request = request(Method::POST, "/v1/messages/batch").header("authorization", format!("Bearer {}", node.write));
    node.send(request.header("content-type", "application/json").header("idempotency-key", key), body).await
}

fn batch(orders: &[u32]) -> Value {
    let messages = orders.iter().map(|order| json!({ "topic": "order.placed", "payload": { "order": order } }));
    json!({ "messages": messages.collect::<Vec<_>>() })
}

async fn stored(node: &Node) -> u64 {
    node.outbox.queue().stats().await.unwrap().ready
}

#[tokio::test]
async fn a_batch_is_stored_as_a_whole_and_each_id_is_told() {
    let node = Node::new();
    let said = node.post("/v1/messages/batch", &batch(&[1, 2, 3])).await;
    assert_eq!(said.status, StatusCode::CREATED);
    let told = said.json();
    let ids: std::collections::BTreeSet<_> =
        told["messages"].as_array().unwrap().iter().map(|told| told["messageId"].to_string()).collect();
    assert_eq!((ids.len(), stored(&node).await), (3, 3));
}

#[tokio::test]
async fn one_wrong_message_keeps_the_others_out_and_is_named() {
    let node = Node::new();
    for (wrong, error) in [
        (json!({ "topic": "a" }), "the field `payload` of `messages[1]` is missing"),
        (json!({ "topic": "a", "payload": 1, "kind": "Letter" }), "messages[1]: the kind \"Letter\" is unknown"),
        (json!({ "topic": "a", "payload": 1, "dueAfterSeconds": true }), "`messages[1].dueAfterSeconds` is invalid"),
        (json!({ "topic": "a", "payload": 1, "messageId": "x" }), "messages[1]: \"x\" is not a UUID"),
        (json!({ "topic": "", "payload": 1 }), "messages[1]: topic must not be empty"),
    ] {
        let said =
            node.post("/v1/messages/batch", &json!({ "messages": [{ "topic": "a", "payload": 1 }, wrong] })).await;
        assert_eq!(said.status, StatusCode::BAD_REQUEST, "{}", said.text);
        assert!(said.json()["detail"].as_str().unwrap().contains(error), "{}", said.text);
    }
    for count in [0, 1001] {
        let said = node.post("/v1/messages/batch", &batch(&vec![7; count])).await;
        assert!(said.status == StatusCode::BAD_REQUEST && said.text.contains("1 to 1000"), "{}", said.text);
    }
    let large = json!({ "messages": [{ "topic": "a", "payload": "x".repeat(6 * 1024 * 1024) }] });
    assert_eq!(node.post("/v1/messages/batch", &large).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(stored(&node).await, 0);
}

#[tokio::test]
async fn the_same_batch_under_its_key_is_no_second_one_and_another_is_refused() {
    let node = Node::new();
    let first = keyed(&node, "upload-7", &batch(&[1, 2])).await;
    assert_eq!(first.status, StatusCode::CREATED, "{}", first.text);
    let again = keyed(&node, "upload-7", &batch(&[1, 2])).await;
    assert_eq!(again.status, StatusCode::OK, "{}", again.text);
    for (first, again) in [0, 1].map(|n| (first.json()["messages"][n].clone(), again.json()["messages"][n].clone())) {
        assert_eq!((&first["messageId"], &again["duplicate"]), (&again["messageId"], &json!(true)));
    }
    for other in [&[1, 3][..], &[1], &[1, 2, 3]] {
        let said = keyed(&node, "upload-7", &batch(other)).await;
        assert_eq!(said.status, StatusCode::UNPROCESSABLE_ENTITY, "{other:?}: {}", said.text);
    }
    assert_eq!(stored(&node).await, 2);
    assert_eq!(keyed(&node, "upload-8", &batch(&[1, 2])).await.status, StatusCode::CREATED);
    let both =
        json!({ "messages": [{ "topic": "a", "payload": 1, "messageId": "0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01" }] });
    assert_eq!(keyed(&node, "upload-9", &both).await.status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn what_failed_in_the_inbox_is_listed_with_its_source() {
    let node = Node::new();
    let inbox = Inbox::new(node.store.clone());
    for source in ["shop", "stripe"] {
        let incoming = Incoming::new(InboxKey::new(source, "evt-1").unwrap(), "order.paid", "secret");
        inbox.accept(incoming).await.unwrap();
    }
    let claims = inbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 10).await.unwrap();
    let _ = inbox.queue().fail(claims.claimed.into_iter().map(|claimed| claimed.lease), "no").await.unwrap();
    let said = node.get("/_rf/inbox/failed").await;
    assert!(!said.text.contains("secret"), "a payload was shown");
    assert_eq!(said.json()["messages"].as_array().unwrap().len(), 2);
    let narrow = node.get("/_rf/inbox/failed?source=stripe").await.json()["messages"][0].clone();
    assert_eq!((&narrow["source"], &narrow["error"]), (&json!("stripe"), &json!("no")));
    assert!(narrow.get("destination").is_none(), "{narrow}");
    for wrong in ["/_rf/inbox/failed?destination=a", "/_rf/outbox/failed?source=a"] {
        assert_eq!(node.get(wrong).await.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
}

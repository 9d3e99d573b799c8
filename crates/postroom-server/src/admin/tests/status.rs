//! The status of a message, and what counts as the same message again.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use postroom::message::OwnerToken;
use postroom::queue::Settle;
use postroom::{MessageId, NewMessage};
use serde_json::{Value, json};

use super::super::{Rights, Token, generate};
use super::{Node, request};

/// A token that may enqueue shows that there is an answer. The answer itself is a payload.
#[tokio::test]
async fn the_answer_is_only_for_tokens_that_may_see_payloads() {
    let node = Node::new();
    let message = NewMessage::new("stock.reserve", "{}").to("inventory");
    let path = format!("/v1/messages/{}", message.message_id());
    node.outbox.enqueue(message).await.unwrap();
    let claims = node.outbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 1).await.unwrap();
    let lease = claims.claimed.into_iter().next().unwrap().lease;
    let answered = Settle::ack_with(lease, Some(r#"{"reserved":true}"#.into()));
    assert_eq!(node.outbox.queue().settle(vec![answered]).await.unwrap().applied, 1);
    for (may, answer) in [
        (&["enqueue"][..], Value::Null),
        (&["read"], Value::Null),
        (&["enqueue", "payload"], json!({ "reserved": true })),
        (&["payload"], json!({ "reserved": true })),
    ] {
        let (text, digest) = generate();
        let token = Token { digests: vec![digest], rights: Rights::new("orders", may).unwrap(), expires: None };
        node.desk.0.tokens.replace(vec![token]);
        let request = request(Method::GET, &path).header("authorization", format!("Bearer {text}"));
        let said = node.send(request, &Value::Null).await;
        assert_eq!(said.status, StatusCode::OK, "{}", said.text);
        let told = &said.json()["messages"][0];
        assert_eq!((&told["hasAnswer"], &told["answer"]), (&json!(true), &answer), "{may:?}");
        assert_eq!(told["state"], "done");
    }
}

/// A service waits for the answer and need not ask again and again.
#[tokio::test]
async fn a_request_waits_until_the_message_is_done_or_the_time_is_over() {
    let node = Node::new();
    let id = node.outbox.enqueue(NewMessage::new("a", "{}")).await.unwrap().id();
    let path = |wait: &str| format!("/v1/messages/{id}?wait={wait}");
    for wrong in ["31s", "1m", "-1", "soon", ""] {
        let said = node.get(&path(wrong)).await;
        assert_eq!(said.status, StatusCode::BAD_REQUEST, "{wrong:?}: {}", said.text);
        assert!(said.json()["advice"].as_str().unwrap().contains("30s"), "{}", said.text);
    }
    // The time is over while it is in progress.
    let claims = node.outbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 1).await.unwrap();
    assert_eq!(node.get(&path("20ms")).await.json()["messages"][0]["state"], "leased");
    let lease = claims.claimed.into_iter().next().unwrap().lease;
    let path = path("30");
    let settling = async {
        tokio::task::yield_now().await;
        assert_eq!(node.outbox.queue().settle(vec![Settle::ack(lease)]).await.unwrap().applied, 1);
    };
    let (said, ()) = tokio::join!(node.get(&path), settling);
    assert_eq!(said.json()["messages"][0]["state"], "done", "{}", said.text);
    let unknown = format!("/v1/messages/{}?wait=30", MessageId::new());
    assert_eq!(node.get(&unknown).await.status, StatusCode::NOT_FOUND, "there is nothing to wait for");
}

#[tokio::test]
async fn a_key_with_any_other_content_is_refused() {
    let keyed = async |node: &Node, message: &Value| {
        let request = request(Method::POST, "/v1/messages").header("authorization", format!("Bearer {}", node.write));
        let request = request.header("content-type", "application/json").header("idempotency-key", "order 8");
        node.send(request, message).await.status.as_u16()
    };
    let plain = json!({ "topic": "order.placed", "payload": 8 });
    let with = |field: &str, value: Value| {
        let mut message = plain.clone();
        message[field] = value;
        message
    };
    let (day, other_day) = (json!("2030-01-01T00:00:00Z"), json!("2030-01-02T00:00:00Z"));
    for (first, second, status) in [
        (plain.clone(), plain.clone(), 200),
        (plain.clone(), with("topic", json!("order.paid")), 422),
        (plain.clone(), with("payload", json!(9)), 422),
        (plain.clone(), with("destination", json!("billing")), 422),
        (plain.clone(), with("correlationId", json!("order-8")), 422),
        (plain.clone(), with("headers", json!({ "a": "b" })), 422),
        (plain.clone(), with("kind", json!("Event")), 200),
        (plain.clone(), with("kind", json!("Command")), 422),
        (with("kind", json!("Command")), plain.clone(), 422),
        (plain.clone(), with("maxAttempts", json!(3)), 422),
        (with("maxAttempts", json!(3)), with("maxAttempts", json!(3)), 200),
        (with("maxAttempts", json!(3)), plain.clone(), 422),
        (with("dueAt", day.clone()), with("dueAt", day.clone()), 200),
        (with("dueAt", day.clone()), with("dueAt", other_day), 422),
        (with("dueAt", day.clone()), plain.clone(), 422),
        (plain.clone(), with("dueAt", day), 422),
        // These are counted from each request, so they differ by themselves.
        (with("dueAfterSeconds", json!(60)), with("dueAfterSeconds", json!(61)), 200),
        (plain.clone(), with("dueAfterSeconds", json!(60)), 422),
        (with("headStartSeconds", json!(60)), with("headStartSeconds", json!(61)), 200),
        (plain.clone(), with("headStartSeconds", json!(60)), 422),
        (plain.clone(), with("expiresAfterSeconds", json!(60)), 200),
    ] {
        let node = Node::new();
        assert_eq!(keyed(&node, &first).await, 201, "{first}");
        assert_eq!(keyed(&node, &second).await, status, "{first} and then {second}");
    }
}

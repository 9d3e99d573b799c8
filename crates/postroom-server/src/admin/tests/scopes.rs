//! What a token with a single scope may do.

use axum::http::{Method, StatusCode};
use postroom::NewMessage;
use postroom::clock::Timestamp;
use postroom::queue::Topics;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::super::{Rights, Scope, Token, generate};
use super::{GUARDED, Node, Said, request};

fn token(name: &str, may: &[&str], expires: Option<Timestamp>) -> (Token, String) {
    let (text, digest) = generate();
    (Token { digests: vec![digest], rights: Rights::new(name, may).unwrap(), expires }, text)
}

impl Node {
    async fn with_token(&self, method: Method, path: &str, token: &str, body: &Value) -> Said {
        let request = request(method, path).header("authorization", format!("Bearer {token}"));
        self.send(request.header("content-type", "application/json"), body).await
    }
}

/// The scopes that each path needs; an empty list means any token.
fn needed(method: &Method, path: &str) -> &'static [Scope] {
    match path {
        "/openapi.json" | "/nowhere" => &[],
        "/v1/messages" | "/v1/messages/batch" => &[Scope::Enqueue],
        _ if path.starts_with("/v1/messages/") => &[Scope::Enqueue, Scope::Read],
        _ if path.starts_with("/v1/") => &[Scope::Pull],
        _ if method == Method::GET => &[Scope::Read],
        _ => &[Scope::Operate],
    }
}

#[tokio::test]
async fn a_token_gets_in_where_it_may_and_nowhere_else() {
    let node = Node::new();
    for (may, scopes) in [
        ("enqueue", &[Scope::Enqueue][..]),
        ("pull", &[Scope::Pull]),
        ("read", &[Scope::Read]),
        ("payload", &[Scope::Read]),
        ("operate", &[Scope::Read, Scope::Operate]),
    ] {
        let (token, text) = token("service", &[may], None);
        node.desk.0.tokens.replace(vec![token]);
        for (method, path) in GUARDED {
            let any_of = needed(&method, path);
            let may_pass = any_of.is_empty() || any_of.iter().any(|scope| scopes.contains(scope));
            let said = node.with_token(method, path, &text, &json!({})).await;
            assert_eq!(said.status == StatusCode::FORBIDDEN, !may_pass, "{may} {path}: {} {}", said.status, said.text);
            assert!(may_pass || said.text.contains("[tokens.service]"), "{}", said.text);
        }
    }
}

#[tokio::test]
async fn a_token_fetches_its_own_topics_and_no_others() {
    let node = Node::fetching(Some(Topics::only(["order.placed", "order.paid"]).unwrap()));
    let (one, text) = token("billing", &["pull:order.paid", "pull:invoice.sent"], None);
    let (other, idle) = token("idle", &["pull:invoice.sent"], None);
    node.desk.0.tokens.replace(vec![one, other]);
    for topic in ["order.placed", "order.paid"] {
        node.outbox.enqueue(NewMessage::new(topic, "{}")).await.unwrap();
    }
    let claim = async |token: &str, asked: Value| {
        let said = node.with_token(Method::POST, "/v1/outbox/claim", token, &asked).await;
        (said.status, said.text)
    };
    let (status, told) = claim(&text, json!({ "topics": ["order.placed"] })).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(told.contains("the token billing may not fetch the topic \\\"order.placed\\\""), "{told}");
    let (status, told) = claim(&text, json!({})).await;
    assert!(status == StatusCode::OK && told.contains("order.paid") && !told.contains("order.placed"), "{told}");
    assert_eq!(claim(&idle, json!({})).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn the_same_idempotency_key_of_another_token_is_another_message() {
    let node = Node::new();
    let (one, first) = token("orders", &["enqueue"], None);
    let (other, second) = token("billing", &["enqueue"], None);
    node.desk.0.tokens.replace(vec![one, other]);
    let key = "0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01";
    for (token, status) in [(&first, 201), (&second, 201), (&first, 200), (&second, 200)] {
        let request = request(Method::POST, "/v1/messages").header("authorization", format!("Bearer {token}"));
        let request = request.header("content-type", "application/json").header("idempotency-key", key);
        let said = node.send(request, &json!({ "topic": "a", "payload": 1 })).await;
        assert_eq!(said.status.as_u16(), status, "{}", said.text);
    }
    assert_eq!(node.outbox.queue().stats().await.unwrap().ready, 2);
}

#[tokio::test]
async fn a_token_that_ran_out_or_is_gone_is_refused_at_once() {
    let node = Node::new();
    let ended: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let (over, text) = token("orders", &["read"], Some(ended));
    let (good, other) = token("billing", &["read"], Some("2999-01-01T00:00:00Z".parse().unwrap()));
    node.desk.0.tokens.replace(vec![over, good]);
    let stats = async |token: &str| node.with_token(Method::GET, "/_rf/outbox/stats", token, &Value::Null).await;
    let said = stats(&text).await;
    assert_eq!(said.status, StatusCode::UNAUTHORIZED);
    assert!(said.text.contains("this token expired at 2026-01-01T00:00:00"), "{}", said.text);
    assert_eq!(stats(&other).await.status, StatusCode::OK);
    node.desk.0.tokens.replace(vec![token("another", &["read"], None).0]);
    assert_eq!(stats(&other).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_page_that_watches_sees_no_more_when_its_token_is_gone() {
    use futures_util::StreamExt;
    let node = Node::new();
    let (watching, text) = token("ada", &["read"], None);
    node.desk.0.tokens.replace(vec![watching]);
    let asked = request(Method::GET, "/admin/live").header("authorization", format!("Bearer {text}"));
    let response = node.router.clone().oneshot(asked.body(axum::body::Body::empty()).unwrap()).await.unwrap();
    let mut events = response.into_body().into_data_stream();
    assert!(events.next().await.is_some());
    node.desk.0.tokens.replace(vec![token("another", &["read"], None).0]);
    while let Some(event) = events.next().await {
        let event = event.unwrap();
        assert!(!event.starts_with(b"event: sample"), "{event:?}");
    }
}

//! The answers of the admin listener, without a network.

mod batch;
mod pull;
mod scopes;
mod status;
mod strangers;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use postroom::message::{OwnerToken, Unique};
use postroom::queue::{Pull, Queue, Topics};
use postroom::services::{Courier, Services};
use postroom::store::{Memory, MemoryStore};
use postroom::worker::Places;
use postroom::{NewMessage, Outbox, WorkerOptions};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{Counters, Desk, Parts, Tokens, Watched, router, watch};
use crate::up::signals::{self, Stop};

const HOST: &str = "127.0.0.1:7411";

struct Node {
    router: Router,
    desk: Desk,
    store: MemoryStore,
    outbox: Outbox,
    read: String,
    write: String,
    stop: Stop,
}

struct Said {
    status: StatusCode,
    text: String,
}

impl Said {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }
}

impl Node {
    fn new() -> Self {
        Self::fetching(None)
    }

    /// A node from which services fetch these topics.
    fn fetching(topics: Option<Topics>) -> Self {
        let store = MemoryStore::new();
        let (tokens, [read, write]) =
            Tokens::with([("reader", &["read"]), ("writer", &["enqueue", "pull", "operate"])]);
        let outbox = Outbox::new(store.clone());
        let counter = |queue| Pull::<Memory>::new(store.clone(), queue, WorkerOptions::default()).map(Box::new);
        let counters = topics.map(|topics| Counters {
            topics,
            outbox: counter(Queue::Outbox).unwrap(),
            inbox: counter(Queue::Inbox).unwrap(),
        });
        let (stop, stopped) = signals::stop();
        let metrics = PrometheusBuilder::new().build_recorder().handle();
        let hosts = vec![HOST.to_owned()];
        let watched =
            Watched { courier: Courier::new(Services::new("shop")).unwrap(), places: Places::default(), file: None };
        let parts = Parts {
            store: Arc::new(store.clone()),
            metrics,
            counters,
            watched,
            taken_for: Duration::from_secs(3600),
            policies: postroom::queue::RetryPolicies::default(),
            stopped,
        };
        let desk = Desk::new(parts, tokens, hosts);
        Self { router: router(desk.clone()), desk, store, outbox, read, write, stop }
    }

    async fn send(&self, request: axum::http::request::Builder, body: &Value) -> Said {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let response = self.router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        let status = response.status();
        let text = response.into_body().collect().await.unwrap().to_bytes();
        Said { status, text: String::from_utf8(text.to_vec()).unwrap() }
    }

    async fn get(&self, path: &str) -> Said {
        self.send(request(Method::GET, path).header("authorization", format!("Bearer {}", self.read)), &Value::Null)
            .await
    }

    async fn post(&self, path: &str, body: &Value) -> Said {
        let request = request(Method::POST, path).header("authorization", format!("Bearer {}", self.write));
        self.send(request.header("content-type", "application/json"), body).await
    }
}

fn request(method: Method, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path).header("host", HOST)
}

/// Every path except health and readiness.
const GUARDED: [(Method, &str); 26] = [
    (Method::GET, "/v1/messages/0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01"),
    (Method::POST, "/admin/act/revive"),
    (Method::POST, "/admin/act/expire"),
    (Method::POST, "/admin/act/purge"),
    (Method::GET, "/_rf/outbox/stats"),
    (Method::GET, "/_rf/outbox/failed"),
    (Method::POST, "/_rf/outbox/0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01/retry"),
    (Method::POST, "/_rf/outbox/0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01/dismiss"),
    (Method::POST, "/admin/act/dismiss"),
    (Method::POST, "/admin/act/cancel"),
    (Method::POST, "/_rf/outbox/0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01/cancel"),
    (Method::POST, "/_rf/outbox/cancel"),
    (Method::POST, "/_rf/inbox/cancel"),
    (Method::GET, "/_rf/inbox/stats"),
    (Method::GET, "/metrics"),
    (Method::POST, "/v1/messages"),
    (Method::POST, "/v1/messages/batch"),
    (Method::GET, "/_rf/inbox/failed"),
    (Method::POST, "/v1/inbox/claim"),
    (Method::POST, "/v1/outbox/claim"),
    (Method::POST, "/v1/outbox/ack"),
    (Method::POST, "/v1/outbox/abandon"),
    (Method::POST, "/v1/outbox/fail"),
    (Method::POST, "/v1/outbox/extend"),
    (Method::GET, "/openapi.json"),
    (Method::GET, "/nowhere"),
];

#[tokio::test]
async fn without_a_token_only_health_is_told() {
    let node = Node::new();
    for path in ["/_rf/health", "/_rf/ready"] {
        assert_eq!(node.send(request(Method::GET, path), &Value::Null).await.status, StatusCode::OK, "{path}");
    }
    for (method, path) in GUARDED {
        for token in [None, Some("Bearer no"), Some("Basic no"), Some("Bearer")] {
            let asked = request(method.clone(), path);
            let asked = token.map_or(request(method.clone(), path), |token| asked.header("authorization", token));
            let said = node.send(asked, &Value::Null).await;
            assert_eq!(said.status, StatusCode::UNAUTHORIZED, "{method} {path} {token:?}");
            assert!(said.json()["advice"].as_str().is_some_and(|advice| advice.contains("Bearer")));
        }
    }
}

#[tokio::test]
async fn strangers_hear_what_kind_of_thing_is_wrong_and_others_all_of_it() {
    let node = Node::new();
    node.outbox.enqueue(NewMessage::new("a", "{}")).await.unwrap();
    let claims = node.outbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 1).await.unwrap();
    let dead = node.outbox.queue().fail(claims.claimed.into_iter().map(|claimed| claimed.lease), "x").await.unwrap();
    assert_eq!(dead.dead, 1);
    let told = node.send(request(Method::GET, "/_rf/health"), &Value::Null).await.json();
    assert_eq!(told, json!({ "status": "yellow", "reasons": [{ "level": "yellow", "kind": "dead" }] }));
    let told = node.get("/_rf/health").await.json();
    assert_eq!(told["reasons"][0]["what"], "1 message is dead in the outbox");
}

#[tokio::test]
async fn a_node_that_stops_is_not_ready() {
    let node = Node::new();
    assert_eq!(node.get("/_rf/ready").await.json(), json!({ "ready": true }));
    node.stop.ask();
    let said = node.get("/_rf/ready").await;
    assert_eq!((said.status, said.json()), (StatusCode::SERVICE_UNAVAILABLE, json!({ "ready": false })));
}

#[tokio::test]
async fn who_may_read_may_not_write() {
    let node = Node::new();
    for (method, path) in GUARDED.into_iter().filter(|(method, _)| method == Method::POST) {
        let asked = request(method, path).header("authorization", format!("Bearer {}", node.read));
        assert_eq!(node.send(asked, &json!({})).await.status, StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test]
async fn a_page_elsewhere_is_turned_away() {
    let node = Node::new();
    let under = |host: &str| Request::builder().uri("/_rf/health").header("host", host);
    for host in ["evil.example", "127.0.0.1:80", "127.0.0.1.evil.example:7411"] {
        assert_eq!(node.send(under(host), &Value::Null).await.status, StatusCode::MISDIRECTED_REQUEST, "{host}");
    }
    let post = || request(Method::POST, "/v1/messages").header("authorization", format!("Bearer {}", node.write));
    let get = || request(Method::GET, "/_rf/health").header("sec-fetch-site", "cross-site");
    assert_eq!(node.send(get(), &Value::Null).await.status, StatusCode::FORBIDDEN);
    for (name, value) in [("origin", "http://evil.example"), ("origin", "null"), ("sec-fetch-site", "cross-site")] {
        let said = node.send(post().header(name, value), &json!({ "topic": "a", "payload": 1 })).await;
        assert_eq!(said.status, StatusCode::FORBIDDEN, "{name}: {value}");
    }
}

#[tokio::test]
async fn a_message_is_stored_once_by_its_id_or_its_key() {
    let node = Node::new();
    let message = json!({ "topic": "order.placed", "payload": { "order": 7 }, "destination": "billing",
        "messageId": "0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01", "correlationId": "order-7", "headers": { "a": "b" },
        "kind": "Command", "dueAt": "2030-01-01T00:00:00Z", "expiresAfterSeconds": 60, "maxAttempts": 3 });
    for (status, duplicate) in [(StatusCode::CREATED, false), (StatusCode::OK, true)] {
        let said = node.post("/v1/messages", &message).await;
        assert_eq!((said.status, &said.json()["duplicate"]), (status, &json!(duplicate)), "{}", said.text);
    }
    let keyed = async |payload: &str| {
        let request = request(Method::POST, "/v1/messages").header("authorization", format!("Bearer {}", node.write));
        let request = request.header("content-type", "application/json").header("idempotency-key", "\"order 8\"");
        node.send(request, &json!({ "topic": "order.placed", "payload": payload })).await
    };
    let (first, second) = (keyed("8").await, keyed("8").await);
    let other = keyed("9").await;
    assert_eq!(other.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", other.text);
    assert!(other.text.contains("was used with other content"), "{}", other.text);
    assert_eq!((first.status, second.status), (StatusCode::CREATED, StatusCode::OK));
    assert_eq!(first.json()["messageId"], second.json()["messageId"]);
    assert_eq!(node.outbox.queue().stats().await.unwrap().ready, 2);
    assert_eq!(node.get("/_rf/outbox/stats").await.json()["pending"], 2);
}

#[tokio::test]
async fn who_enqueued_a_message_hears_what_became_of_it() {
    let node = Node::new();
    let message = json!({ "topic": "order.placed", "payload": { "order": 7 }, "destination": "billing" });
    let id = node.post("/v1/messages", &message).await.json()["messageId"].as_str().unwrap().to_owned();
    let status = async || node.get(&format!("/v1/messages/{id}")).await.json()["messages"][0].clone();
    let waiting = status().await;
    let told = |name: &str| waiting[name].clone();
    assert_eq!((told("state"), told("destination"), told("attempts")), (json!("ready"), json!("billing"), json!(0)));
    assert!(waiting["finishedAt"].is_null() && waiting["createdAt"].is_string(), "{waiting}");
    let owner = postroom::message::OwnerToken::new();
    let claim = node.outbox.queue().claim(owner, Duration::from_secs(30), 1).await.unwrap().claimed.remove(0);
    let answered = postroom::queue::Settle::ack_with(claim.lease, Some(r#"{"reserved":true}"#.into()));
    assert_eq!(node.outbox.queue().settle(vec![answered]).await.unwrap().applied, 1);
    let done = status().await;
    assert_eq!((&done["state"], &done["hasAnswer"]), (&json!("done"), &json!(true)), "{done}");
    for (path, wanted) in [("/v1/messages/7", 400), ("/v1/messages/0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01", 404)] {
        assert_eq!(node.get(path).await.status, wanted, "{path}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_message_is_said_and_nothing_is_stored() {
    let node = Node::new();
    for (message, error) in [
        (json!([]), "the body is invalid"),
        (json!({ "topic": "a" }), "the field `payload` is missing"),
        (json!({ "topic": "", "payload": 1 }), "topic must not be empty"),
        (json!({ "topic": "a", "payload": 1, "kind": "Letter" }), "the kind \"Letter\" is unknown"),
        (json!({ "topic": "a", "payload": 1, "messageId": "x" }), "is not a UUID"),
        (json!({ "topic": "a", "payload": 1, "dueAt": "tomorrow" }), "dueAt is not a valid time"),
        (json!({ "topic": "a", "payload": 1, "dueAt": "2030-01-01T00:00:00Z", "dueAfterSeconds": 1 }), "both dueAt"),
        (json!({ "topic": "a", "payload": 1, "dueAfterSeconds": 1, "headStartSeconds": 1 }), "and headStartSeconds"),
        (json!({ "topic": "a", "payload": 1, "headStartSeconds": 86_401 }), "a head start is at most 24 hours"),
        (json!({ "topic": "a", "payload": 1, "maxAttempts": 0 }), "max attempts"),
        (json!({ "topic": "a", "payload": 1, "maxAttempts": "7" }), "the field `maxAttempts` is invalid"),
        (json!({ "topic": 7, "payload": 1 }), "the field `topic` is invalid"),
        (json!({ "topic": "a", "payload": 1, "headers": { "b": 7 } }), "the field `headers.b` is invalid"),
        (json!({ "topic": "a", "payload": 1, "destination": "Bad Name" }), "destination must be 1 to 64"),
        (json!({ "topic": "a", "payload": 1, "colour": "red" }), "unknown field `colour`"),
    ] {
        let said = node.post("/v1/messages", &message).await;
        let told = said.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert!(said.status.is_client_error() && told.contains(error), "{message}: {} {told}", said.status);
    }
    let wrong = node.post("/v1/messages", &json!({ "topic": "a", "payload": 1, "headers": { "b": 7 } })).await.json();
    let expected = json!({
        "title": "Bad Request", "status": 400,
        "detail": "the field `headers.b` is invalid", "advice": "it must be a string",
        "errors": [{ "field": "headers.b", "detail": "it must be a string" }],
    });
    assert_eq!(wrong, expected);
    let large = json!({ "topic": "a", "payload": "x".repeat(6 * 1024 * 1024) });
    assert_eq!(node.post("/v1/messages", &large).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(node.post("/v1/elsewhere", &json!({})).await.status, StatusCode::NOT_FOUND);
    assert_eq!(node.post("/_rf/health", &json!({})).await.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn what_failed_is_listed_by_pages_and_can_be_tried_again() {
    let node = Node::new();
    for n in 0..3 {
        node.outbox.enqueue(NewMessage::new("a", "secret").to(format!("service-{n}"))).await.unwrap();
    }
    let claims = node.outbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 10).await.unwrap();
    let _ = node
        .outbox
        .queue()
        .fail(claims.claimed.into_iter().map(|claimed| claimed.lease), "no such item")
        .await
        .unwrap();
    let first = node.get("/_rf/outbox/failed?limit=2").await;
    assert!(!first.text.contains("secret"), "a payload was shown");
    let (first, next) = (first.json(), first.json()["next"].clone());
    assert_eq!(
        (first["messages"].as_array().unwrap().len(), &first["messages"][0]["error"]),
        (2, &json!("no such item"))
    );
    let second = node.get(&format!("/_rf/outbox/failed?limit=2&after={next}")).await.json();
    assert_eq!((second["messages"].as_array().unwrap().len(), &second["next"]), (1, &Value::Null));
    let narrow = node.get("/_rf/outbox/failed?destination=service-1").await.json();
    assert_eq!(narrow["messages"].as_array().unwrap().len(), 1);
    assert_eq!(node.get("/_rf/outbox/failed?limit=0").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(node.get("/_rf/health").await.json()["status"], "yellow");

    let id = first["messages"][0]["messageId"].as_str().unwrap();
    let retry = format!("/_rf/outbox/{id}/retry");
    assert_eq!(node.post(&retry, &Value::Null).await.json()["retried"], 1);
    assert_eq!(node.post(&retry, &Value::Null).await.status, StatusCode::CONFLICT);
    let unknown = "/_rf/outbox/0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01/retry";
    assert_eq!(node.post(unknown, &Value::Null).await.status, StatusCode::NOT_FOUND);
    assert_eq!(node.post("/_rf/outbox/7/retry", &Value::Null).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_message_is_cancelled_while_it_waits_or_is_in_progress() {
    let node = Node::new();
    let path = |id: postroom::MessageId| format!("/_rf/outbox/{id}/cancel");
    let (held, waiting) = (NewMessage::new("a", ""), NewMessage::new("a", ""));
    node.outbox.enqueue(held.clone()).await.unwrap();
    node.outbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 1).await.unwrap();
    node.outbox.enqueue(waiting.clone()).await.unwrap();
    let done = node.post(&path(waiting.message_id()), &Value::Null).await.json();
    assert_eq!((&done["cancelled"], &done["askedToStop"]), (&json!(1), &json!(0)));
    assert_eq!(node.post(&path(waiting.message_id()), &Value::Null).await.status, StatusCode::CONFLICT);
    let asked = node.post(&path(held.message_id()), &Value::Null).await.json();
    assert_eq!((&asked["cancelled"], &asked["askedToStop"]), (&json!(0), &json!(1)));
    let unknown = postroom::MessageId::new();
    assert_eq!(node.post(&path(unknown), &Value::Null).await.status, StatusCode::NOT_FOUND);
    assert_eq!(node.outbox.queue().audit(10).await.unwrap()[0].act(), postroom::operator::Act::Cancel);
}

#[tokio::test]
async fn a_lane_and_a_unique_key_are_cancelled() {
    let node = Node::new();
    let report = NewMessage::new("a", "");
    let keyed = || report.clone().unique(Unique::until_done("report-7"));
    let in_lane = || NewMessage::new("a", "").lane("order-7");
    // The same message also goes to another service, without a key.
    node.outbox.enqueue_many([keyed(), in_lane(), in_lane(), report.clone().to("billing")]).await.unwrap();
    let cancel = async |body: Value| node.post("/_rf/outbox/cancel", &body).await;
    for wrong in [json!({}), json!({ "lane": "order-7", "uniqueKey": "report-7" }), json!({ "lane": "" }), json!([])] {
        assert_eq!(cancel(wrong).await.status, StatusCode::BAD_REQUEST);
    }
    let lane = cancel(json!({ "lane": "order-7", "why": "the order was cancelled" })).await.json();
    assert_eq!(lane, json!({ "cancelled": 2, "askedToStop": 0 }));
    let entry = &node.outbox.queue().audit(10).await.unwrap()[0];
    assert_eq!((entry.chosen(), entry.why()), (Some("lane order-7"), Some("the order was cancelled")));
    let one = cancel(json!({ "uniqueKey": "report-7" })).await.json();
    assert_eq!(one, json!({ "cancelled": 1, "askedToStop": 0 }));
    assert_eq!(node.outbox.queue().stats().await.unwrap().ready, 1, "what goes to billing has no key");
    assert_eq!(cancel(json!({ "uniqueKey": "report-7" })).await.status, StatusCode::CONFLICT);
    assert_eq!(cancel(json!({ "uniqueKey": "report-8" })).await.status, StatusCode::NOT_FOUND);
    let inbox = async |body: Value| node.post("/_rf/inbox/cancel", &body).await;
    assert_eq!(inbox(json!({ "lane": "shop/order-7" })).await.json()["cancelled"], 0);
    assert_eq!(inbox(json!({ "uniqueKey": "report-7" })).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_unique_key_keeps_messages_out_over_http() {
    let node = Node::new();
    let asked = |unique: Value| json!({ "topic": "report.run", "payload": {}, "unique": unique });
    let send = async |body: Value| node.post("/v1/messages", &body).await;
    let first = send(asked(json!({ "key": "report" }))).await;
    assert_eq!(first.status, StatusCode::CREATED);
    let first = first.json()["messageId"].as_str().unwrap().to_owned();
    let kept_out = send(asked(json!({ "key": "report", "ifTaken": "keep" }))).await;
    assert_eq!(kept_out.status, StatusCode::OK);
    let kept_out = kept_out.json();
    assert_eq!((&kept_out["duplicate"], &kept_out["keptOutBy"]), (&json!(true), &json!(first)));
    let refused = send(asked(json!({ "key": "report", "ifTaken": "refuse" }))).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert!(refused.json()["detail"].as_str().unwrap().contains(&first));
    assert_eq!(refused.json()["keptOutBy"], json!(first));
    let replacing = send(asked(json!({ "key": "report", "ifTaken": "replace", "until": "done" }))).await;
    assert_eq!((replacing.status, &replacing.json()["replaced"]), (StatusCode::CREATED, &json!(first)));
    let batch =
        json!({ "messages": [asked(json!({ "key": "report" })), asked(json!({ "key": "x", "forSeconds": 60 }))] });
    let batch = node.post("/v1/messages/batch", &batch).await.json();
    assert_eq!((&batch["messages"][0]["duplicate"], &batch["messages"][1]["duplicate"]), (&json!(true), &json!(false)));
    // A batch is repeated as it was: the first message was stored, and the second kept out.
    let batch = json!({ "messages": [{ "topic": "a", "payload": {} }, asked(json!({ "key": "report" }))] });
    let send_batch = async || {
        let request = request(Method::POST, "/v1/messages/batch").header("idempotency-key", "a batch");
        let request = request.header("authorization", format!("Bearer {}", node.write));
        node.send(request.header("content-type", "application/json"), &batch).await
    };
    assert_eq!(send_batch().await.status, StatusCode::CREATED);
    let again = send_batch().await;
    assert_eq!(again.status, StatusCode::OK, "{:?}", again.json());
    for wrong in [
        json!({}),
        json!({ "key": "" }),
        json!({ "key": "a", "until": "soon" }),
        json!({ "key": "a", "forSeconds": 0 }),
        json!({ "key": "a", "until": "done", "forSeconds": 60 }),
        json!({ "key": "a", "ifTaken": "ignore" }),
        json!("a"),
    ] {
        assert_eq!(send(asked(wrong.clone())).await.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
    assert_eq!(node.outbox.queue().stats().await.unwrap().total(), 4);
}

#[tokio::test]
async fn a_dismissed_message_is_no_reason_to_worry_any_more() {
    let node = Node::new();
    node.outbox.enqueue(NewMessage::new("a", "")).await.unwrap();
    let claims = node.outbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 1).await.unwrap();
    let _ = node.outbox.queue().fail(claims.claimed.into_iter().map(|claimed| claimed.lease), "no").await.unwrap();
    let failed = node.get("/_rf/outbox/failed").await.json();
    let path = format!("/_rf/outbox/{}/dismiss", failed["messages"][0]["messageId"].as_str().unwrap());
    for wrong in [json!({}), json!({ "by": "ada" }), json!({ "by": "ada", "why": " " })] {
        assert!(node.post(&path, &wrong).await.status.is_client_error(), "{wrong}");
    }
    let dismissal = json!({ "by": "ada", "why": "a test order" });
    assert_eq!(node.post(&path, &dismissal).await.json()["dismissed"], 1);
    assert_eq!(node.post(&path, &dismissal).await.status, StatusCode::CONFLICT, "it is dismissed already");
    let unknown = "/_rf/outbox/0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01/dismiss";
    assert_eq!(node.post(unknown, &dismissal).await.status, StatusCode::NOT_FOUND);
    let stats = node.get("/_rf/outbox/stats").await.json();
    assert_eq!((&stats["failed"], &stats["dismissed"]), (&json!(0), &json!(1)));
    assert_eq!(node.get("/_rf/health").await.json()["status"], "green");
}

/// Requests without a token see the results of background checks, and never start one.
#[tokio::test(start_paused = true)]
async fn a_node_looks_by_itself_again_and_again() {
    let node = Node::new();
    let status = async || node.send(request(Method::GET, "/_rf/health"), &Value::Null).await.json()["status"].clone();
    let becomes = async |wanted: &str| {
        let mut turns = tokio::time::interval(Duration::from_secs(1));
        while status().await != wanted {
            turns.tick().await;
        }
    };
    assert_eq!(status().await, "green");
    node.outbox.enqueue(NewMessage::new("a", "")).await.unwrap();
    let claims = node.outbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 1).await.unwrap();
    let _ = node.outbox.queue().fail(claims.claimed.into_iter().map(|claimed| claimed.lease), "no").await.unwrap();
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert_eq!(status().await, "green", "a stranger made it look");
    let watched = async {
        becomes("yellow").await;
        let failed = node.get("/_rf/outbox/failed").await.json();
        let retry = format!("/_rf/outbox/{}/retry", failed["messages"][0]["messageId"].as_str().unwrap());
        assert_eq!(node.post(&retry, &Value::Null).await.status, StatusCode::OK);
        becomes("green").await;
    };
    tokio::select! {
        seen = tokio::time::timeout(Duration::from_secs(3600), watched) => seen.unwrap(),
        () = watch::keep_looking(node.desk.clone()) => {}
    }
}

/// The OpenAPI description matches the routes.
#[tokio::test]
async fn the_description_is_true() {
    let node = Node::new();
    let described = node.get("/openapi.json").await.json();
    let paths = described["paths"].as_object().unwrap();
    for (path, methods) in paths {
        let asked = path.replace("{messageId}", "0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01").replace("{queue}", "outbox");
        for (method, operation) in methods.as_object().unwrap() {
            let said = match method.as_str() {
                "get" => node.get(&asked).await,
                _ => node.post(&asked, &json!({})).await,
            };
            let told = &operation["responses"][said.status.as_str()];
            assert!(told.is_object(), "{method} {path} answers {}, which is not described", said.status);
            let is_about_one = ["retry", "cancel", "{messageId}"].iter().any(|end| path.ends_with(end));
            let is_missing = said.status == StatusCode::NOT_FOUND && !is_about_one;
            assert!(!is_missing && said.status != StatusCode::METHOD_NOT_ALLOWED, "{method} {path} is not there");
        }
    }
    let named = |path: &str| path.replace("/v1/outbox/", "/v1/{queue}/").replace("/v1/inbox/", "/v1/{queue}/");
    let named = |path: &str| named(path).replace("0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f01", "{messageId}");
    let known = |path: &str| paths.contains_key(&named(path)) || path == "/openapi.json";
    for (method, path) in GUARDED.into_iter().filter(|(_, path)| *path != "/nowhere") {
        assert!(known(path), "{method} {path} is not described");
    }
}

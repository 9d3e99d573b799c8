//! The admin page without a browser: rights, views and actions.

mod acts;
mod views;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use postroom::Handlers;
use postroom::Worker;
use postroom::clock::Timestamp;
use postroom::clock::{Clock, ManualClock};
use postroom::message::OwnerToken;
use postroom::operator::Filter;
use postroom::queue::WorkQueue;
use postroom::queue::{Queue, State};
use postroom::services::{Courier, Key, Secret, Service, Services};
use postroom::store::Memory;
use postroom::store::MemoryStore;
use postroom::worker::Places;
use postroom::{Inbox, InboxKey, Incoming, NewMessage, Outbox};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::groups::LOOKED_AT_MAX;
use super::{VIEWS_MAX, WATCHERS_MAX};
use crate::admin::{Desk, Parts, Tokens, Watched, router};
use crate::up::signals;

const HOST: &str = "127.0.0.1:7411";
const LEASE: Duration = Duration::from_secs(30);
const VIEWS: [&str; 5] = [
    "/admin/view/overview",
    "/admin/view/failed",
    "/admin/view/message?row=1",
    "/admin/view/find?id=stripe/evt",
    "/admin/view/audit",
];
const ACTS: [&str; 4] = ["/admin/act/revive", "/admin/act/dismiss", "/admin/act/expire", "/admin/act/purge"];

struct Node {
    router: Router,
    desk: Desk,
    stop: signals::Stop,
    store: MemoryStore,
    places: Places,
    outbox: Outbox,
    inbox: Inbox,
    clock: ManualClock,
    read: String,
    write: String,
    payload: String,
}

struct Said {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Said {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }
}

impl Node {
    fn new() -> Self {
        Self::with(Courier::new(Services::new("shop")).unwrap())
    }

    fn with(courier: Courier) -> Self {
        let clock = ManualClock::new(Timestamp::from_micros(1_771_070_400_000_000));
        let store = MemoryStore::with_clock(Clock::Manual(clock.clone()));
        let (tokens, [read, write, payload]) =
            Tokens::with([("reader", &["read"]), ("writer", &["operate"]), ("seer", &["payload"])]);
        let (outbox, inbox) = (Outbox::new(store.clone()), Inbox::new(store.clone()));
        let metrics = PrometheusBuilder::new().build_recorder().handle();
        let (hosts, (stop, stopped)) = (vec![HOST.to_owned()], signals::stop());
        let places = Places::default();
        let watched = Watched { courier, places: places.clone(), file: None };
        let parts = Parts {
            store: Arc::new(store.clone()),
            metrics,
            counters: None,
            watched,
            taken_for: Duration::from_secs(3600),
            policies: postroom::queue::RetryPolicies::default(),
            stopped,
        };
        let desk = Desk::new(parts, tokens, hosts);
        Self { router: router(desk.clone()), desk, stop, store, places, outbox, inbox, clock, read, write, payload }
    }

    async fn ask(&self, method: Method, path: &str, token: Option<&str>, body: &Value) -> Said {
        let request = Request::builder().method(method).uri(path).header("host", HOST);
        let request = match token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        };
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let request = request.header("content-type", "application/json").body(body).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.into_body().collect().await.unwrap().to_bytes();
        Said { status, headers, text: String::from_utf8(text.to_vec()).unwrap() }
    }

    async fn view(&self, path: &str) -> String {
        let said = self.ask(Method::GET, &format!("/admin/view/{path}"), Some(&self.write), &Value::Null).await;
        assert_eq!(said.status, StatusCode::OK, "{path}: {}", said.text);
        said.text
    }

    async fn act(&self, what: &str, body: Value) -> Said {
        self.ask(Method::POST, &format!("/admin/act/{what}"), Some(&self.write), &body).await
    }

    async fn watch(&self) -> axum::response::Response {
        let request = Request::builder().uri("/admin/live").header("host", HOST);
        let request = request.header("authorization", format!("Bearer {}", self.read)).body(Body::empty()).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Makes dead messages, one for each error.
    async fn give_up(&self, topic: &str, errors: &[&str]) {
        for error in errors {
            self.outbox.enqueue(NewMessage::new(topic, "payload-of-it").header("x-part", "value-of-it")).await.unwrap();
            let claims = self.outbox.queue().claim(OwnerToken::new(), LEASE, 1).await.unwrap().claimed;
            let _ = self.outbox.queue().fail(claims.into_iter().map(|claimed| claimed.lease), error).await.unwrap();
        }
    }

    async fn dead(&self) -> u64 {
        self.outbox.queue().stats().await.unwrap().dead
    }
}

/// The digest of the group in a link.
fn group_in(html: &str, text: &str) -> String {
    let end = html.find(text).unwrap_or_else(|| panic!("no {text}: {html}"));
    let link = html[..end].rsplit("group=").next().unwrap();
    link.split('"').next().unwrap().to_owned()
}

#[tokio::test]
async fn the_files_need_no_token_and_hold_no_data() {
    let node = Node::new();
    node.give_up("order.placed", &["no stock"]).await;
    for path in
        ["/admin", "/admin/page.css", "/admin/page.js", "/admin/session.js", "/admin/charts.js", "/admin/actions.js"]
    {
        let said = node.ask(Method::GET, path, None, &Value::Null).await;
        assert_eq!(said.status, StatusCode::OK, "{path}");
        assert!(!said.text.contains("order.placed"), "{path}");
        // The namespace of SVG is a URL, but is never requested.
        let text = said.text.replace("http://www.w3.org/2000/svg", "");
        assert!(!text.contains("http://") && !text.contains("https://"), "{path} names another host");
        assert!(!text.contains("\"//") && !text.contains("'//") && !text.contains("(//"), "{path} names another host");
    }
    let said = node.ask(Method::GET, "/", None, &Value::Null).await;
    assert_eq!((said.status, &said.headers["location"]), (StatusCode::SEE_OTHER, &HeaderValue::from_static("/admin")));
}

#[tokio::test]
async fn a_link_elsewhere_opens_the_page_and_nothing_else() {
    let node = Node::new();
    for (method, path, mode, status) in [
        (Method::GET, "/admin", "navigate", StatusCode::OK),
        (Method::GET, "/admin", "no-cors", StatusCode::FORBIDDEN),
        (Method::GET, "/admin/page.js", "no-cors", StatusCode::FORBIDDEN),
        (Method::GET, "/admin/view/overview", "navigate", StatusCode::FORBIDDEN),
        (Method::POST, "/admin", "navigate", StatusCode::FORBIDDEN),
    ] {
        let request = Request::builder().method(method).uri(path).header("host", HOST);
        let request = request.header("sec-fetch-site", "cross-site").header("sec-fetch-mode", mode);
        let response = node.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), status, "{path} {mode}");
    }
}

#[tokio::test]
async fn everything_that_has_data_needs_a_token() {
    let node = Node::new();
    for path in VIEWS.into_iter().chain(["/admin/live"]) {
        for token in [None, Some("no")] {
            let said = node.ask(Method::GET, path, token, &Value::Null).await;
            assert_eq!(said.status, StatusCode::UNAUTHORIZED, "{path}");
        }
    }
    for path in ACTS {
        for (token, status) in [
            (None, StatusCode::UNAUTHORIZED),
            (Some(&node.read), StatusCode::FORBIDDEN),
            (Some(&node.payload), StatusCode::FORBIDDEN),
        ] {
            let said = node.ask(Method::POST, path, token.map(String::as_str), &json!({ "all": true })).await;
            assert_eq!(said.status, status, "{path}");
        }
    }
}

#[tokio::test]
async fn every_answer_says_what_a_browser_may_do_with_it() {
    let node = Node::new();
    for (path, token) in
        [("/admin", None), ("/admin/page.js", None), ("/admin/view/overview", Some(&*node.read)), (VIEWS[1], None)]
    {
        let said = node.ask(Method::GET, path, token, &Value::Null).await;
        let header = |name: &str| said.headers[name].to_str().unwrap();
        assert!(header("content-security-policy").starts_with("default-src 'none'; script-src 'self';"), "{path}");
        assert!(header("content-security-policy").contains("frame-ancestors 'none'"));
        assert_eq!((header("x-content-type-options"), header("referrer-policy")), ("nosniff", "no-referrer"));
        assert_eq!(header("cache-control"), "no-store");
        assert!(!said.headers.contains_key("set-cookie"));
    }
}

#[tokio::test]
async fn nothing_that_came_from_outside_is_markup() {
    let node = Node::new();
    let evil = "<script>alert(\"1\")</script>";
    node.give_up(evil, &[evil]).await;
    node.inbox.enqueue(Incoming::new(InboxKey::new("<b>", evil).unwrap(), evil, evil)).await.unwrap();
    let found = node.view("find?id=%3Cb%3E/%3Cscript%3Ealert(%221%22)%3C/script%3E").await;
    for html in
        [node.view("failed").await, node.view("failed?q=%3Cscript%3E").await, node.view("message?row=1").await, found]
    {
        assert!(!html.contains("<script") && !html.contains("<b>\u{3c}"), "{html}");
        assert!(html.contains("&lt;script&gt;"), "{html}");
    }
}

#[tokio::test]
async fn so_many_look_through_messages_at_once_and_no_more() {
    let node = Node::new();
    node.give_up("a", &["x"]).await;
    let places: Vec<_> = (0..VIEWS_MAX).map(|_| node.desk.0.page.place().unwrap()).collect();
    for path in &VIEWS[1..] {
        let said = node.ask(Method::GET, path, Some(&node.read), &Value::Null).await;
        assert_eq!(said.status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
    }
    let count = json!({ "all": true, "dryRun": true });
    assert_eq!(node.act("revive", count.clone()).await.status, StatusCode::SERVICE_UNAVAILABLE);
    drop(places);
    assert_eq!(node.act("revive", count).await.status, StatusCode::OK);
}

#[tokio::test]
async fn who_watches_is_told_the_end_when_the_node_stops() {
    let node = Node::new();
    let mut body = node.watch().await.into_body();
    assert!(body.frame().await.is_some());
    node.stop.ask();
    while let Some(frame) = body.frame().await {
        frame.unwrap();
    }
}

#[tokio::test]
async fn so_many_watch_and_no_more() {
    let node = Node::new();
    let mut watching = Vec::new();
    for _ in 0..WATCHERS_MAX {
        watching.push(node.watch().await);
    }
    assert!(watching.iter().all(|response| response.status() == StatusCode::OK));
    assert_eq!(node.watch().await.status(), StatusCode::SERVICE_UNAVAILABLE);
    watching.pop();
    assert_eq!(node.watch().await.status(), StatusCode::OK, "a place is free again");
}

#[tokio::test]
async fn samples_are_told_as_they_are_taken() {
    let node = Node::new();
    let response = node.watch().await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let (mut body, mut text) = (response.into_body(), String::new());
    node.give_up("a", &["x"]).await;
    while !text.contains("event: sample") {
        let frame = body.frame().await.unwrap().unwrap();
        text += std::str::from_utf8(frame.data_ref().unwrap()).unwrap();
    }
    assert!(text.starts_with("event: history\ndata: []"), "{text}");
    let sample = text.rsplit("data: ").next().unwrap();
    let sample: Value = serde_json::from_str(sample.trim()).unwrap();
    assert_eq!((&sample["outbox"]["dead"], &sample["outbox"]["inPerSecond"]), (&json!(1), &Value::Null));
}

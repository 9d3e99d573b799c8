//! The page without a browser: who may see what, what is shown, and what is done.

mod acts;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use postroom::{Clock, Filter, Inbox, InboxKey, Incoming, ManualClock, MemoryStore, NewMessage, Outbox, OwnerToken};
use postroom::{Courier, Handlers, Key, Memory, Places, Queue, Secret, Service, Services, State, Timestamp};
use postroom::{WorkQueue, Worker};
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
            policies: postroom::RetryPolicies::default(),
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

    /// Gives messages up, one for each error.
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
        // The name of SVG is an address, and never asked.
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
async fn the_overview_counts_and_offers_only_what_the_token_may() {
    let node = Node::new();
    node.give_up("a", &["x"]).await;
    let html = node.view("overview").await;
    assert!(html.contains("data-live=\"outbox.dead\">1<") && html.contains("data-act=\"purge\""), "{html}");
    assert!(html.contains("No services are configured"));
    let said = node.ask(Method::GET, VIEWS[0], Some(&node.read), &Value::Null).await.text;
    assert!(!said.contains("data-act") && said.contains("This token may not operate"), "{said}");
}

#[tokio::test]
async fn the_overview_says_where_each_service_stands() {
    let key = Key::new("2026-11", Secret::parse(&Secret::generate()).unwrap()).unwrap();
    // Nobody listens at port 9 of this machine.
    let billing = Service::new("billing", "http://127.0.0.1:9").keys(key);
    let courier = Courier::new(Services::new("shop").service(billing)).unwrap();
    let node = Node::with(courier.clone());
    assert!(node.view("overview").await.contains("data-way-state>no trouble<"));
    for _ in 0..7 {
        node.outbox.enqueue(NewMessage::new("a", "{}").to("billing")).await.unwrap();
    }
    let worker = Worker::<Memory>::outbox(node.store.clone(), Handlers::new()).transport(courier);
    let (worker, (end, ended)) = (worker.places(node.places.clone()), tokio::sync::oneshot::channel::<()>());
    let looking = async {
        while node.outbox.queue().holds().await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        let html = node.view("overview").await;
        assert!(html.contains("badge bad\" data-way-state>left alone after"), "{html}");
        assert!(html.contains("7 messages wait for billing since 20"), "{html}");
        assert!(html.contains("Connection refused") && html.contains("unreachable"), "{html}");
        let health = node.ask(Method::GET, "/_rf/health", Some(&node.read), &Value::Null).await.json();
        assert_eq!(health["reasons"][0]["kind"], "destination", "{health}");
        assert!(health["reasons"][0]["what"].as_str().unwrap().starts_with("7 messages wait for billing"), "{health}");
        drop(end);
    };
    let (ran, ()) = tokio::join!(worker.run(async { drop(ended.await) }), looking);
    ran.unwrap();
}

#[tokio::test]
async fn failures_are_grouped_by_what_they_say() {
    let node = Node::new();
    assert!(node.view("failed").await.contains("Nothing has failed in the outbox"));
    node.give_up("a", &["order 7 has no item", "order 8 has no item", "timeout"]).await;
    node.give_up("b", &["order 9 has no item"]).await;
    let html = node.view("failed").await;
    assert_eq!(html.matches("order # has no item</span></a>").count(), 2, "a topic each: {html}");
    assert!(html.contains("data-label=\"Messages\">2<"), "{html}");
    let group = group_in(&html, "order # has no item</span></a></td><td data-label=\"Topic\">a");
    let html = node.view(&format!("failed?group={group}")).await;
    assert!(html.contains("order 7 has") && html.contains("order 8 has") && !html.contains("order 9 has"), "{html}");
    let gone = node.view("failed?group=00").await;
    assert!(gone.contains("Nothing is in this group any more") && gone.contains("← All groups"), "{gone}");
    assert_eq!(node.act("revive", json!({ "group": "00" })).await.status, StatusCode::NOT_FOUND);
    let inbox = node.view("failed?queue=inbox").await;
    assert!(inbox.contains("Nothing has failed in the inbox"), "{inbox}");
    let wrong = node.ask(Method::GET, "/admin/view/failed?queue=letters", Some(&node.read), &Value::Null).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn what_failed_is_searched_and_paged() {
    let node = Node::new();
    let errors: Vec<_> = (0..60).map(|n| format!("failure {n}")).collect();
    node.give_up("a", &errors.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let first = node.view("failed").await;
    assert_eq!(first.matches("class=\"id\"").count(), 50);
    let next = first.split("#/").last().unwrap().split('"').next().unwrap().replace("&amp;", "&");
    let second = node.view(&next).await;
    assert_eq!(second.matches("class=\"id\"").count(), 10);
    assert!(second.contains("First page") && !second.contains("Next page"));
    let found = node.view("failed?q=FAILURE%205").await;
    assert_eq!(found.matches("class=\"id\"").count(), 11, "5 and 50 to 59");
    assert!(node.view("failed?q=nothing%20like%20it").await.contains("No message matches."));
    let long = "x".repeat(201);
    let said = node.ask(Method::GET, &format!("/admin/view/failed?q={long}"), Some(&node.read), &Value::Null).await;
    assert_eq!(said.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_payload_is_shown_only_to_those_who_may_see_it() {
    let node = Node::new();
    node.outbox
        .enqueue(
            NewMessage::new("a", "payload-of-it").header("x-part", "value-of-it").header("x-api-key", "secret-of-it"),
        )
        .await
        .unwrap();
    let story = "/admin/view/message?row=1";
    for token in [&node.read, &node.write] {
        let said = node.ask(Method::GET, story, Some(token), &Value::Null).await;
        assert!(!said.text.contains("-of-it"), "{}", said.text);
        assert_eq!(said.text.matches("hidden: this token may not see payloads").count(), 3);
        assert!(said.text.contains("x-part") && said.text.contains("13 bytes"));
    }
    let open = node.ask(Method::GET, story, Some(&node.payload), &Value::Null).await.text;
    assert!(open.contains("payload-of-it") && open.contains("value-of-it") && !open.contains("secret-of-it"), "{open}");
}

#[tokio::test]
async fn a_story_tells_every_attempt_and_who_holds_it() {
    let node = Node::new();
    node.outbox.enqueue(NewMessage::new("a", "{}").to("billing").correlation_id("order-7")).await.unwrap();
    let queue: &WorkQueue = node.outbox.queue();
    for error in ["no route", "still none"] {
        let lease = queue.claim(OwnerToken::new(), LEASE, 1).await.unwrap().claimed.remove(0).lease;
        let _ = queue.abandon([lease], error, Some(Duration::from_secs(1))).await.unwrap();
        node.clock.advance(LEASE);
    }
    let owner = OwnerToken::new();
    queue.claim(owner, LEASE, 1).await.unwrap();
    let html = node.view("message?row=1").await;
    for part in ["Attempt 1", "no route", "Attempt 2", "still none", "billing", "order-7", "Held until", "leased"] {
        assert!(html.contains(part), "no {part}: {html}");
    }
    assert!(html.contains(&owner.to_string()) && !html.contains("data-act"), "what is in hand cannot be retried");
    let missing = node.ask(Method::GET, "/admin/view/message?row=9", Some(&node.read), &Value::Null).await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    let id = queue.list(Filter::all()).await.unwrap()[0].message().unwrap().id();
    assert!(node.view(&format!("find?id={id}")).await.contains(&id));
    let unknown = node.ask(Method::GET, "/admin/view/find?id=nobody", Some(&node.read), &Value::Null).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_others_answered_is_shown_only_to_those_who_may_see_payloads() {
    let node = Node::new();
    node.give_up("a", &["it answered 422\nAda is unknown", "it answered 422\nBob is unknown"]).await;
    let group = group_in(&node.view("failed").await, "it answered #</span></a>");
    for path in ["failed", "message?row=1", &format!("failed?group={group}"), "failed?q=answered"] {
        let html = node.view(path).await;
        assert!(html.contains("it answered") && !html.contains("unknown"), "{path}: {html}");
    }
    assert!(node.view("failed?q=Ada").await.contains("No message matches."), "a search would tell it as well");
    assert_eq!(node.act("revive", json!({ "q": "ada", "dryRun": true })).await.json()["messages"], 0);
    let listed = node.ask(Method::GET, "/_rf/outbox/failed", Some(&node.read), &Value::Null).await.text;
    assert!(listed.contains("it answered 422") && !listed.contains("unknown"), "{listed}");
    let open = node.ask(Method::GET, VIEWS[1], Some(&node.payload), &Value::Null).await.text;
    assert!(open.contains("Ada is unknown") && open.contains("it answered # Bob is unknown</span></a>"), "{open}");
    let open = node.ask(Method::GET, VIEWS[2], Some(&node.payload), &Value::Null).await.text;
    assert!(open.contains("Ada is unknown"), "{open}");
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

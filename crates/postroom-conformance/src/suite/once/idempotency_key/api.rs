//! A service behind the layer, and requests to it.

use std::pin::Pin;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use postroom::clock::Timestamp;
use postroom::idempotent::{IdempotencyKeyLayer, IdempotencyKeyOptions, IdempotentTx};
use postroom::operator::Filter;
use postroom::store::BoxFuture;
use postroom::{NewMessage, Outbox};
use tower::ServiceExt;

use crate::harness::{Stage, Testable};

const NEVER: Timestamp = Timestamp::from_micros(i64::MAX);

type Before = dyn Fn() -> BoxFuture<'static, ()> + Send + Sync;

/// What the handlers share.
#[derive(Clone, Default)]
struct Desk {
    calls: Arc<AtomicUsize>,
    /// How the next call is answered, if not as usual.
    status: Arc<AtomicU16>,
    /// What comes before the answer.
    before: Arc<Mutex<Option<Arc<Before>>>>,
}

impl Desk {
    async fn called(&self) -> (usize, Option<StatusCode>) {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(before) = before {
            before().await;
        }
        (call, StatusCode::from_u16(self.status.swap(0, Ordering::SeqCst)).ok())
    }
}

/// Leaves its effect, and answers with what is neither text nor always the same.
async fn place<B: Testable>(State(desk): State<Desk>, IdempotentTx(shared): IdempotentTx<B>) -> Response {
    let stored = async {
        let mut ctx = shared.lock().await?;
        ctx.enqueue(NewMessage::new("forwarded", "").due_at(NEVER)).await
    };
    if let Err(error) = stored.await {
        return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
    }
    let (call, status) = desk.called().await;
    if let Some(status) = status {
        return status.into_response();
    }
    let mut body = format!("order {call} ").into_bytes();
    body.push(0xff);
    let headers = [("location", format!("/orders/{call}")), ("set-cookie", "session=1".into())];
    (StatusCode::CREATED, headers, body).into_response()
}

async fn plain<B: Testable>(State(desk): State<Desk>, tx: Option<IdempotentTx<B>>) -> String {
    let how = if tx.is_some() { "in a" } else { "without a" };
    format!("plain {}, {how} transaction", desk.called().await.0)
}

async fn large(State(desk): State<Desk>) -> Vec<u8> {
    desk.called().await;
    vec![b'x'; 1001]
}

async fn events(State(desk): State<Desk>) -> impl IntoResponse {
    desk.called().await;
    ([("content-type", "text/event-stream")], "data: 1\n\n")
}

pub(super) struct Api<B: Testable> {
    desk: Desk,
    router: Router,
    store: B::Store,
    outbox: Outbox,
}

impl<B: Testable> Clone for Api<B> {
    fn clone(&self) -> Self {
        let (desk, router, store) = (self.desk.clone(), self.router.clone(), self.store.clone());
        Self { desk, router, store, outbox: self.outbox.clone() }
    }
}

impl<B: Testable> Api<B> {
    pub(super) fn open(stage: &Stage<B>, options: IdempotencyKeyOptions) -> anyhow::Result<Self> {
        Self::at(stage, &stage.store, options)
    }

    /// On another way to the stage's store.
    pub(super) fn at(stage: &Stage<B>, store: &B::Store, options: IdempotencyKeyOptions) -> anyhow::Result<Self> {
        Self::new(Desk::default(), store, &stage.outbox, "orders-api", options)
    }

    /// The same handlers behind another layer.
    pub(super) fn named(&self, name: &str, options: IdempotencyKeyOptions) -> anyhow::Result<Self> {
        Self::new(self.desk.clone(), &self.store, &self.outbox, name, options)
    }

    /// The same handlers in another process.
    pub(super) fn elsewhere(&self, store: &B::Store) -> anyhow::Result<Self> {
        Self::new(self.desk.clone(), store, &self.outbox, "orders-api", IdempotencyKeyOptions::default())
    }

    fn new(
        desk: Desk,
        store: &B::Store,
        outbox: &Outbox,
        name: &str,
        options: IdempotencyKeyOptions,
    ) -> anyhow::Result<Self> {
        let layer = IdempotencyKeyLayer::<B>::with(store.clone(), name, options)?;
        let router = Router::new()
            .route("/orders", post(place::<B>).patch(place::<B>))
            .route("/other", post(place::<B>))
            .route("/plain", post(plain::<B>).put(plain::<B>))
            .route("/large", post(large))
            .route("/events", post(events))
            .layer(layer.clone())
            .nest("/tenants/{tenant}", Router::new().route("/orders", post(place::<B>)).layer(layer))
            .route("/bare", post(place::<B>))
            .with_state(desk.clone());
        Ok(Self { desk, router, store: store.clone(), outbox: outbox.clone() })
    }

    /// How often a handler was called.
    pub(super) fn calls(&self) -> usize {
        self.desk.calls.load(Ordering::SeqCst)
    }

    /// How many calls had an effect.
    pub(super) async fn effects(&self) -> anyhow::Result<usize> {
        Ok(self.outbox.queue().list(Filter::all().topic("forwarded")).await?.len())
    }

    /// The next call is answered with this.
    pub(super) fn answer_once(&self, status: StatusCode) {
        self.desk.status.store(status.as_u16(), Ordering::SeqCst);
    }

    /// What comes before each answer from now on.
    pub(super) fn before(&self, before: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static) {
        *self.desk.before.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(before));
    }

    pub(super) async fn send(&self, call: Call) -> anyhow::Result<Said> {
        let mut request = Request::builder().method(call.method).uri(call.path);
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        let body = if call.stalls { Body::new(Stalled) } else { Body::from(call.body) };
        let response = self.router.clone().oneshot(request.body(body)?).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes().to_vec();
        Ok(Said { status: head.status, headers: head.headers, body })
    }
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: &'static str,
    /// The body never comes.
    pub(super) stalls: bool,
}

struct Stalled;

impl hyper::body::Body for Stalled {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
        Poll::Pending
    }
}

impl Call {
    pub(super) fn unkeyed() -> Self {
        Self { method: Method::POST, path: "/orders", headers: Vec::new(), body: "{}", stalls: false }
    }

    pub(super) fn keyed(key: &str) -> Self {
        Self::unkeyed().header("idempotency-key", key)
    }

    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

/// A response.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) status: StatusCode,
    headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Said {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(super) fn is_replayed(&self) -> bool {
        self.header("idempotency-replayed") == "true"
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The title of a problem.
    pub(super) fn title(&self) -> anyhow::Result<String> {
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem: serde_json::Value = serde_json::from_slice(&self.body)?;
        assert_eq!(problem["status"], self.status.as_u16());
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
        Ok(problem["title"].as_str().unwrap_or_default().to_owned())
    }
}

//! The `Idempotency-Key` header, as a layer for axum.

mod exchange;
mod extract;
mod kept;
mod key;
mod options;
mod problem;

pub use extract::IdempotentTx;
pub use options::IdempotencyKeyOptions;
pub use problem::IdempotencyProblem;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::Request;
use tokio::sync::Semaphore;
use tower_layer::Layer;
use tower_service::Service;
use tracing::Instrument;

use exchange::{Whole, read};
use extract::Unkeyed;
use postroom_core::message::{Incoming, check_name};
use postroom_core::store::BoxFuture;
use postroom_core::support::error::{Error, ErrorKind, Result};
use postroom_core::support::task::in_background;
use postroom_core::work::handler::Backend;
use postroom_core::work::handler::InProgress;

/// The layer's name and a digest share a column, so the name has at most this many characters.
const NAME_CHARS_MAX: usize = 200;

/// Supports the `Idempotency-Key` header: a request is handled once, and a client that sends it again gets the stored
/// response. It follows `draft-ietf-httpapi-idempotency-key-header` and needs the feature `axum`.
///
/// | request | answer |
/// |---|---|
/// | the first with its key | the handler's; stored in one transaction with the handler's writes to [`IdempotentTx`] |
/// | the same again | the stored response, with `Idempotency-Replayed: true` |
/// | while the first is in progress | 409, with `Retry-After` |
/// | the same key for another method, target or body | 422 |
/// | a malformed key, or a missing key where one is required | 400 |
/// | a body that is too large to be compared | 413 |
///
/// A response of 5xx, 404, 405, 408, 409, 425 or 429 means *not now*: everything is rolled back, nothing is stored, and
/// the client may try again. 404 and 405 are among them because anybody can request paths and methods that do not
/// exist. After any other 4xx, the handler's writes are rolled back too, but the response is stored. A response that is
/// too large to store or never ends is rolled back too, and answered with 500: an error in the first test is better
/// than a request that is handled twice. Cookies and headers of a single connection are not stored. A request is
/// finished even if its client disconnects, and it is handled again if the database rolled its commit back.
///
/// Responses are stored in the inbox, for as long as handled messages: the retention of the store's inbox worker
/// decides, or you purge them by hand. On SQLite nobody else can write while a handler runs, and it is rolled back
/// after five seconds.
///
/// ```
/// use axum::{Router, body::Body, routing::post};
/// use http::Request;
/// use postroom::NewMessage;
/// use postroom::idempotent::{IdempotencyKeyLayer, IdempotentTx};
/// use postroom::store::{Memory, MemoryStore};
/// use tower::ServiceExt;
///
/// async fn place(IdempotentTx(shared): IdempotentTx<Memory>) -> Result<String, http::StatusCode> {
///     let mut ctx = shared.lock().await.map_err(|_| http::StatusCode::INTERNAL_SERVER_ERROR)?;
///     let stored = ctx.enqueue(NewMessage::new("order.placed", "{}")).await;
///     Ok(stored.map_err(|_| http::StatusCode::INTERNAL_SERVER_ERROR)?.id().to_string())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let layer = IdempotencyKeyLayer::<Memory>::new(MemoryStore::new(), "orders-api")?;
/// let app: Router = Router::new().route("/orders", post(place)).layer(layer);
///
/// let order = || Request::post("/orders").header("idempotency-key", "\"8e03978e\"").body(Body::empty()).unwrap();
/// let first = app.clone().oneshot(order()).await?;
/// let again = app.clone().oneshot(order()).await?;
/// assert_eq!((first.status(), again.status()), (http::StatusCode::OK, http::StatusCode::OK));
/// assert_eq!(again.headers()["idempotency-replayed"], "true");
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
pub struct IdempotencyKeyLayer<B: Backend>(Arc<LayerShared<B>>);

struct LayerShared<B: Backend> {
    store: B::Store,
    name: String,
    options: IdempotencyKeyOptions,
    in_progress: InProgress,
    /// Limits the requests whose clients have disconnected.
    room: Arc<Semaphore>,
}

impl<B: Backend> IdempotencyKeyLayer<B> {
    /// Creates a layer of that name. Layers with the same name on one store share their keys.
    pub fn new(store: B::Store, name: impl Into<String>) -> Result<Self> {
        Self::with(store, name, IdempotencyKeyOptions::default())
    }

    /// Creates a layer with options.
    pub fn with(store: B::Store, name: impl Into<String>, options: IdempotencyKeyOptions) -> Result<Self> {
        let (name, options) = (name.into(), options.checked()?);
        check_name("a layer's name", &name)?;
        if name.chars().count() > NAME_CHARS_MAX {
            return Err(Error::invalid(format!("a layer's name has at most {NAME_CHARS_MAX} characters")));
        }
        let room = Arc::new(Semaphore::new(options.in_flight.min(Semaphore::MAX_PERMITS)));
        Ok(Self(Arc::new(LayerShared { store, name, room, options, in_progress: InProgress::default() })))
    }
}

impl<B: Backend> Clone for IdempotencyKeyLayer<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: Backend> fmt::Debug for IdempotencyKeyLayer<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyKeyLayer").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl<B: Backend, S> Layer<S> for IdempotencyKeyLayer<B> {
    type Service = IdempotencyKeyService<B, S>;

    fn layer(&self, inner: S) -> IdempotencyKeyService<B, S> {
        IdempotencyKeyService { layer: self.clone(), inner }
    }
}

/// A service behind an [`IdempotencyKeyLayer`].
///
/// ```
/// use axum::Router;
/// use postroom::idempotent::{IdempotencyKeyLayer, IdempotencyKeyService};
/// use postroom::store::{Memory, MemoryStore};
/// use tower::Layer;
///
/// let layer = IdempotencyKeyLayer::new(MemoryStore::new(), "payments")?;
/// let service: IdempotencyKeyService<Memory, Router> = layer.layer(Router::new());
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Debug)]
pub struct IdempotencyKeyService<B: Backend, S> {
    layer: IdempotencyKeyLayer<B>,
    inner: S,
}

impl<B: Backend, S: Clone> Clone for IdempotencyKeyService<B, S> {
    fn clone(&self) -> Self {
        Self { layer: self.layer.clone(), inner: self.inner.clone() }
    }
}

impl<B, S> Service<Request<Body>> for IdempotencyKeyService<B, S>
where
    B: Backend,
    S: Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        // The service that is ready handles the request; its clone stays behind to become ready.
        let spare = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, spare.clone());
        let core = self.layer.0.clone();
        Box::pin(async move {
            let key = match core.key(&request) {
                Ok(Some(key)) => key,
                Ok(None) => {
                    request.extensions_mut().insert(Unkeyed);
                    return ready.call(request).await;
                }
                Err(problem) => return Ok(problem.into_response()),
            };
            Ok(core.take(ready, spare, request, key).await.unwrap_or_else(IntoResponse::into_response))
        })
    }
}

impl<B: Backend> LayerShared<B> {
    /// Returns the key of a request, or `None` for a request that passes without one.
    fn key(&self, request: &Request<Body>) -> Result<Option<String>, IdempotencyProblem> {
        if !self.options.methods.contains(request.method()) {
            return Ok(None);
        }
        match key::given(request.headers())? {
            None if self.options.required => Err(IdempotencyProblem::NO_KEY),
            key => Ok(key),
        }
    }

    /// Handles a request with a key, and finishes it even if its client disconnects: the client would only send it
    /// again.
    async fn take<S>(
        self: Arc<Self>,
        ready: S,
        spare: S,
        request: Request<Body>,
        key: String,
    ) -> Result<Response, IdempotencyProblem>
    where
        S: Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
    {
        let room = self.room.clone().try_acquire_owned().map_err(|_| IdempotencyProblem::OVERLOADED)?;
        let (head, body) = request.into_parts();
        // A request takes a place while its body is read, so reading has a time limit.
        let reading = tokio::time::timeout(self.options.timeout, read(body, self.options.request_max));
        let body = reading.await.map_err(|_| IdempotencyProblem::TOO_SLOW)??;
        let scoped = key::scoped(&self.name, self.options.scope.as_deref(), &head, key);
        let key = scoped.map_err(|_| IdempotencyProblem::MALFORMED_KEY)?;
        let incoming = Incoming::new(key, "http.request", "").hash(key::fingerprint(&head, &body));
        let alone = self.in_progress.enter(incoming.key()).ok_or(IdempotencyProblem::IN_PROGRESS)?;
        let exchange = async move {
            let _held = (alone, room);
            self.exchange(ready, spare, Whole { head, body }, incoming).await
        };
        in_background(exchange.in_current_span()).await.map_err(|ended| match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => IdempotencyProblem::database(&Error::new(ErrorKind::Unavailable, "the runtime is shutting down")),
        })
    }
}

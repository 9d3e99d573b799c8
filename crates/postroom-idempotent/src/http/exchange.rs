//! One request with a key: its row, the handler's effects and the response share one transaction.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::Request;
use http::request::Parts;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tower_service::Service;

use super::LayerShared;
use super::kept::{Kept, is_endless, is_final, is_refusal};
use super::problem::IdempotencyProblem;
use crate::SharedCtx;
use postroom_core::message::Incoming;
use postroom_core::queue::Queue;
use postroom_core::store::{Admission, Store};
use postroom_core::support::error::{Error, ErrorKind, Result};
use postroom_core::telemetry;
use postroom_core::work::handler::{Backend, Ctx, HOLD_MAX, Held, States, admit, retry_conflicts};

/// A request that was read completely.
pub(super) struct Whole {
    pub(super) head: Parts,
    pub(super) body: Bytes,
}

impl Whole {
    fn again<B: Backend>(&self, ctx: SharedCtx<B>) -> Request<Body> {
        let mut head = self.head.clone();
        head.extensions.insert(ctx);
        Request::from_parts(head, Body::from(self.body.clone()))
    }
}

/// Reads a whole body.
pub(super) async fn read(body: Body, max: usize) -> Result<Bytes, IdempotencyProblem> {
    match Limited::new(body, max).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(IdempotencyProblem::TOO_LARGE),
        Err(_) => Err(IdempotencyProblem::UNREADABLE),
    }
}

/// The answer of the service.
enum Served {
    /// A response that can be replayed when the client asks again.
    Final(http::response::Parts, Bytes),
    /// A response that cannot be replayed.
    ForNow(Response),
}

impl<B: Backend> LayerShared<B> {
    pub(super) async fn exchange<S>(&self, ready: S, spare: S, request: Whole, incoming: Incoming) -> Response
    where
        S: Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone + Send,
    {
        let (mut ready, request, incoming) = (Some(ready), &request, &incoming);
        let tried = retry_conflicts(move || {
            let service = ready.take().unwrap_or_else(|| spare.clone());
            self.attempt(service, request, incoming)
        });
        tried.await.unwrap_or_else(|error| {
            telemetry::request_broken(self.store.name(), &self.name, incoming.key(), &error);
            IdempotencyProblem::database(&error).into_response()
        })
    }

    async fn attempt<S>(&self, service: S, request: &Whole, incoming: &Incoming) -> Result<Response>
    where
        S: Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Send,
    {
        let hold = self.options.timeout.saturating_mul(2);
        let Held { tx, lease, message } = match admit::<B>(&self.store, incoming, hold).await? {
            Ok(held) => held,
            Err(admission) => return Ok(self.known(incoming, admission)),
        };
        let mut ctx = Ctx::<B>::new(&self.store, HOLD_MAX, Arc::new(message), &States::default());
        ctx.tx = Some(tx);
        let shared = SharedCtx::new(ctx);
        let over = shared.over_when_dropped();
        let serving = B::scope(&self.store, self.serve(service, request.again(shared.clone())));
        let served = tokio::time::timeout(self.options.timeout, serving).await;
        let tx = shared.take().ok().and_then(|ctx| ctx.tx);
        drop(over);
        match (served, tx) {
            (Ok(Served::Final(head, body)), Some(tx)) => {
                let kept = Kept::encode(&head, &body).map_err(Error::callback)?;
                if is_refusal(head.status) {
                    B::roll_back(tx).await;
                    return self.refuse(incoming, kept, head, body).await;
                }
                B::commit(tx, Some((Queue::Inbox, &lease, Some(kept)))).await?;
                Ok(Response::from_parts(head, Body::from(body)))
            }
            (Ok(Served::Final(..)), None) => {
                Err(Error::new(ErrorKind::Callback, "a task that the handler left behind holds the transaction"))
            }
            (Ok(Served::ForNow(response)), tx) => {
                if let Some(tx) = tx {
                    B::roll_back(tx).await;
                }
                Ok(response)
            }
            // It may be in the middle of a statement: dropping it closes its connection.
            (Err(_), _) => Ok(IdempotencyProblem::TIMED_OUT.into_response()),
        }
    }

    /// Stores a response whose request had no effect, in its own transaction.
    async fn refuse(
        &self,
        incoming: &Incoming,
        kept: String,
        head: http::response::Parts,
        body: Bytes,
    ) -> Result<Response> {
        match admit::<B>(&self.store, incoming, self.options.timeout.saturating_mul(2)).await? {
            Ok(Held { tx, lease, .. }) => {
                B::commit(tx, Some((Queue::Inbox, &lease, Some(kept)))).await?;
                Ok(Response::from_parts(head, Body::from(body)))
            }
            // Another process handled the same request in the meantime.
            Err(admission) => Ok(self.known(incoming, admission)),
        }
    }

    async fn serve<S>(&self, mut service: S, request: Request<Body>) -> Served
    where
        S: Service<Request<Body>, Response = Response, Error = Infallible>,
    {
        let served = async {
            std::future::poll_fn(|cx| service.poll_ready(cx)).await?;
            service.call(request).await
        };
        let response = served.await.unwrap_or_else(|never| match never {});
        if !is_final(response.status()) {
            return Served::ForNow(response);
        }
        let (head, body) = response.into_parts();
        if is_endless(&head) {
            return Served::ForNow(IdempotencyProblem::NOT_KEPT.into_response());
        }
        match read(body, self.options.response_max).await {
            Ok(body) => Served::Final(head, body),
            Err(_) => Served::ForNow(IdempotencyProblem::NOT_KEPT.into_response()),
        }
    }

    /// Returns the response to a known request, or an error that says why there is none.
    fn known(&self, incoming: &Incoming, admission: Admission) -> Response {
        match admission {
            Admission::Known { response } => {
                telemetry::replayed(self.store.name(), &self.name, incoming.key());
                let replayed = response.as_deref().and_then(Kept::replay);
                replayed.unwrap_or_else(|| IdempotencyProblem::UNKNOWN_RESPONSE.into_response())
            }
            Admission::Differs => {
                telemetry::key_reused(self.store.name(), &self.name, incoming.key());
                IdempotencyProblem::DIFFERS.into_response()
            }
            Admission::Busy => IdempotencyProblem::IN_PROGRESS.into_response(),
            Admission::Held { .. } | Admission::Refused { .. } | Admission::Dead | Admission::Expired => {
                IdempotencyProblem::RETIRED.into_response()
            }
        }
    }
}

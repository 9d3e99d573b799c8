//! The receiving end as a service to mount in any server that supports `tower`.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;

use super::guests::came_from;
use super::receive::{Held, annotate, declared_length, read};
use super::{BoxError, JSON};
use crate::receiver::{Authenticated, Receiver, Reply, Whose};
use crate::wire::envelope::Envelope;
use crate::wire::headers;
use postroom_core::message::hash_bytes;
use postroom_core::work::handler::Backend;

/// A receiver as a `tower` service: POST a message, get its answer.
///
/// ```
/// use postroom::services::Receiver;
/// use postroom::store::Memory;
///
/// fn app(receiver: &Receiver<Memory>) -> axum::Router {
///     axum::Router::new().route_service("/_rf/receive", receiver.service())
/// }
/// ```
#[derive(Debug)]
pub struct HttpService<B: Backend>(Receiver<B>);

impl<B: Backend> Receiver<B> {
    /// Returns this receiver as a service to mount in your own server, at any path. Senders put that path in the
    /// address. A proxy in front of it must not change the path.
    pub fn service(&self) -> HttpService<B> {
        HttpService(self.clone())
    }
}

impl<B: Backend> HttpService<B> {
    async fn respond<T>(self, request: Request<T>) -> Response<Full<Bytes>>
    where
        T: Body<Data: Send, Error: Into<BoxError>> + Send,
    {
        match self.receive(request).await {
            Ok((from, reply)) => self.write(Some(&from), &reply),
            Err(reply) => self.write(None, &reply),
        }
    }

    /// Returns the answer; with the source, if a receipt is due.
    ///
    /// Checks the limits, the grammar, the signature and the body, in this order. It does not touch the store before
    /// the source is verified.
    async fn receive<T>(&self, request: Request<T>) -> Result<(Authenticated, Reply), Reply>
    where
        T: Body<Data: Send, Error: Into<BoxError>> + Send,
    {
        let (head, body) = request.into_parts();
        if head.method != Method::POST {
            return Err(Reply::error(405, "messages are sent by POST"));
        }
        let limit = self.0.options().body_max;
        if declared_length(&head.headers).is_some_and(|length| length > limit) {
            return Err(Reply::too_large(limit));
        }
        if let Some(hook) = self.0.hook(head.uri.path()) {
            let held = self.read(body, Whose::Anybody(came_from(&head.extensions))).await?;
            return Err(self.0.take_hook(&hook, &head.headers, &held.body).await);
        }
        if !headers::is_v2(&head.headers) {
            return self.receive_v1(body, came_from(&head.extensions)).await;
        }
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let from = self.0.authenticate(&head.headers, head.method.as_str(), path)?;
        let held = self.read(body, Whose::Signed).await?;
        let digest = hash_bytes(&held.body);
        self.0.matches_digest(&from, digest)?;
        // From here on the source is verified, so the answer gets a receipt.
        let parsed = Envelope::parse(&held.body);
        drop(held);
        let reply = match parsed {
            Ok(envelope) => {
                self.0.matches(&from, &envelope.message_id, &envelope.source_service_id, digest)?;
                self.0.take(&from, envelope).await
            }
            Err(error) => Reply::malformed(&error),
        };
        Ok((from, reply))
    }

    /// Receives from a foreign peer, which signs inside the envelope, so the body must be read first.
    async fn receive_v1<T>(&self, body: T, from: Option<IpAddr>) -> Result<(Authenticated, Reply), Reply>
    where
        T: Body<Data: Send, Error: Into<BoxError>> + Send,
    {
        if !self.0.has_v1_sources() {
            return Err(Reply::unauthorized());
        }
        let held = self.read(body, Whose::Anybody(from)).await?;
        let envelope = Envelope::parse(&held.body).map_err(|error| Reply::malformed(&error))?;
        let from = self.0.authenticate_v1(&envelope)?;
        drop(held);
        let reply = self.0.take(&from, envelope).await;
        Ok((from, reply))
    }

    async fn read<T>(&self, body: T, whose: Whose) -> Result<Held, Reply>
    where
        T: Body<Data: Send, Error: Into<BoxError>> + Send,
    {
        let options = self.0.options();
        read(body, options.body_max, options, self.0.room(whose)).await
    }

    fn write(&self, from: Option<&Authenticated>, reply: &Reply) -> Response<Full<Bytes>> {
        let body = serde_json::to_vec(&reply.to_answer()).unwrap_or_default();
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        if reply.status == 405 {
            headers.insert(ALLOW, HeaderValue::from_static("POST"));
        }
        annotate(headers, &self.0, from, reply, hash_bytes(&body));
        *response.body_mut() = Full::from(body);
        response
    }
}

impl<B, T> tower_service::Service<Request<T>> for HttpService<B>
where
    B: Backend,
    T: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<T>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.respond(request).await) })
    }
}

impl<B: Backend> Clone for HttpService<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

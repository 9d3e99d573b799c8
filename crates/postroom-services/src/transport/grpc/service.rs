//! The receiving end as a service to mount, in a server by `tonic` or in our own listener.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Extensions, HeaderMap, Uri};
use http_body_util::Full;
use tonic::metadata::MetadataMap;
use tower_service::Service;

use super::generated::receiver_server::{self, ReceiverServer};
use super::generated::{Answer, Envelope};
use super::status;
use crate::receiver::{Authenticated, Receiver, Reply, Whose};
use crate::transport::address::GRPC_PATHS;
use crate::transport::http::BoxError;
use crate::transport::http::guests::came_from;
use crate::transport::http::receive::{annotate, declared_length, read};
use crate::wire::{envelope, headers};
use postroom_core::work::handler::Backend;

/// The length of the prefix before a message: a flag for compression, and the message's length.
const PREFIX: usize = 5;

/// A receiver as a gRPC service, `postroom.v1.Receiver`. It also answers to `/RFReceiver/Receive`.
///
/// You can mount it in a `tonic` server with `add_service`, but there only under its first name. You can also mount
/// it wherever `tower` services are accepted:
///
/// ```
/// use postroom::services::Receiver;
/// use postroom::store::Memory;
///
/// fn app(receiver: &Receiver<Memory>) -> axum::Router {
///     axum::Router::new()
///         .route_service("/postroom.v1.Receiver/Receive", receiver.grpc_service())
///         .route_service("/RFReceiver/Receive", receiver.grpc_service())
/// }
/// ```
#[derive(Debug)]
pub struct GrpcService<B: Backend>(Receiver<B>);

impl<B: Backend> Receiver<B> {
    /// Returns this receiver as a gRPC service to mount in your own server. [`serve`](Self::serve) does not need it.
    pub fn grpc_service(&self) -> GrpcService<B> {
        GrpcService(self.clone())
    }
}

impl<B: Backend> GrpcService<B> {
    /// Checks the limits, the grammar, the signature and the body, in this order. It does not touch the store before
    /// the source is verified.
    async fn receive<T>(self, request: http::Request<T>) -> Result<http::Response<tonic::body::Body>, Reply>
    where
        T: http_body::Body<Data: Send, Error: Into<BoxError>> + Send,
    {
        let (mut head, body) = request.into_parts();
        let asked = head.uri.path_and_query().map(http::uri::PathAndQuery::as_str).unwrap_or_default();
        let Some(path) = GRPC_PATHS.into_iter().find(|path| *path == asked) else {
            return Err(Reply::error(404, "there is no such method"));
        };
        let options = self.0.options();
        let limit = options.body_max.saturating_add(PREFIX);
        if declared_length(&head.headers).is_some_and(|length| length > limit) {
            return Err(Reply::too_large(options.body_max));
        }
        let from = self.authenticate(&head, path)?;
        // The signature has been checked, and the generated server knows only one of the names.
        head.uri = Uri::from_static(GRPC_PATHS[0]);
        let whose = if from.is_some() { Whose::Signed } else { Whose::Anybody(came_from(&head.extensions)) };
        let held = read(body, limit, options, self.0.room(whose)).await?;
        let call = Call { receiver: self.0.clone(), from };
        let mut server = ReceiverServer::new(call).max_decoding_message_size(options.body_max);
        let Ok(response) = server.call(http::Request::from_parts(head, Full::<Bytes>::from(held.body.clone()))).await;
        Ok(response)
    }

    /// Verifies the head alone. The result is `None` for a foreign peer that signs inside the envelope, which must be
    /// read first.
    fn authenticate(&self, head: &Parts, path: &str) -> Result<Option<Authenticated>, Reply> {
        if headers::is_v2(&head.headers) {
            return self.0.authenticate(&head.headers, head.method.as_str(), path).map(Some);
        }
        if self.0.has_v1_sources() { Ok(None) } else { Err(Reply::unauthorized()) }
    }
}

/// One call, and its sender if that is already verified.
struct Call<B: Backend> {
    receiver: Receiver<B>,
    from: Option<Authenticated>,
}

impl<B: Backend> Call<B> {
    async fn take(&self, message: Envelope) -> Result<(Authenticated, Reply), Reply> {
        let Some(from) = self.from.clone() else { return self.take_v1(message).await };
        self.receiver.matches(&from, &message.message_id, &message.source_service_id, message.digest())?;
        let reply = match envelope::Envelope::try_from(message) {
            Ok(envelope) => self.receiver.take(&from, envelope).await,
            // The source is verified and did send this, so its answer gets a receipt.
            Err(error) => Reply::malformed(&error),
        };
        Ok((from, reply))
    }

    async fn take_v1(&self, message: Envelope) -> Result<(Authenticated, Reply), Reply> {
        let envelope = envelope::Envelope::try_from(message).map_err(|error| Reply::malformed(&error))?;
        let from = self.receiver.authenticate_v1(&envelope)?;
        let reply = self.receiver.take(&from, envelope).await;
        Ok((from, reply))
    }
}

#[tonic::async_trait]
impl<B: Backend> receiver_server::Receiver for Call<B> {
    async fn receive(&self, request: tonic::Request<Envelope>) -> Result<tonic::Response<Answer>, tonic::Status> {
        let taken = self.take(request.into_inner()).await;
        let (from, reply) = taken.map_err(|reply| status::refusal(&reply))?;
        let answer = Answer::from(&reply);
        let mut headers = HeaderMap::new();
        annotate(&mut headers, &self.receiver, Some(&from), &reply, answer.digest());
        Ok(tonic::Response::from_parts(MetadataMap::from_headers(headers), answer, Extensions::new()))
    }
}

impl<B, T> Service<http::Request<T>> for GrpcService<B>
where
    B: Backend,
    T: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<T>) -> Self::Future {
        let received = self.clone().receive(request);
        Box::pin(async move { Ok(received.await.unwrap_or_else(|reply| status::refusal(&reply).into_http())) })
    }
}

impl<B: Backend> tonic::server::NamedService for GrpcService<B> {
    const NAME: &'static str = receiver_server::SERVICE_NAME;
}

impl<B: Backend> Clone for GrpcService<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

//! Serves a receiver at its listeners.

use std::future::Future;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tower_service::Service;

use super::listen::Listener;
use super::{BoxError, HttpService, accept};
use crate::receiver::{HOOKS_PATH, Receiver};
use crate::transport::address::RECEIVE_PATH;
use postroom_core::work::handler::Backend;

const HEALTH_PATH: &str = "/_rf/health";

type Body = UnsyncBoxBody<Bytes, BoxError>;

impl<B: Backend> Receiver<B> {
    /// Receives at this listener until `shutdown` is ready, and answers the requests that have come in by then.
    ///
    /// ```no_run
    /// # use postroom::services::{ListenOptions, Listener, Receiver};
    /// # use postroom::sqlite::Sqlite;
    /// # async fn f(receiver: Receiver<Sqlite>) -> postroom::Result<()> {
    /// let listener = Listener::bind("http://127.0.0.1:7002", ListenOptions::default()).await?;
    /// receiver.serve(listener, async { tokio::signal::ctrl_c().await.ok(); }).await;
    /// # Ok(()) }
    /// ```
    pub async fn serve(&self, listener: Listener, shutdown: impl Future<Output = ()>) {
        let routes = Routes::new(self);
        let answer = move |request| {
            let mut routes = routes.clone();
            async move { routes.answer(request).await }
        };
        // Messages whose senders stopped waiting are finished as well.
        accept::serve(listener, self.service_name(), answer, shutdown, self.idle()).await;
    }
}

/// The services behind a listener.
struct Routes<B: Backend> {
    receive: HttpService<B>,
    #[cfg(feature = "grpc")]
    grpc: crate::transport::grpc::GrpcService<B>,
}

impl<B: Backend> Routes<B> {
    fn new(receiver: &Receiver<B>) -> Self {
        Self {
            receive: receiver.service(),
            #[cfg(feature = "grpc")]
            grpc: receiver.grpc_service(),
        }
    }

    async fn answer(&mut self, request: Request<Incoming>) -> Response<Body> {
        #[cfg(feature = "grpc")]
        if crate::transport::grpc::is_grpc(request.headers()) {
            let Ok(response) = self.grpc.call(request).await;
            return response.map(|body| body.map_err(Into::into).boxed_unsync());
        }
        match request.uri().path() {
            path if path == RECEIVE_PATH || path.starts_with(HOOKS_PATH) => {
                let Ok(response) = self.receive.call(request).await;
                response.map(whole)
            }
            HEALTH_PATH => Response::new(whole(Full::from(r#"{"status":"ok"}"#))),
            _ => {
                let mut response = Response::new(whole(Full::default()));
                *response.status_mut() = StatusCode::NOT_FOUND;
                response
            }
        }
    }
}

fn whole(body: Full<Bytes>) -> Body {
    body.map_err(|never| match never {}).boxed_unsync()
}

impl<B: Backend> Clone for Routes<B> {
    fn clone(&self) -> Self {
        Self {
            receive: self.receive.clone(),
            #[cfg(feature = "grpc")]
            grpc: self.grpc.clone(),
        }
    }
}

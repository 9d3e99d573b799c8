//! The accept loop: so many connections and no more, each with a limit to its patience, and an end that waits.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use http_body_util::Full;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use super::first_byte::FirstByte;
use super::listen::{self, ListenOptions, Listener};
use super::{HttpService, Stream};
use crate::clock::monotonic;
use crate::handler::Backend;
use crate::receiver::{HOOKS_PATH, Receiver};
use crate::telemetry;
use crate::transport::address::RECEIVE_PATH;

const HEALTH_PATH: &str = "/_rf/health";
const HEADERS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 32 * 1024;
const STREAMS_MAX: u32 = 256;
/// So long those who are being answered have at the end.
const GRACE: Duration = Duration::from_secs(30);
/// After a failed accept: out of files, most of the time.
const PAUSE: Duration = Duration::from_millis(50);

type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

impl<B: Backend> Receiver<B> {
    /// Receives at this listener until `shutdown` is ready, and answers what has come in by then.
    ///
    /// ```no_run
    /// # use postroom::{ListenOptions, Listener, Receiver, Sqlite};
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
        // Those whose senders gave up are finished all the same.
        listener.converse(self.service_name(), answer, shutdown, self.idle()).await;
    }
}

impl Listener {
    /// Answers with a service of your own until `shutdown` is ready, with the limits of a receiver: so many connections
    /// and no more, and no patience with those who are slow to say what they want.
    ///
    /// ```no_run
    /// # async fn f(router: axum::Router) -> postroom::Result<()> {
    /// use postroom::{ListenOptions, Listener};
    ///
    /// let listener = Listener::bind("http://127.0.0.1:7003", ListenOptions::default()).await?;
    /// listener.serve(router, async { tokio::signal::ctrl_c().await.ok(); }).await;
    /// # Ok(()) }
    /// ```
    pub async fn serve<S, T>(self, service: S, shutdown: impl Future<Output = ()>)
    where
        S: Service<Request<Incoming>, Response = Response<T>, Error = Infallible> + Clone + Send + Sync + 'static,
        S::Future: Send,
        T: http_body::Body<Data = Bytes> + Send + 'static,
        T::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let answer = move |request| {
            let answering = service.clone().call(request);
            async move {
                let Ok(response) = answering.await;
                response.map(|body| body.map_err(Into::into).boxed_unsync())
            }
        };
        self.converse("", answer, shutdown, async {}).await;
    }

    /// Accepts until `shutdown` is ready, then waits for those who are being answered and for `afterwards`.
    async fn converse<A, F>(
        self,
        name: &str,
        answer: A,
        shutdown: impl Future<Output = ()>,
        afterwards: impl Future<Output = ()>,
    ) where
        A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let connections = Arc::new(Semaphore::new(self.options.connections.min(Semaphore::MAX_PERMITS)));
        let (ending, mut conversations) = (GracefulShutdown::new(), JoinSet::new());
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let next = async {
                let permit = connections.clone().acquire_owned().await;
                (permit, self.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                () = &mut shutdown => break,
                next = next => next,
            };
            let stream = match accepted {
                Ok(stream) => stream,
                Err(error) => {
                    telemetry::accept_failed(name, &error);
                    tokio::time::sleep_until((monotonic() + PAUSE).into()).await;
                    continue;
                }
            };
            let (watcher, tls, options) = (ending.watcher(), self.tls(), self.options.clone());
            let answer = answer.clone();
            conversations.spawn(async move {
                let _permit = permit;
                converse(stream, tls, &options, answer, watcher).await;
            });
            while conversations.try_join_next().is_some() {}
        }
        // Who comes now is turned away at once, instead of waiting for nobody.
        drop(self);
        let ending = async {
            ending.shutdown().await;
            afterwards.await;
        };
        let _ = tokio::time::timeout(GRACE, ending).await;
    }
}

/// One connection, from its handshake to its end. What goes wrong with it is the client's business.
async fn converse<A, F>(
    stream: Stream,
    tls: Option<TlsAcceptor>,
    options: &ListenOptions,
    answer: A,
    watcher: hyper_util::server::graceful::Watcher,
) where
    A: Fn(Request<Incoming>) -> F + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let stream = match tls {
        Some(acceptor) => match tokio::time::timeout(options.patience, listen::secure(stream, acceptor)).await {
            Ok(Ok(stream)) => stream,
            _ => return,
        },
        None => stream,
    };
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.patience)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX);
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(options.patience);
    let stream = Stream::new(FirstByte::within(stream, options.patience));
    let answer = service_fn(move |request| {
        let answering = answer(request);
        async move { Ok::<_, Infallible>(answering.await) }
    });
    let _ = watcher.watch(server.serve_connection(stream.for_hyper(), answer).into_owned()).await;
}

/// What a listener answers to.
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
            grpc: crate::transport::grpc::service(receiver),
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

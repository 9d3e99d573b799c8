//! The accept loop: it limits the number of connections and the time of each, and waits for open ones at the end.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use super::guests::Guests;
use super::idle_timeout::{Answer, Impatient, Talk};
use super::listen::{self, ListenOptions, Listener};
use super::{BoxError, Stream};
use postroom_core::support::clock::monotonic;
use postroom_core::telemetry;

const HEADERS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 32 * 1024;
const STREAMS_MAX: u32 = 32;
/// How many bytes a client may send before they are read, on one stream and on a whole connection.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 128 * 1024;
/// The pause after a failed accept, which mostly means that there are too many open files.
const PAUSE: Duration = Duration::from_millis(50);

impl Listener {
    /// Serves HTTP here with your own service, such as an axum router, under the same limits as a receiver: the
    /// number of connections, and the patience with slow clients. It ends when `shutdown` is ready and all requests
    /// in progress are answered.
    ///
    /// ```no_run
    /// # async fn f() -> postroom::Result<()> {
    /// use axum::{Router, routing::get};
    /// use postroom::services::{ListenOptions, Listener};
    ///
    /// let listener = Listener::bind("http://127.0.0.1:7002", ListenOptions::default().connections(64)).await?;
    /// let router = Router::new().route("/hello", get(async || "hello"));
    /// listener.serve(router, async { tokio::signal::ctrl_c().await.ok(); }).await;
    /// # Ok(()) }
    /// ```
    pub async fn serve<S, B>(self, service: S, shutdown: impl Future<Output = ()>)
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>
            + Clone
            + Send
            + 'static,
        B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        let answer = move |request| {
            let mut service = service.clone();
            async move {
                let Ok(()) = poll_fn(|context| service.poll_ready(context)).await;
                let Ok(response) = service.call(request).await;
                response
            }
        };
        serve(self, "http", answer, shutdown, async {}).await;
    }
}

/// Serves this listener until `shutdown`, then waits for the requests in progress and for `rest`.
pub(super) async fn serve<A, F, B>(
    listener: Listener,
    name: &str,
    answer: A,
    shutdown: impl Future<Output = ()>,
    rest: impl Future<Output = ()>,
) where
    A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let grace = listener.options.grace;
    let connections = Arc::new(Semaphore::new(listener.options.connections.min(Semaphore::MAX_PERMITS)));
    let guests = Guests::new(listener.options.per_address());
    let (ending, mut conversations) = (GracefulShutdown::new(), JoinSet::new());
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let next = async {
            let permit = connections.clone().acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            () = &mut shutdown => break,
            next = next => next,
        };
        let (stream, guest) = match accepted {
            Ok((stream, from)) => match guests.enter(from) {
                Some(guest) => (stream, guest),
                // An address with this many connections does not get the places of others.
                None => continue,
            },
            Err(error) => {
                telemetry::accept_failed(name, &error);
                tokio::time::sleep_until((monotonic() + PAUSE).into()).await;
                continue;
            }
        };
        let (watcher, tls, options) = (ending.watcher(), listener.tls(), listener.options.clone());
        let answer = answer.clone();
        conversations.spawn(async move {
            let _held = permit;
            let answer = move |mut request: Request<Incoming>| {
                guest.mark(request.extensions_mut());
                answer(request)
            };
            converse(stream, tls, &options, answer, watcher).await;
        });
        while conversations.try_join_next().is_some() {}
    }
    // New clients are refused at once, instead of waiting for nothing.
    drop(listener);
    let ending = async {
        ending.shutdown().await;
        rest.await;
    };
    let _ = tokio::time::timeout(grace, ending).await;
}

/// Serves one connection, from its handshake to its end. Its errors concern only the client.
async fn converse<A, F, B>(
    stream: Stream,
    tls: Option<TlsAcceptor>,
    options: &ListenOptions,
    answer: A,
    watcher: Watcher,
) where
    A: Fn(Request<Incoming>) -> F + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
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
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
        .keep_alive_interval(options.patience.saturating_mul(3))
        .keep_alive_timeout(options.patience);
    let (talk, patience) = (Talk::new(options.patience), options.patience);
    let stream = Stream::new(Impatient::new(stream, talk.clone()));
    let answer = service_fn(move |request| {
        let (answering, answered) = (talk.answering(patience), answer(request));
        async move { Ok::<_, Infallible>(answered.await.map(|body| Answer::new(body, answering))) }
    });
    let _ = watcher.watch(server.serve_connection(stream.for_hyper(), answer).into_owned()).await;
}

#[cfg(test)]
mod tests;

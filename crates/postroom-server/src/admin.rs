//! The admin listener: the HTTP API for services and operators, and the admin page. Never on the receiver's port.

mod cached;
mod diagnostics;
mod guard;
mod health;
mod look;
mod messages;
mod metrics;
mod object;
mod page;
mod problem;
mod pull;
mod sight;
mod status;
#[cfg(test)]
mod tests;
mod tokens;
mod watch;
mod whole;

pub(crate) use look::Watched;
pub(crate) use metrics::install as count_metrics;
pub(crate) use pull::Counters;
pub(crate) use tokens::{Rights, Scope, Token, Tokens, digest, generate};

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::extract::DefaultBodyLimit;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Router, middleware};
use metrics_exporter_prometheus::PrometheusHandle;
use postroom::queue::RetryPolicies;
use postroom::services::{ListenOptions, Listener, TlsIdentity};
use postroom::store::Store;
use postroom::{Inbox, Outbox};
use tokio::sync::Semaphore;

use cached::Cached;
use health::Health;

use crate::up::signals::Stopped;

/// The default address.
pub(crate) const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7411);
/// The largest request: a message of four mebibytes and its metadata.
const BODY_MAX: usize = 5 * 1024 * 1024;

/// The most connections at once; others wait.
const CONNECTIONS: usize = 256;
/// The most connections that may wait for messages at once, so that there is always room for others.
const WAITING: usize = 64;
/// How long open requests may take when the node stops.
const GRACE: Duration = Duration::from_secs(2);

const OPENAPI: &str = include_str!("admin/openapi.json");

/// The state behind every request.
#[derive(Clone)]
struct Desk(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    outbox: Outbox,
    inbox: Inbox,
    tokens: Tokens,
    /// The host names of this listener. Requests with another name are refused (DNS rebinding).
    hosts: Vec<String>,
    metrics: PrometheusHandle,
    /// The queues that services fetch from, if any.
    counters: Option<Counters>,
    /// Permits for requests that wait for messages.
    waiting: Semaphore,
    stopped: Stopped,
    watched: Watched,
    taken_for: Duration,
    health: Cached<Health>,
    reached: Cached<bool>,
    counted: Cached<()>,
    page: Arc<page::Room>,
}

/// The parts of the node that the listener needs.
pub(crate) struct Parts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) metrics: PrometheusHandle,
    pub(crate) counters: Option<Counters>,
    pub(crate) watched: Watched,
    /// How long the inbox must remember messages.
    pub(crate) taken_for: Duration,
    /// The time to live of messages that are enqueued here.
    pub(crate) policies: RetryPolicies,
    pub(crate) stopped: Stopped,
}

/// A listener that is bound and does not answer yet.
pub(crate) struct Admin {
    listener: Listener,
    url: String,
    hosts: Vec<String>,
    tokens: Tokens,
}

impl Admin {
    /// Without an address, it uses the default one, or a free port if that one is in use. It accepts the names of this
    /// machine, its own address, and `names`.
    pub(crate) async fn bind(
        address: Option<SocketAddr>,
        tls: Option<&TlsIdentity>,
        tokens: Tokens,
        names: &[String],
    ) -> Result<Self> {
        let options = ListenOptions::default().connections(CONNECTIONS).grace(GRACE);
        let options = tls.cloned().into_iter().fold(options, ListenOptions::tls);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let bind = async |address| Listener::bind(&format!("{scheme}://{address}"), options.clone()).await;
        let listener = match (bind(address.unwrap_or(USUAL)).await, address) {
            (Err(_), None) => bind(SocketAddr::new(USUAL.ip(), 0)).await,
            (bound, _) => bound,
        };
        let listener = listener.context("cannot start the admin listener")?;
        let address = listener.tcp_address().context("the listener has no address")?;
        let port = address.port();
        let mut hosts: Vec<_> = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}")).into();
        hosts.push(address.to_string());
        hosts.extend(names.iter().flat_map(|name| [format!("{name}:{port}"), name.clone()]));
        let shown = names.first().map_or_else(|| address.to_string(), |name| format!("{name}:{port}"));
        Ok(Self { listener, url: format!("{scheme}://{shown}"), hosts, tokens })
    }

    /// The tokens. They can be replaced while it runs.
    pub(crate) fn tokens(&self) -> Tokens {
        self.tokens.clone()
    }

    /// Its URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Runs until `over`.
    pub(crate) async fn run(self, parts: Parts, over: impl Future<Output = ()>) {
        let desk = Desk::new(parts, self.tokens, self.hosts);
        tokio::select! {
            () = self.listener.serve(router(desk.clone()), over) => {}
            () = watch::keep_looking(desk.clone()) => {}
        }
        if let Some(counters) = &desk.0.counters {
            let ended = async { tokio::join!(counters.outbox.ended(), counters.inbox.ended()) };
            let _ = tokio::time::timeout(GRACE, ended).await;
        }
    }
}

impl Desk {
    fn new(parts: Parts, tokens: Tokens, hosts: Vec<String>) -> Self {
        let Parts { store, metrics, counters, watched, taken_for, policies, stopped } = parts;
        let page = Arc::new(page::Room::new(&*store, watched.courier.clone(), watched.places.clone()));
        let (outbox, inbox) = (Outbox::of(store.clone()).policies(policies), Inbox::of(store.clone()));
        let (health, reached, counted) = Default::default();
        let inner = Inner {
            store,
            outbox,
            inbox,
            tokens,
            hosts,
            metrics,
            counters,
            waiting: Semaphore::new(WAITING),
            stopped,
            watched,
            taken_for,
            health,
            reached,
            counted,
            page,
        };
        Self(Arc::new(inner))
    }
}

/// The OpenAPI description, for client generators.
async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], OPENAPI)
}

/// These routes, for tokens with one of the scopes.
fn needing(desk: &Desk, any_of: &'static [Scope], routes: Router<Desk>) -> Router<Desk> {
    let gate = guard::Gate { desk: desk.clone(), any_of };
    let routes = routes.method_not_allowed_fallback(problem::wrong_method);
    routes.layer(middleware::from_fn_with_state(gate, guard::with_token))
}

/// Every route, by the scope it needs.
fn router(desk: Desk) -> Router {
    let reading = Router::new()
        .route("/_rf/outbox/stats", get(diagnostics::outbox_stats))
        .route("/_rf/outbox/failed", get(diagnostics::outbox_failed))
        .route("/_rf/inbox/failed", get(diagnostics::inbox_failed))
        .route("/_rf/inbox/stats", get(diagnostics::inbox_stats))
        .route("/metrics", get(metrics::render));
    let operating = Router::new()
        .route("/_rf/outbox/{message_id}/retry", post(diagnostics::retry))
        .route("/_rf/outbox/{message_id}/cancel", post(diagnostics::cancel))
        .route("/_rf/outbox/{message_id}/dismiss", post(diagnostics::dismiss))
        .route("/_rf/outbox/cancel", post(diagnostics::cancel_in_outbox))
        .route("/_rf/inbox/cancel", post(diagnostics::cancel_in_inbox));
    let enqueueing = Router::new()
        .route("/v1/messages", post(messages::enqueue))
        .route("/v1/messages/batch", post(messages::enqueue_batch));
    let following = Router::new().route("/v1/messages/{message_id}", get(status::status));
    let pulling = Router::new()
        .route("/v1/{queue}/claim", post(pull::claim))
        .route("/v1/{queue}/ack", post(pull::ack))
        .route("/v1/{queue}/abandon", post(pull::abandon))
        .route("/v1/{queue}/fail", post(pull::fail))
        .route("/v1/{queue}/extend", post(pull::extend));
    let guarded = Router::new().route("/openapi.json", get(openapi)).fallback(problem::nowhere);
    Router::new()
        .route("/_rf/health", get(diagnostics::health))
        .route("/_rf/ready", get(diagnostics::ready))
        .merge(page::routes(&desk))
        .merge(needing(&desk, &[Scope::Read], reading))
        .merge(needing(&desk, &[Scope::Operate], operating))
        .merge(needing(&desk, &[Scope::Enqueue], enqueueing))
        .merge(needing(&desk, &[Scope::Enqueue, Scope::Read], following))
        .merge(needing(&desk, &[Scope::Pull], pulling))
        .merge(needing(&desk, &[], guarded))
        .layer(middleware::from_fn_with_state(desk.clone(), guard::from_here))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn(guard::in_time))
        .with_state(desk)
}

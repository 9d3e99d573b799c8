//! The admin page: its files, views and actions. The files hold no data. Everything else needs a token, which the
//! script sends with each request. There are no cookies.

mod act;
mod cancel;
mod dismiss;
mod failed;
mod groups;
mod html;
mod jobs;
mod lanes;
mod live;
mod meters;
mod overview;
mod samples;
mod story;
#[cfg(test)]
mod tests;
mod trail;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get, post};
use postroom::clock::Clock;
use postroom::queue::{Place, Queue, WorkQueue};
use postroom::services::{Courier, Destination};
use postroom::worker::{PlaceState, Places};
use tokio::sync::{Semaphore, SemaphorePermit};

use self::jobs::Jobs;
use self::samples::Samples;
use super::problem::Refusal;
use super::{Desk, Scope, needing};

/// The most watchers at once; each keeps a connection open.
const WATCHERS_MAX: usize = 32;
/// The most views at once; each may keep the database busy for a second.
const VIEWS_MAX: usize = 8;

/// Only our own files may run or be fetched, and no other page may frame this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
];

/// The state of the page besides the queues.
pub(super) struct Room {
    store: String,
    clock: Clock,
    courier: Courier,
    places: Places,
    samples: Samples,
    watchers: Arc<Semaphore>,
    views: Semaphore,
    jobs: Jobs,
}

impl Room {
    pub(super) fn new(store: &dyn postroom::store::Store, courier: Courier, places: Places) -> Self {
        Self {
            store: store.name().to_owned(),
            clock: store.clock().clone(),
            courier,
            places,
            samples: Samples::default(),
            watchers: Arc::new(Semaphore::new(WATCHERS_MAX)),
            views: Semaphore::new(VIEWS_MAX),
            jobs: Jobs::default(),
        }
    }

    /// A permit for a query that may take a while.
    fn place(&self) -> Result<SemaphorePermit<'_>, Refusal> {
        self.views.try_acquire().map_err(|_| {
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too many pages search this node at once", "try again soon")
        })
    }

    /// Counts the messages, or changes them. A change runs to its end, even if the client disconnects.
    async fn act<T: Send + 'static>(
        &self,
        queue: Queue,
        dry_run: bool,
        doing: impl Future<Output = Result<T, Refusal>> + Send + 'static,
    ) -> Result<T, Refusal> {
        if dry_run {
            let _place = self.place()?;
            return doing.await;
        }
        self.jobs.run(queue, doing).await
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn destinations(&self) -> Vec<Destination> {
        self.courier.destinations()
    }

    /// The state of a destination, as far as this node has tried it.
    fn state_of(&self, destination: &str) -> Option<PlaceState> {
        self.places.states().into_iter().find(|state| state.place == Place::Service(destination.to_owned()))
    }
}

/// Every route of the page.
pub(super) fn routes(desk: &Desk) -> Router<Desk> {
    let reading = Router::new()
        .route("/admin/view/overview", get(overview::overview))
        .route("/admin/view/failed", get(failed::failed))
        .route("/admin/view/dismissed", get(dismiss::dismissed))
        .route("/admin/view/audit", get(trail::trail))
        .route("/admin/view/message", get(story::story))
        .route("/admin/view/find", get(story::find))
        .route("/admin/live", get(live::live));
    let operating = Router::new()
        .route("/admin/act/revive", post(act::revive))
        .route("/admin/act/cancel", post(cancel::cancel))
        .route("/admin/act/dismiss", post(dismiss::dismiss))
        .route("/admin/act/expire", post(act::expire))
        .route("/admin/act/purge", post(act::purge));
    Router::new()
        .route("/", get(async || Redirect::to("/admin")))
        .route("/admin", file("text/html; charset=utf-8", include_str!("page/assets/shell.html")))
        .route("/admin/page.css", file("text/css; charset=utf-8", include_str!("page/assets/page.css")))
        .route("/admin/page.js", script(include_str!("page/assets/page.js")))
        .route("/admin/session.js", script(include_str!("page/assets/session.js")))
        .route("/admin/charts.js", script(include_str!("page/assets/charts.js")))
        .route("/admin/actions.js", script(include_str!("page/assets/actions.js")))
        .merge(needing(desk, &[Scope::Read], reading))
        .merge(needing(desk, &[Scope::Operate], operating))
        .layer(middleware::from_fn(with_headers))
}

fn file(kind: &'static str, text: &'static str) -> MethodRouter<Desk> {
    get(async move || ([(CONTENT_TYPE, kind)], text))
}

fn script(text: &'static str) -> MethodRouter<Desk> {
    file("text/javascript; charset=utf-8", text)
}

async fn with_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await.into_response();
    let headers = HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(headers);
    response
}

/// The named queue; by default the outbox.
fn queue_of<'a>(desk: &'a Desk, name: Option<&str>) -> Result<&'a WorkQueue, Refusal> {
    match name {
        None | Some("outbox") => Ok(desk.0.outbox.queue()),
        Some("inbox") => Ok(desk.0.inbox.queue()),
        Some(_) => Err(Refusal::bad("there is no such queue", "use `outbox` or `inbox`")),
    }
}

/// The label of the other service of a message.
fn party_name(queue: Queue) -> &'static str {
    match queue {
        Queue::Outbox => "Destination",
        Queue::Inbox => "Source",
    }
}

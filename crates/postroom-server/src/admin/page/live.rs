//! Live samples as server-sent events: first the history, then each new sample.

use std::convert::Infallible;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::admin::Desk;
use crate::admin::problem::Refusal;

/// One open page that watches.
struct Watcher {
    desk: Desk,
    headers: HeaderMap,
    next_at: Option<Instant>,
    _place: OwnedSemaphorePermit,
}

pub(in crate::admin) async fn live(
    State(desk): State<Desk>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refusal> {
    let place = desk.0.page.watchers.clone().try_acquire_owned().map_err(|_| {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too many pages watch this node", "close another one")
    })?;
    let watcher = Watcher { desk, headers, next_at: None, _place: place };
    let events = unfold(watcher, |mut watcher| async move {
        let stopped = watcher.desk.0.stopped.clone();
        tokio::select! {
            biased;
            () = stopped.wait() => None,
            // Stop if the token is no longer valid.
            event = watcher.next() => watcher.desk.may_read(&watcher.headers).then_some((Ok(event), watcher)),
        }
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

impl Watcher {
    async fn next(&mut self) -> Event {
        let page = self.desk.0.page.clone();
        let Some(next_at) = self.next_at else {
            self.next_at = Some(Instant::now());
            return told("history", &page.samples.kept().await);
        };
        tokio::time::sleep_until(next_at).await;
        match page.samples.next(&self.desk).await {
            Some((sample, pace)) => {
                self.next_at = Some(Instant::now() + pace);
                told("sample", &sample)
            }
            None => {
                self.next_at = Some(Instant::now() + super::samples::PACE);
                Event::default().event("trouble").data("the database is unavailable")
            }
        }
    }
}

fn told(name: &str, data: &impl serde::Serialize) -> Event {
    // Numbers and names always have a JSON form.
    Event::default().event(name).json_data(data).unwrap_or_default()
}

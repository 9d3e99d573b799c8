//! All log lines and metrics, in one place. They never contain a payload or a header.
//!
//! A log line names its store. Metrics name the first hundred stores of the process, and use `other` for the rest,
//! because each name is a separate series, and series are expensive ([`name_stores_in_metrics`]). The same applies to
//! topics and destinations in the metrics of durations and retries.

mod arrivals;
mod label;
#[doc(hidden)]
pub mod marks;
mod meters;
#[doc(hidden)]
pub mod services;
mod time;
#[cfg(feature = "opentelemetry-0_33")]
mod trace;
#[cfg(not(feature = "opentelemetry-0_33"))]
mod untraced;
mod workers;

pub use arrivals::{Arrivals, arrivals};
pub use label::name_stores_in_metrics;
#[doc(hidden)]
pub use marks::*;
pub(crate) use meters::Meters;
#[doc(hidden)]
pub use services::*;
pub(crate) use time::*;
#[cfg(feature = "opentelemetry-0_33")]
pub(crate) use trace::*;
#[cfg(not(feature = "opentelemetry-0_33"))]
pub(crate) use untraced::*;
pub(crate) use workers::*;

use std::time::Duration;

use metrics::{counter, gauge};
use tracing::{Span, debug, debug_span, error, field, info, info_span, warn};

use crate::message::{InboxKey, Message, MessageId, NewMessage};
use crate::queue::Outcome;
use crate::queue::{Claims, Fault, Lease, Place, Queue, Reaped, Scope, Settled, State, Whose};
use crate::store::{Arrival, Cancelled, CancelledLane, Lanes, Sighting, Stored};
use crate::support::clock::Timestamp;
use crate::support::error::Error;
use crate::telemetry::label::store_label;

/// The metrics, under the names of the SQLite document.
///
/// ```
/// use postroom::telemetry::metric;
///
/// assert_eq!(metric::OUTBOX_PENDING, "rf_outbox_pending_count");
/// ```
pub mod metric {
    /// Messages that wait to be sent.
    pub const OUTBOX_PENDING: &str = "rf_outbox_pending_count";
    /// How long sending or handling an outbox message took.
    pub const OUTBOX_SEND_MS: &str = "rf_outbox_send_duration_ms";
    /// How many retries a message needed before it was sent.
    pub const OUTBOX_RETRIES: &str = "rf_outbox_retry_count";
    /// Messages that are dead.
    pub const OUTBOX_FAILED: &str = "rf_outbox_failed_count";
    /// Messages that expired before they were sent or handled.
    pub const OUTBOX_EXPIRED: &str = "rf_outbox_expired_count";
    /// Messages that arrived and expired before they were handled.
    pub const INBOX_EXPIRED: &str = "rf_inbox_expired_count";
    /// Duplicates that were recognised.
    pub const INBOX_DUPLICATES: &str = "rf_inbox_duplicate_count";
    /// How long handling an inbox message took.
    pub const INBOX_PROCESS_MS: &str = "rf_inbox_process_duration_ms";
    /// Rows in the inbox, in any state.
    pub const INBOX_SIZE: &str = "rf_inbox_size";
    /// Requests that could not be verified, by reason.
    pub const INBOX_DISTRUSTED: &str = "rf_inbox_distrusted_count";
    /// Failures, by their code and whose they are.
    pub const FAILURES: &str = "rf_failure_count";
    /// Commits without an answer, whose outcome had to be looked up.
    pub const COMMITS_IN_DOUBT: &str = "rf_commits_in_doubt_count";
    /// Messages in the deepest lane, by queue.
    pub const LANE_DEPTH: &str = "rf_lane_depth";
    /// How many seconds ago the first message of the deepest lane was enqueued, by queue.
    pub const LANE_AGE: &str = "rf_lane_age_seconds";
    /// Lanes that are blocked by a dead message, by queue.
    pub const LANES_BLOCKED: &str = "rf_lanes_blocked_count";
    /// Jumps of a store's clock.
    pub const CLOCK_JUMPS: &str = "rf_clock_jumps_count";
}

/// The store and queue of a log line or metric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    pub(crate) store: &'a str,
    pub(crate) kind: Queue,
}

/// What is recorded about messages once they are stored; it is taken from them before they are moved into the store.
pub(crate) struct Enqueued(Vec<(MessageId, String, Option<String>, Option<String>)>);

impl Enqueued {
    pub(crate) fn of(messages: &[NewMessage]) -> Self {
        if !tracing::enabled!(tracing::Level::INFO) {
            return Self(Vec::new());
        }
        let stored = messages.iter().map(|message| {
            let (destination, correlation_id) = (message.destination.clone(), message.correlation_id.clone());
            (message.message_id, message.topic.clone(), destination, correlation_id)
        });
        Self(stored.collect())
    }

    pub(crate) fn tell(self, store: &str, stored: &[Stored]) {
        for ((message_id, topic, destination, correlation_id), stored) in self.0.into_iter().zip(stored) {
            let duplicate = stored.duplicate;
            info!(store, %message_id, topic, destination, correlation_id, duplicate, "outbox: message enqueued");
        }
    }
}

/// Creates the counters of a store with the value zero, so that a chart has a line from the start and shows the first
/// failure as a step.
///
/// ```
/// postroom::telemetry::begin_at_zero("warehouse");
/// ```
pub fn begin_at_zero(store: &str) {
    for name in [metric::OUTBOX_FAILED, metric::OUTBOX_EXPIRED, metric::INBOX_EXPIRED, metric::INBOX_DUPLICATES] {
        counter!(name, "store" => store_label(store)).increment(0);
    }
}

/// The span around a verb.
pub(crate) fn verb_span(verb: &'static str, queue: Named<'_>) -> Span {
    debug_span!("store", verb, store = queue.store, queue = %queue.kind)
}

/// The span around a handler, or around sending a message to another service.
#[doc(hidden)]
pub fn handle_span(store: &str, queue: Queue, message: &Message) -> Span {
    if !tracing::enabled!(tracing::Level::INFO) {
        return Span::none();
    }
    let kind = field::Empty;
    let span = info_span!("handle", otel.kind = kind, store, %queue, topic = message.topic, message_id = message.id());
    begun(&span, message);
    span
}

pub(crate) fn claimed(queue: Named<'_>, claims: &Claims) {
    reaped(queue, claims.reaped);
    debug!(store = queue.store, queue = %queue.kind, count = claims.claimed.len(), "messages claimed");
}

pub(crate) fn claim_failed(queue: Named<'_>, error: &Error) {
    warn!(store = queue.store, queue = %queue.kind, %error, "the claim failed; it is tried again later");
}

pub(crate) fn claim_slow(queue: Named<'_>, patience: Duration) {
    let (store, queue, seconds) = (queue.store, queue.kind, patience.as_secs_f64());
    warn!(store, %queue, seconds, "the claim is not answered; other stores continue without it");
}

pub(crate) fn unchanged(queue: Named<'_>) {
    debug!(store = queue.store, queue = %queue.kind, "nothing has changed");
}

pub(crate) fn settled(queue: Named<'_>, settled: Settled) {
    let (store, kind) = (queue.store, queue.kind);
    debug!(store, queue = %kind, applied = settled.applied, lost = settled.lost, "messages settled");
    if settled.lost > 0 {
        warn!(store, queue = %kind, lost = settled.lost, "leases were lost; nothing was changed for them");
    }
    failed(queue, settled.dead);
    expired(queue, settled.expired);
}

pub(crate) fn settle_failed(queue: Named<'_>, count: usize, error: &Error) {
    let (store, queue) = (queue.store, queue.kind);
    error!(store, %queue, count, %error, "messages could not be settled; their leases will run out");
}

pub(crate) fn reaped(queue: Named<'_>, reaped: Reaped) {
    if reaped.freed + reaped.dead > 0 {
        let (store, queue) = (queue.store, queue.kind);
        info!(store, %queue, freed = reaped.freed, dead = reaped.dead, "expired leases reaped");
    }
    failed(queue, reaped.dead);
    expired(queue, reaped.expired);
}

fn failed(queue: Named<'_>, failed: u64) {
    if failed > 0 && queue.kind == Queue::Outbox {
        counter!(metric::OUTBOX_FAILED, "store" => store_label(queue.store)).increment(failed);
    }
}

pub(crate) fn expired(queue: Named<'_>, expired: u64) {
    if expired > 0 {
        info!(store = queue.store, queue = %queue.kind, count = expired, "messages expired");
        let name = match queue.kind {
            Queue::Outbox => metric::OUTBOX_EXPIRED,
            Queue::Inbox => metric::INBOX_EXPIRED,
        };
        counter!(name, "store" => store_label(queue.store)).increment(expired);
    }
}

pub(crate) fn purged(queue: Named<'_>, state: State, purged: u64) {
    let (store, kind) = (queue.store, queue.kind);
    match (purged, state) {
        (0, _) => {}
        (_, State::Done) => info!(store, queue = %kind, count = purged, "done messages deleted"),
        _ => info!(store, queue = %kind, state = state.name(kind), count = purged, "old messages deleted"),
    }
}

pub(crate) fn dismissed(queue: Named<'_>, dismissed: u64) {
    info!(store = queue.store, queue = %queue.kind, count = dismissed, "dead letters dismissed");
}

/// Logs that an operator paused or limited something, or let it go on.
pub(crate) fn ruled(queue: Named<'_>, act: &str, scope: &Scope) {
    let (kind, name) = (scope.kind(), scope.name());
    info!(store = queue.store, queue = %queue.kind, act, kind, name, "pause or limit changed");
}

pub(crate) fn cancelled(queue: Named<'_>, id: &str, became: Cancelled) {
    match became {
        Cancelled::Waiting => info!(store = queue.store, queue = %queue.kind, id, "message cancelled"),
        Cancelled::Asked => info!(store = queue.store, queue = %queue.kind, id, "message asked to stop"),
        Cancelled::TooLate | Cancelled::Unknown => {}
    }
}

pub(crate) fn lane_cancelled(queue: Named<'_>, lane: &str, cancelled: CancelledLane) {
    let CancelledLane { waiting, asked, .. } = cancelled;
    info!(store = queue.store, queue = %queue.kind, lane, waiting, asked, "messages of a lane cancelled");
}

pub(crate) fn revived(queue: Named<'_>, revived: u64) {
    info!(store = queue.store, queue = %queue.kind, count = revived, "messages requeued");
}

pub(crate) fn backlog(queue: Named<'_>, rows: u64) {
    let name = match queue.kind {
        Queue::Outbox => metric::OUTBOX_PENDING,
        Queue::Inbox => metric::INBOX_SIZE,
    };
    #[allow(clippy::cast_precision_loss, reason = "a gauge of rows needs no more than 52 bits")]
    gauge!(name, "store" => store_label(queue.store)).set(rows as f64);
}

#[allow(clippy::cast_precision_loss, reason = "a gauge of rows needs no more than 52 bits")]
pub(crate) fn lanes(queue: Named<'_>, lanes: &Lanes, now: Timestamp) {
    let labels = [("store", store_label(queue.store)), ("queue", queue.kind.as_str().to_owned())];
    let deepest = lanes.deepest.first();
    let age = deepest.map_or(Duration::ZERO, |lane| now.since(lane.first.created_at));
    gauge!(metric::LANE_DEPTH, &labels).set(deepest.map_or(0, |lane| lane.messages) as f64);
    gauge!(metric::LANE_AGE, &labels).set(age.as_secs_f64());
    gauge!(metric::LANES_BLOCKED, &labels).set(lanes.blocked_lanes as f64);
}

pub(crate) fn seen(queue: Named<'_>, key: &InboxKey, sighting: Sighting) {
    let store = queue.store;
    debug!(
        store,
        source = key.source(),
        message_id = key.message_id(),
        already_processed = sighting.done,
        "inbox: checked"
    );
    if sighting.hash_differs {
        warn!(
            store,
            source = key.source(),
            message_id = key.message_id(),
            "inbox: the same id arrived with different content"
        );
    }
    arrivals::count(store, sighting.done);
    if sighting.done {
        duplicate(store, key);
    }
}

pub(crate) fn arrived(queue: Named<'_>, key: &InboxKey, topic: &str, arrival: Arrival) {
    let store = queue.store;
    let (source, message_id) = (key.source(), key.message_id());
    info!(store, topic, source, message_id, first = !arrival.is_duplicate(), "inbox: message enqueued");
    arrivals::count(store, arrival.is_duplicate());
    if arrival.is_duplicate() {
        duplicate(store, key);
    }
    let differs = match arrival {
        Arrival::Replaced => true,
        Arrival::Known { differs, .. } => differs,
        Arrival::Seen { hash_differs } => hash_differs,
        Arrival::First => false,
    };
    if differs {
        warn!(store, source, message_id, "inbox: the same id arrived with different content");
    }
}

fn duplicate(store: &str, key: &InboxKey) {
    warn!(store, source = key.source(), message_id = key.message_id(), "inbox: duplicate detected");
    counter!(metric::INBOX_DUPLICATES, "store" => store_label(store)).increment(1);
}

pub(crate) fn handling(store: &str, queue: Queue, message: &Message) {
    if tracing::enabled!(tracing::Level::INFO) {
        let (topic, source, attempt) = (&message.topic, message.source(), message.attempts + 1);
        info!(store, %queue, topic, message_id = message.id(), source, attempt, "handling");
    }
}

pub(crate) fn handled(
    store: &str,
    queue: Queue,
    message: &Message,
    outcome: &Outcome,
    meters: &Meters,
    took: Duration,
) {
    meters.ended(message, took, outcome.is_done());
    ended(store, queue, message, outcome, meters, took);
}

/// Logs how a message was handled, and counts what failed.
pub(crate) fn ended(store: &str, queue: Queue, message: &Message, outcome: &Outcome, meters: &Meters, took: Duration) {
    let ms = took.as_secs_f64() * 1000.0;
    let (topic, attempt) = (&message.topic, message.attempts + 1);
    match outcome {
        Outcome::Settled | Outcome::Done { .. } => {
            if tracing::enabled!(tracing::Level::INFO) {
                info!(store, %queue, topic, message_id = message.id(), source = message.source(), ms, "handled");
            }
        }
        Outcome::Failed(fault) => {
            let (code, reason) = (fault.cause().code(), headline(fault.why()));
            meters.failed(message, fault);
            match fault.whose() {
                Whose::Message => {
                    let message_id = message.id();
                    error!(store, %queue, topic, message_id, attempt, code, error = reason, "the handler failed");
                }
                _ => warn!(store, %queue, topic, message_id = message.id(), code, reason, "postponed"),
            }
        }
        Outcome::Lost => warn!(store, %queue, topic, message_id = message.id(), "the lease was lost; rolled back"),
        Outcome::Release => debug!(store, %queue, topic, message_id = message.id(), "broken off"),
    }
}

/// Returns the line of a failure that is logged. The other lines are stored only with the message.
fn headline(why: &str) -> &str {
    why.lines().next().unwrap_or_default()
}

/// Logs that a place failed too often and is held.
pub(crate) fn place_held(store: &str, place: &Place, fault: &Fault) {
    let (kind, name, code, reason) = (place.kind(), place.name(), fault.cause().code(), headline(fault.why()));
    warn!(store, kind, name, code, reason, "held: its messages wait");
}

/// Logs that a held place accepted a message.
pub(crate) fn place_answers(store: &str, place: &Place) {
    info!(store, kind = place.kind(), name = place.name(), "no longer held: its messages are processed again");
}

pub(crate) fn holds_not_written(queue: Named<'_>, error: &Error) {
    let (store, queue) = (queue.store, queue.kind);
    debug!(store, %queue, %error, "the held places could not be stored");
}

pub(crate) fn no_handler(store: &str, queue: Queue, message: &Message) {
    let (topic, message_id) = (&message.topic, message.id());
    warn!(store, %queue, topic, message_id, "no handler for this topic; the message is released");
}

pub(crate) fn unreadable(store: &str, queue: Queue, lease: &Lease, why: &str) {
    error!(store, %queue, seq = lease.seq(), error = why, "the row cannot be read as a message");
}

pub(crate) fn handled_again(store: &str, queue: Queue, message: &Message, error: &Error) {
    let (topic, message_id) = (&message.topic, message.id());
    warn!(store, %queue, topic, message_id, %error, "the database rolled the handler back; it runs again");
}

#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
pub(crate) fn commit_in_doubt(store: &str, error: &Error) {
    counter!(metric::COMMITS_IN_DOUBT, "store" => store.to_owned()).increment(1);
    warn!(store, %error, "a commit got no answer; its outcome is being looked up");
}

#[cfg(feature = "sqlx-0_9-postgres")]
pub(crate) fn listening_failed(store: &str, error: &sqlx::Error) {
    warn!(store, %error, "wake-ups from other processes do not arrive; polling meanwhile");
}

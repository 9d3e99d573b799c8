//! Health, statistics and dead letters for operators; retry, cancel and dismiss.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use postroom::MessageId;
use postroom::operator::{Filter, Operator, QueueStats, Record};
use postroom::queue::{Cancelled, Queue, State as Stands, WorkQueue};
use postroom::telemetry::{Arrivals, arrivals};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::health::{Health, Level};
use super::object::Object;
use super::problem::Refusal;
use super::sight::Sight;
use super::{Desk, Rights};

const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1000;

/// Status 503 if the health is red, otherwise 200. Without a token, the answer holds only the kinds of reasons from the
/// last check.
pub(super) async fn health(State(desk): State<Desk>, headers: HeaderMap) -> Response {
    if desk.may_read(&headers) {
        return answer(desk.health().await.as_ref());
    }
    answer(&desk.health_seen().await.for_strangers())
}

fn answer(health: &Health) -> Response {
    let status = if health.status == Level::Red { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (status, Json(health)).into_response()
}

/// Whether the node can accept and handle messages, by the last check.
pub(super) async fn ready(State(desk): State<Desk>) -> Response {
    let ready = !desk.0.stopped.is_asked() && desk.reached_seen().await;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({ "ready": ready }))).into_response()
}

pub(super) async fn outbox_stats(State(desk): State<Desk>) -> Result<Json<Value>, Refusal> {
    let QueueStats { ready, leased, done, dead, expired, dismissed, oldest_waiting, .. } =
        desk.0.outbox.queue().stats().await?;
    Ok(Json(json!({
        "pending": ready, "sending": leased, "sent": done, "failed": dead, "expired": expired,
        "dismissed": dismissed,
        "oldestPendingSeconds": oldest_waiting.map(|age| age.as_secs()),
    })))
}

pub(super) async fn inbox_stats(State(desk): State<Desk>) -> Result<Json<Value>, Refusal> {
    let stats = desk.0.inbox.queue().stats().await?;
    let Arrivals { messages, duplicates, .. } = arrivals(desk.0.store.name());
    #[allow(clippy::cast_precision_loss, reason = "a rate needs no more than 52 bits")]
    let rate = if messages == 0 { 0.0 } else { duplicates as f64 / messages as f64 };
    Ok(Json(json!({
        "size": stats.total(), "waiting": stats.ready, "processing": stats.leased + stats.processing,
        "seen": stats.seen, "done": stats.done, "dead": stats.dead,
        "dismissed": stats.dismissed,
        "arrived": messages, "duplicates": duplicates, "duplicateRate": rate,
        "oldestWaitingSeconds": stats.oldest_waiting.map(|age| age.as_secs()),
    })))
}

/// The part of the list to return.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// `next` from the previous answer.
    after: Option<i64>,
    limit: Option<usize>,
    topic: Option<String>,
    /// Of the outbox.
    destination: Option<String>,
    /// Of the inbox.
    source: Option<String>,
}

/// A dead message, without its payload.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Failed {
    message_id: String,
    topic: String,
    #[serde(flatten)]
    party: Party,
    attempts: u32,
    error: Option<String>,
    failed_at: Option<String>,
}

/// The destination or the source of a message.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Party {
    Destination(Option<String>),
    Source(Option<String>),
}

pub(super) async fn outbox_failed(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let Query(page) = page?;
    if page.source.is_some() {
        return Err(Refusal::bad("only the inbox has a source", "use topic, destination, limit and after"));
    }
    failed((Queue::Outbox, desk.0.outbox.queue()), page, Sight::of(&rights)).await
}

pub(super) async fn inbox_failed(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let Query(page) = page?;
    if page.destination.is_some() {
        return Err(Refusal::bad("only the outbox has a destination", "use topic, source, limit and after"));
    }
    failed((Queue::Inbox, desk.0.inbox.queue()), page, Sight::of(&rights)).await
}

async fn failed((queue, verbs): (Queue, &WorkQueue), page: Page, sight: Sight) -> Result<Json<Value>, Refusal> {
    let Page { after, limit, topic, destination, source } = page;
    let party = destination.or(source);
    let limit = limit.unwrap_or(LIMIT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Refusal::bad(format!("the limit {limit} is not allowed"), format!("use 1 to {LIMIT_MAX}")));
    }
    let mut filter = Filter::all().state(Stands::Dead).limit(limit);
    for (wanted, narrow) in [(topic, Filter::topic as fn(Filter, String) -> Filter), (party, Filter::party)] {
        if let Some(wanted) = wanted {
            filter = narrow(filter, wanted);
        }
    }
    if let Some(after) = after {
        filter = filter.after(after);
    }
    let rows = verbs.list(filter).await?;
    let next = rows.last().filter(|_| rows.len() == limit).map(Record::seq);
    let messages: Vec<_> = rows.iter().map(|row| told(row, queue, sight)).collect();
    Ok(Json(json!({ "messages": messages, "next": next })))
}

fn told(row: &Record, queue: Queue, sight: Sight) -> Failed {
    let message = row.message().ok();
    let owned = |text: &str| text.to_owned();
    let party = match queue {
        Queue::Outbox => Party::Destination(message.and_then(postroom::Message::destination).map(owned)),
        Queue::Inbox => Party::Source(message.and_then(postroom::Message::source).map(owned)),
    };
    Failed {
        message_id: message.map(postroom::Message::id).unwrap_or_default(),
        topic: message.map(|message| message.topic.clone()).unwrap_or_default(),
        party,
        attempts: row.attempts(),
        error: row.last_error().map(|error| sight.of_error(error).to_owned()),
        failed_at: row.processed_at().map(|at| at.to_string()),
    }
}

/// Requeues a dead message.
pub(super) async fn retry(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Refusal> {
    let id: MessageId = id?.0.parse()?;
    let operator = Operator::new(rights.name())?.chose(format!("message {id}"))?;
    let queue = desk.0.outbox.queue().by(operator);
    let rows = desk.0.outbox.find(id.as_uuid()).await?;
    if rows.is_empty() {
        return Err(Refusal::new(StatusCode::NOT_FOUND, format!("the outbox has no message {id}"), "check the id"));
    }
    let dead: Vec<&Record> = rows.iter().filter(|row| row.state() == Stands::Dead).collect();
    let mut retried = 0;
    for row in &dead {
        retried += queue.revive(Filter::one(row.seq()), None).await?;
    }
    if retried == 0 {
        let state = rows.first().map(Record::state);
        let error =
            format!("the message is not dead: it is {}", state.map_or("gone", |state| state.name(Queue::Outbox)));
        return Err(Refusal::new(StatusCode::CONFLICT, error, "`postroom explain` explains its state"));
    }
    Ok(Json(json!({ "messageId": id.to_string(), "retried": retried })))
}

/// Cancels a message that waits or is in progress.
pub(super) async fn cancel(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Refusal> {
    let id: MessageId = id?.0.parse()?;
    let operator = Operator::new(rights.name())?.chose(format!("message {id}"))?;
    cancel_rows(&desk, operator, id.as_uuid()).await.map(Json)
}

/// Cancels the rows of a message.
async fn cancel_rows(desk: &Desk, operator: Operator, id: Uuid) -> Result<Value, Refusal> {
    let queue = desk.0.outbox.queue().by(operator);
    let rows = desk.0.outbox.find(id).await?;
    if rows.is_empty() {
        return Err(Refusal::new(StatusCode::NOT_FOUND, format!("the outbox has no message {id}"), "check the id"));
    }
    let (mut cancelled, mut asked) = (0, 0);
    for row in &rows {
        match queue.cancel(row.seq()).await? {
            Cancelled::Waiting => cancelled += 1,
            Cancelled::Asked => asked += 1,
            _ => {}
        }
    }
    if cancelled + asked == 0 {
        let state = rows.first().map(Record::state).map_or("gone", |state| state.name(Queue::Outbox));
        return Err(too_late(&format!("the message is {state}")));
    }
    Ok(json!({ "messageId": id.to_string(), "cancelled": cancelled, "askedToStop": asked }))
}

fn too_late(why: &str) -> Refusal {
    let advice = "only a message that waits or is in progress can be cancelled";
    Refusal::new(StatusCode::CONFLICT, format!("it is too late: {why}"), advice)
}

/// Which messages to cancel: those of a lane, or the one that has a unique key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Cancelling {
    lane: Option<String>,
    unique_key: Option<String>,
    why: Option<String>,
}

pub(super) async fn cancel_in_outbox(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    asked: Result<Json<Object<Cancelling>>, JsonRejection>,
) -> Result<Json<Value>, Refusal> {
    cancel_some(&desk, &rights, Queue::Outbox, asked).await
}

pub(super) async fn cancel_in_inbox(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    asked: Result<Json<Object<Cancelling>>, JsonRejection>,
) -> Result<Json<Value>, Refusal> {
    cancel_some(&desk, &rights, Queue::Inbox, asked).await
}

/// Cancels every message of a lane that waits or is in progress, or the message that has a unique key.
async fn cancel_some(
    desk: &Desk,
    rights: &Rights,
    queue: Queue,
    asked: Result<Json<Object<Cancelling>>, JsonRejection>,
) -> Result<Json<Value>, Refusal> {
    let Json(Object(asked)) = asked?;
    let operator = Operator::new(rights.name())?;
    let operator = match asked.why.as_deref().filter(|why| !why.trim().is_empty()) {
        Some(why) => operator.because(why)?,
        None => operator,
    };
    let verbs = if queue == Queue::Outbox { desk.0.outbox.queue() } else { desk.0.inbox.queue() };
    match (asked.lane, asked.unique_key) {
        (Some(lane), None) => {
            let cancelled = verbs.by(operator.chose(format!("lane {lane}"))?).cancel_lane(&lane).await?;
            Ok(Json(json!({ "cancelled": cancelled.waiting, "askedToStop": cancelled.asked })))
        }
        (None, Some(key)) if queue == Queue::Outbox => {
            let cancelled = verbs.by(operator.chose(format!("unique key {key}"))?).cancel_key(&key).await?;
            let (waiting, asked) = match cancelled {
                Cancelled::Waiting => (1, 0),
                Cancelled::Asked => (0, 1),
                Cancelled::TooLate => return Err(too_late("the message that had it last is finished")),
                _ => {
                    return Err(Refusal::new(StatusCode::NOT_FOUND, "no message has this unique key", "check the key"));
                }
            };
            Ok(Json(json!({ "cancelled": waiting, "askedToStop": asked })))
        }
        _ => {
            let advice = if queue == Queue::Outbox { "send either `lane` or `uniqueKey`" } else { "send `lane`" };
            Err(Refusal::bad("nothing is selected, or two things are", advice))
        }
    }
}

/// Who dismisses a message and why.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dismissing {
    by: String,
    why: String,
}

/// Dismisses a dead or expired message.
pub(super) async fn dismiss(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    id: Result<Path<String>, PathRejection>,
    asked: Result<Json<Object<Dismissing>>, JsonRejection>,
) -> Result<Json<Value>, Refusal> {
    let id: MessageId = id?.0.parse()?;
    let Json(Object(Dismissing { by, why })) = asked?;
    let operator = Operator::new(rights.name())?.because(&why)?.chose(format!("message {id}"))?;
    let (queue, dismissal) = (desk.0.outbox.queue().by(operator), Operator::new(by)?.because(why)?);
    let rows = desk.0.outbox.find(id.as_uuid()).await?;
    if rows.is_empty() {
        return Err(Refusal::new(StatusCode::NOT_FOUND, format!("the outbox has no message {id}"), "check the id"));
    }
    let mut dismissed = 0;
    for row in &rows {
        dismissed += queue.dismiss(Filter::one(row.seq()), dismissal.clone()).await?;
    }
    if dismissed == 0 {
        let state = rows.first().map(Record::state).map_or("gone", |state| state.name(Queue::Outbox));
        let advice = "only dead and expired messages can be dismissed; `postroom explain` explains its state";
        return Err(Refusal::new(StatusCode::CONFLICT, format!("the message is not dead: it is {state}"), advice));
    }
    Ok(Json(json!({ "messageId": id.to_string(), "dismissed": dismissed })))
}

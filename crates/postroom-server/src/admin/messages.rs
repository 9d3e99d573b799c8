//! Enqueues messages over HTTP, for services that cannot write to the table themselves.

mod unique;

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use postroom::clock::Timestamp;
use postroom::message::{Kind, WorkItemId};
use postroom::queue::Stored;
use postroom::{Error, ErrorKind, Message, MessageId, NewMessage};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

use super::object::Object;
use super::problem::Refusal;
use super::{Desk, Rights, whole};
use unique::AskedUnique;

const KEY_BYTES_MAX: usize = 255;
/// The most messages of one batch.
const BATCH_MAX: usize = 1000;
/// A hundred years.
const SECONDS_MAX: u64 = 100 * 365 * 24 * 3600;

/// A message in a request.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Asked {
    topic: String,
    /// Any JSON; its text is stored unchanged.
    payload: Box<RawValue>,
    message_id: Option<String>,
    destination: Option<String>,
    kind: Option<String>,
    correlation_id: Option<String>,
    lane: Option<String>,
    unique: Option<AskedUnique>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "whole::maybe")]
    due_after_seconds: Option<u64>,
    #[serde(default, deserialize_with = "whole::maybe")]
    head_start_seconds: Option<u64>,
    /// RFC 3339.
    due_at: Option<String>,
    #[serde(default, deserialize_with = "whole::maybe")]
    expires_after_seconds: Option<u64>,
    #[serde(default, deserialize_with = "whole::maybe")]
    max_attempts: Option<u32>,
}

/// Stores a message; it is durable when this answers. A second request with the same id or `Idempotency-Key` is a
/// duplicate.
pub(super) async fn enqueue(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    headers: HeaderMap,
    asked: Result<Json<Object<Asked>>, JsonRejection>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let Json(Object(asked)) = asked?;
    let id = match (&asked.message_id, key(&headers)?) {
        (Some(id), None) => Some(id.parse()?),
        (None, Some(key)) => Some(MessageId::from_uuid(id_of(rights.name(), key))?),
        (None, None) => None,
        (Some(_), Some(_)) => return Err(both_are_given()),
    };
    let (message, is_keyed) = (asked.clone().message(id)?, id.is_some() && asked.message_id.is_none());
    let (id, row) = (message.message_id(), message.work_item_id());
    // Another destination would be another row, and no duplicate.
    if is_keyed && asked.contradicts(&desk, id).await? {
        return Err(other_content());
    }
    let key = asked.unique.as_ref().map(AskedUnique::key);
    let stored = match desk.0.outbox.enqueue(message).await {
        Err(error) if error.kind() == ErrorKind::Duplicate => return Err(kept_out(&desk, error, key).await),
        stored => stored?,
    };
    if stored.is_duplicate() && stored.id() == row && is_keyed && !asked.is_stored(&desk, row).await? {
        return Err(other_content());
    }
    let status = if stored.is_duplicate() { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(told((id, row), &stored))))
}

/// Messages that are stored together.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Batch {
    messages: Vec<Object<Asked>>,
}

/// Stores many messages in one transaction: all of them or none. A second request with the same `Idempotency-Key` is a
/// duplicate.
pub(super) async fn enqueue_batch(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    headers: HeaderMap,
    asked: Result<Json<Object<Batch>>, JsonRejection>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let Json(Object(Batch { messages: asked })) = asked?;
    if asked.is_empty() || asked.len() > BATCH_MAX {
        let error = format!("the batch has {} messages", asked.len());
        return Err(Refusal::bad(error, format!("send 1 to {BATCH_MAX} messages")));
    }
    let key = key(&headers)?;
    let id_in = |place: usize| key.map(|key| id_of(rights.name(), &format!("{key}\0{place}")));
    let mut messages = Vec::with_capacity(asked.len());
    for (place, Object(one)) in asked.iter().enumerate() {
        let at = |refusal: Refusal| refusal.at(&format!("messages[{place}]"));
        let id = match (&one.message_id, id_in(place)) {
            (Some(_), Some(_)) => return Err(at(both_are_given())),
            (Some(id), None) => Some(id.parse::<MessageId>().map_err(Refusal::from).map_err(at)?),
            (None, id) => id.map(MessageId::from_uuid).transpose()?,
        };
        let message = one.clone().message(id).map_err(at)?;
        message.check().map_err(Refusal::from).map_err(at)?;
        messages.push(message);
    }
    let ids: Vec<_> = messages.iter().map(|message| (message.message_id(), message.work_item_id())).collect();
    if let (Some(first), Some(behind)) = (id_in(0), id_in(asked.len())) {
        // An earlier batch with this key must be exactly this batch.
        let is_known = !desk.0.outbox.find(first).await?.is_empty();
        let is_longer = !desk.0.outbox.find(behind).await?.is_empty();
        for (one, message) in asked.iter().zip(&messages).filter(|_| is_known) {
            // One whose unique key another message had was not stored.
            let may_be_missing = one.0.unique.is_some();
            let is_same = match may_be_missing {
                true => !one.0.contradicts(&desk, message.message_id()).await?,
                false => one.0.is_stored(&desk, message.work_item_id()).await?,
            };
            if is_longer || !is_same {
                return Err(other_content());
            }
        }
    }
    let stored = desk.0.outbox.enqueue_many(messages).await?;
    for ((Object(one), stored), (_, row)) in asked.iter().zip(&stored).zip(&ids).filter(|_| key.is_some()) {
        if stored.is_duplicate() && stored.id() == *row && !one.is_stored(&desk, *row).await? {
            return Err(other_content());
        }
    }
    let is_new = stored.iter().any(|stored| stored.is_new());
    let told = ids.iter().zip(&stored).map(|(id, stored)| told(*id, stored)).collect::<Vec<_>>();
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(json!({ "messages": told }))))
}

/// What became of a message, by its id and that of its row.
fn told((id, row): (MessageId, WorkItemId), stored: &Stored) -> Value {
    let mut told = json!({ "messageId": id.to_string(), "duplicate": stored.is_duplicate() });
    if stored.id() != row {
        told["keptOutBy"] = stored.id().to_string().into();
    }
    if let Some(replaced) = stored.replaced() {
        told["replaced"] = replaced.to_string().into();
    }
    told
}

/// The refusal of a message whose unique key another one has.
async fn kept_out(desk: &Desk, error: Error, key: Option<&str>) -> Refusal {
    let holder = match key {
        Some(key) => desk.0.outbox.with_key(key).await.ok().flatten(),
        None => None,
    };
    holder.into_iter().fold(Refusal::from(error), Refusal::kept_out_by)
}

fn both_are_given() -> Refusal {
    let error = "both messageId and Idempotency-Key are given";
    Refusal::new(StatusCode::CONFLICT, error, "send only one of them")
}

fn other_content() -> Refusal {
    let (error, advice) = ("this Idempotency-Key was used with other content", "use a new key for a new message");
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, error, advice)
}

fn key(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let text = key.to_str().ok().map(|key| key.trim().trim_matches('"'));
    let text = text.filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX);
    text.map(Some).ok_or_else(|| Refusal::bad("the Idempotency-Key is invalid", "send 1 to 255 ASCII characters"))
}

/// The same key of the same token gives the same id. The same key of another token gives another id.
fn id_of(token: &str, key: &str) -> Uuid {
    let digest = Sha256::digest(format!("postroom idempotency-key\0{token}\0{key}"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Builder::from_custom_bytes(bytes).into_uuid()
}

impl Asked {
    /// Whether a message with this id is stored that has other content.
    async fn contradicts(&self, desk: &Desk, id: MessageId) -> Result<bool, Refusal> {
        let found = desk.0.outbox.find(id.as_uuid()).await?;
        Ok(found.iter().any(|record| !record.message().is_ok_and(|known| self.is_like(known))))
    }

    /// Whether the stored message with this id has the same content.
    async fn is_stored(&self, desk: &Desk, id: WorkItemId) -> Result<bool, Refusal> {
        let found = desk.0.outbox.find(id.as_uuid()).await?;
        Ok(!found.is_empty() && found.iter().all(|record| record.message().is_ok_and(|known| self.is_like(known))))
    }

    /// A time that is relative to the request differs each time, so only that there is one is compared.
    fn is_like(&self, known: &Message) -> bool {
        let is_due = match &self.due_at {
            Some(time) => moment(time).is_ok_and(|time| known.due_at == Some(time)),
            None => known.due_at.is_some() == self.due_after_seconds.or(self.head_start_seconds).is_some(),
        };
        (self.topic.as_str(), self.payload.get()) == (known.topic.as_str(), known.payload.as_str())
            && self.kind.as_deref().unwrap_or(Kind::Event.as_str()) == known.kind.as_str()
            && is_due
            && self.max_attempts == known.max_attempts
            && (self.destination.as_deref(), &self.correlation_id) == (known.destination(), &known.correlation_id)
            && self.lane.as_deref().filter(|lane| !lane.is_empty()) == known.lane.as_deref()
            && self.headers == known.headers
    }

    fn message(self, id: Option<MessageId>) -> Result<NewMessage, Refusal> {
        let mut message = NewMessage::new(self.topic, self.payload.get());
        if let Some(id) = id {
            message = message.id(id);
        }
        if let Some(kind) = self.kind {
            let known = Kind::from_name(&kind);
            let allowed = || format!("the kinds are {}", Kind::ALL.map(Kind::as_str).join(", "));
            message =
                message.kind(known.ok_or_else(|| Refusal::bad(format!("the kind {kind:?} is unknown"), allowed()))?);
        }
        if let Some(destination) = self.destination {
            message = message.to(destination);
        }
        if let Some(correlation_id) = self.correlation_id {
            message = message.correlation_id(correlation_id);
        }
        if let Some(lane) = self.lane {
            message = message.lane(lane);
        }
        if let Some(unique) = self.unique {
            message = message.unique(unique.unique()?);
        }
        message = self.headers.into_iter().fold(message, |message, (name, value)| message.header(name, value));
        message = match (self.due_at, self.due_after_seconds, self.head_start_seconds) {
            (Some(time), None, None) => message.due_at(moment(&time)?),
            (None, Some(seconds), None) => message.due_after(span(seconds)?),
            (None, None, Some(seconds)) => message.head_start(span(seconds)?),
            (None, None, None) => message,
            (due, after, _) => {
                let first = if due.is_some() { "dueAt" } else { "dueAfterSeconds" };
                let second = if due.is_some() && after.is_some() { "dueAfterSeconds" } else { "headStartSeconds" };
                return Err(Refusal::bad(format!("both {first} and {second} are given"), "send only one"));
            }
        };
        if let Some(seconds) = self.expires_after_seconds {
            message = message.expires_after(span(seconds)?);
        }
        Ok(match self.max_attempts {
            Some(attempts) => message.max_attempts(attempts),
            None => message,
        })
    }
}

fn span(seconds: u64) -> Result<Duration, Refusal> {
    if seconds > SECONDS_MAX {
        return Err(Refusal::bad(format!("{seconds} seconds is too long"), "send at most a hundred years"));
    }
    Ok(Duration::from_secs(seconds))
}

fn moment(text: &str) -> Result<Timestamp, Refusal> {
    text.parse().map_err(|_| Refusal::bad("dueAt is not a valid time", "write it like 2026-11-15T12:00:00Z"))
}

//! Lets services fetch and settle messages over HTTP, if the node cannot post to them.

mod items;

pub(super) use items::{abandon, ack, extend, fail};

use std::time::Duration;

use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use postroom::handler::Backend;
use postroom::message::Headers;
use postroom::queue::{LeaseToken, Pull, PullRequest, Pulled, Queue, State as Stands, Topics};
use postroom::store::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::object::Object;
use super::problem::Refusal;
use super::{Desk, Rights, whole};

const LIMIT: usize = 10;
const LIMIT_MAX: usize = 100;
const LEASE: u64 = 30;
/// Shorter than the timeout of common proxies.
const WAIT_MAX: u64 = 30;
/// The largest answer, unless one message alone is larger.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Internal headers of the wire format are left out.
const RESERVED: &str = "rf-";

/// What to do with a fetched message.
pub(crate) enum Verb {
    Ack { answer: Option<String> },
    Abandon { error: String, delay: Option<Duration> },
    Fail { error: String },
    Extend { lease: Duration },
}

/// Hands out messages, on any database.
pub(crate) trait Counter: Send + Sync {
    fn claim<'a>(&'a self, request: &'a PullRequest) -> BoxFuture<'a, postroom::Result<Vec<Pulled>>>;

    /// Whether the message was cancelled.
    fn asked_to_stop<'a>(&'a self, token: &'a LeaseToken) -> BoxFuture<'a, postroom::Result<bool>>;

    /// The new state of the message; `None` if the lease is lost.
    fn settle<'a>(&'a self, token: &'a LeaseToken, verb: Verb) -> BoxFuture<'a, postroom::Result<Option<Stands>>>;

    /// Waits until no claim is left whose client has disconnected.
    fn ended(&self) -> BoxFuture<'_, ()>;
}

impl<B: Backend> Counter for Pull<B> {
    fn claim<'a>(&'a self, request: &'a PullRequest) -> BoxFuture<'a, postroom::Result<Vec<Pulled>>> {
        Box::pin(self.claim(request))
    }

    fn asked_to_stop<'a>(&'a self, token: &'a LeaseToken) -> BoxFuture<'a, postroom::Result<bool>> {
        Box::pin(async move { Ok(self.asked_to_stop(std::slice::from_ref(token)).await?.contains(&true)) })
    }

    fn settle<'a>(&'a self, token: &'a LeaseToken, verb: Verb) -> BoxFuture<'a, postroom::Result<Option<Stands>>> {
        Box::pin(async move {
            match verb {
                Verb::Ack { answer } => self.ack(token, answer).await,
                Verb::Abandon { error, delay } => self.abandon(token, &error, delay).await,
                Verb::Fail { error } => self.fail(token, &error).await,
                Verb::Extend { lease } => {
                    let held = self.extend(std::slice::from_ref(token), lease).await?;
                    Ok(held.contains(&true).then_some(Stands::Leased))
                }
            }
        })
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.ended())
    }
}

/// The topics that services fetch, and their queues.
pub(crate) struct Counters {
    pub(crate) topics: Topics,
    pub(crate) outbox: Box<dyn Counter>,
    pub(crate) inbox: Box<dyn Counter>,
}

impl Desk {
    /// The counter of a queue, by the name in the path.
    fn counter(&self, queue: Result<Path<String>, PathRejection>) -> Result<(&Counters, &dyn Counter), Refusal> {
        let queue = queue.map(|Path(name)| name).unwrap_or_default();
        let known = [Queue::Outbox, Queue::Inbox].into_iter().find(|known| known.as_str() == queue);
        let nowhere = || Refusal::new(StatusCode::NOT_FOUND, "there is no such queue", "use outbox or inbox");
        let known = known.ok_or_else(nowhere)?;
        let Some(counters) = &self.0.counters else {
            let advice = "set `pull` to true in [handlers.\"TOPIC\"] of the configuration";
            return Err(Refusal::new(StatusCode::CONFLICT, "this node has no topic to fetch", advice));
        };
        let counter = if known == Queue::Outbox { &counters.outbox } else { &counters.inbox };
        Ok((counters, counter.as_ref()))
    }
}

/// A request for messages.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Asked {
    /// The default is every topic that can be fetched.
    topics: Option<Vec<String>>,
    #[serde(default, deserialize_with = "whole::maybe")]
    limit: Option<usize>,
    #[serde(default, deserialize_with = "whole::maybe")]
    lease_seconds: Option<u64>,
    #[serde(default, deserialize_with = "whole::maybe")]
    wait_seconds: Option<u64>,
}

impl Asked {
    fn request(self, fetched: &Topics, rights: &Rights) -> Result<PullRequest, Refusal> {
        let (limit, wait) = (self.limit.unwrap_or(LIMIT), self.wait_seconds.unwrap_or(0));
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(Refusal::bad(format!("the limit {limit} is not allowed"), format!("use 1 to {LIMIT_MAX}")));
        }
        if wait > WAIT_MAX {
            return Err(Refusal::bad(format!("the wait of {wait} s is too long"), format!("use 0 to {WAIT_MAX} s")));
        }
        let topics = match self.topics {
            None => allowed(fetched, rights)?,
            Some(topics) => {
                if let Some(other) = topics.iter().find(|topic| !fetched.contains(topic, None)) {
                    let advice = "set `pull` to true in [handlers.\"TOPIC\"], and restart the node";
                    return Err(Refusal::bad(format!("the topic {other:?} cannot be fetched"), advice));
                }
                if let Some(other) = topics.iter().find(|topic| !rights.may_fetch(topic)) {
                    return Err(not_allowed(rights, &format!("the topic {other:?}")));
                }
                Topics::only(topics)?
            }
        };
        let lease = Duration::from_secs(self.lease_seconds.unwrap_or(LEASE));
        let request = PullRequest::new(topics).limit(limit).lease(lease).bytes_max(BYTES_MAX);
        Ok(request.wait(Duration::from_secs(wait)))
    }
}

/// The topics that this token may fetch here.
fn allowed(fetched: &Topics, rights: &Rights) -> Result<Topics, Refusal> {
    let Some(topics) = rights.fetches_only() else { return Ok(fetched.clone()) };
    let topics: Vec<_> = topics.iter().filter(|topic| fetched.contains(topic, None)).cloned().collect();
    if topics.is_empty() {
        return Err(not_allowed(rights, "any topic of this node"));
    }
    Ok(Topics::only(topics)?)
}

fn not_allowed(rights: &Rights, what: &str) -> Refusal {
    let error = format!("the token {} may not fetch {what}", rights.name());
    let advice = format!("add \"pull:TOPIC\" to `may` in [tokens.{}]", rights.name());
    Refusal::new(StatusCode::FORBIDDEN, error, advice)
}

/// Hands out messages, each with a lease. Waits for the first one if the request asks for it, a permit is free and the
/// node is not stopping.
pub(super) async fn claim(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    queue: Result<Path<String>, PathRejection>,
    asked: Result<Json<Object<Asked>>, JsonRejection>,
) -> Result<Response, Refusal> {
    let (counters, counter) = desk.counter(queue)?;
    let request = asked?.0.0.request(&counters.topics, &rights)?;
    let place = desk.0.waiting.try_acquire();
    let request = if place.is_ok() { request } else { request.wait(Duration::ZERO) };
    let pulled = tokio::select! {
        pulled = counter.claim(&request) => pulled?,
        () = desk.0.stopped.clone().wait() => Vec::new(),
    };
    let messages: Vec<Handed<'_>> = pulled.iter().map(Handed::new).collect();
    let text = serde_json::to_string(&Page { messages }).map_err(|_| {
        Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the messages cannot be written as JSON",
            "see the log of the node",
        )
    })?;
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}

#[derive(Serialize)]
struct Page<'a> {
    messages: Vec<Handed<'a>>,
}

/// A fetched message.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Handed<'a> {
    lease: String,
    leased_until: String,
    message_id: String,
    topic: &'a str,
    kind: &'static str,
    /// Counted from one.
    attempt: u32,
    source: Option<&'a str>,
    correlation_id: Option<&'a str>,
    lane: Option<&'a str>,
    headers: Headers,
    created_at: String,
    /// Exactly as stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    /// In place of `payload`, if that is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<&'a str>,
}

impl<'a> Handed<'a> {
    fn new(pulled: &'a Pulled) -> Self {
        let message = &pulled.message;
        let json = serde_json::from_str::<&RawValue>(&message.payload).ok();
        // Whitespace around it is part of the payload, and JSON would lose it.
        let json = json.filter(|json| json.get().len() == message.payload.len());
        let told = message.headers.iter().filter(|(name, _)| !name.starts_with(RESERVED));
        Self {
            lease: pulled.token.to_string(),
            leased_until: pulled.until.to_string(),
            message_id: message.id(),
            topic: &message.topic,
            kind: message.kind.as_str(),
            attempt: message.attempts.saturating_add(1),
            source: message.source(),
            correlation_id: message.correlation_id.as_deref(),
            lane: message.lane.as_deref(),
            headers: told.map(|(name, value)| (name.clone(), value.clone())).collect(),
            created_at: message.created_at.to_string(),
            payload: json,
            payload_text: json.is_none().then_some(&message.payload),
        }
    }
}

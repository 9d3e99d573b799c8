//! Fetching messages by HTTP, and settling them: for services that nobody can post to.

mod items;

pub(super) use items::{abandon, ack, extend, fail};

use std::time::Duration;

use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use postroom::{Backend, BoxFuture, Headers, LeaseToken, Pull, PullRequest, Pulled, Queue, State as Stands, Topics};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::object::Object;
use super::problem::Refusal;
use super::{Desk, Rights, whole};

const LIMIT: usize = 10;
const LIMIT_MAX: usize = 100;
const LEASE: u64 = 30;
/// Shorter than what proxies wait for an answer.
const WAIT_MAX: u64 = 30;
/// The answer is at most so large, unless one message alone is larger.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Headers of the wire itself are nobody's business.
const RESERVED: &str = "rf-";

/// How a message that was fetched ends, or goes on.
pub(crate) enum Verb {
    Ack { answer: Option<String> },
    Abandon { error: String, delay: Option<Duration> },
    Fail { error: String },
    Extend { lease: Duration },
}

/// Hands messages out, whatever the database is.
pub(crate) trait Counter: Send + Sync {
    fn claim<'a>(&'a self, request: &'a PullRequest) -> BoxFuture<'a, postroom::Result<Vec<Pulled>>>;

    /// Where the message stands then; none when the lease is lost.
    fn settle<'a>(&'a self, token: &'a LeaseToken, verb: Verb) -> BoxFuture<'a, postroom::Result<Option<Stands>>>;

    /// Waits until nothing is claimed for somebody who is gone.
    fn ended(&self) -> BoxFuture<'_, ()>;
}

impl<B: Backend> Counter for Pull<B> {
    fn claim<'a>(&'a self, request: &'a PullRequest) -> BoxFuture<'a, postroom::Result<Vec<Pulled>>> {
        Box::pin(self.claim(request))
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

/// What services fetch, and from whom.
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
        let nowhere = || Refusal::new(StatusCode::NOT_FOUND, "there is no such queue", "it is outbox or inbox");
        let known = known.ok_or_else(nowhere)?;
        let Some(counters) = &self.0.counters else {
            let advice = "set `pull` to true in a [handlers.\"TOPIC\"] of the configuration";
            return Err(Refusal::new(StatusCode::CONFLICT, "no messages are fetched from this node", advice));
        };
        let counter = if known == Queue::Outbox { &counters.outbox } else { &counters.inbox };
        Ok((counters, counter.as_ref()))
    }
}

/// What is asked for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Asked {
    /// All that are fetched, unless some are named.
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
            return Err(Refusal::bad(format!("a limit of {limit}"), format!("allowed are 1 to {LIMIT_MAX}")));
        }
        if wait > WAIT_MAX {
            return Err(Refusal::bad(format!("a wait of {wait} s"), format!("allowed are 0 to {WAIT_MAX} s")));
        }
        let topics = match self.topics {
            None => allowed(fetched, rights)?,
            Some(topics) => {
                if let Some(other) = topics.iter().find(|topic| !fetched.contains(topic, None)) {
                    let advice = "set `pull` to true in its [handlers.\"TOPIC\"], and start the node again";
                    return Err(Refusal::bad(format!("messages of the topic {other:?} are not fetched"), advice));
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

/// Of what is fetched here, what this token may fetch.
fn allowed(fetched: &Topics, rights: &Rights) -> Result<Topics, Refusal> {
    let Some(topics) = rights.fetches_only() else { return Ok(fetched.clone()) };
    let topics: Vec<_> = topics.iter().filter(|topic| fetched.contains(topic, None)).cloned().collect();
    if topics.is_empty() {
        return Err(not_allowed(rights, "any topic that is fetched here"));
    }
    Ok(Topics::only(topics)?)
}

fn not_allowed(rights: &Rights, what: &str) -> Refusal {
    let error = format!("the token {} may not fetch {what}", rights.name());
    let advice = format!("add \"pull:TOPIC\" to `may` in [tokens.{}]", rights.name());
    Refusal::new(StatusCode::FORBIDDEN, error, advice)
}

/// Hands messages out, each under a lease. It waits for the first one if it is asked to and there is a place to wait,
/// and until the node stops.
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
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the messages cannot be written as JSON", "see the node's log")
    })?;
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}

#[derive(Serialize)]
struct Page<'a> {
    messages: Vec<Handed<'a>>,
}

/// A message as it is handed out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Handed<'a> {
    lease: String,
    leased_until: String,
    message_id: String,
    topic: &'a str,
    kind: &'static str,
    /// From one.
    attempt: u32,
    source: Option<&'a str>,
    correlation_id: Option<&'a str>,
    headers: Headers,
    created_at: String,
    /// As it is stored, byte for byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    /// Instead, where the payload is no JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<&'a str>,
}

impl<'a> Handed<'a> {
    fn new(pulled: &'a Pulled) -> Self {
        let message = &pulled.message;
        let json = serde_json::from_str::<&RawValue>(&message.payload).ok();
        // Blanks around it are a part of the payload, and no JSON would show them.
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
            headers: told.map(|(name, value)| (name.clone(), value.clone())).collect(),
            created_at: message.created_at.to_string(),
            payload: json,
            payload_text: json.is_none().then_some(&message.payload),
        }
    }
}

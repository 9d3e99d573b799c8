//! Working by HTTP: claim, then ack, abandon, fail or extend. A lease is a text that is handed back as it came.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use postroom::{Claimed, Lease, OwnerToken, Queue, Settle, WorkQueue};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Desk;
use super::problem::Refusal;

const CLAIM_MAX: usize = 1000;
const LEASE: u64 = 30;
/// So long a message is left alone after an attempt that failed, unless its worker says otherwise.
const DELAY: u64 = 10;

/// Which queue stands in the path.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Which {
    Outbox,
    Inbox,
}

fn queue(desk: &Desk, which: Result<Path<Which>, PathRejection>) -> Result<WorkQueue, Refusal> {
    Ok(match which?.0 {
        Which::Outbox => desk.0.outbox.queue().clone(),
        Which::Inbox => desk.0.inbox.queue().clone(),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Claim {
    #[serde(default = "one")]
    max: usize,
    #[serde(default = "lease")]
    lease_seconds: u64,
}

fn one() -> usize {
    1
}

fn lease() -> u64 {
    LEASE
}

pub(super) async fn claim(
    State(desk): State<Desk>,
    which: Result<Path<Which>, PathRejection>,
    asked: Result<Json<Claim>, JsonRejection>,
) -> Result<Json<Value>, Refusal> {
    let (queue, Json(Claim { max, lease_seconds })) = (queue(&desk, which)?, asked?);
    if !(1..=CLAIM_MAX).contains(&max) {
        return Err(Refusal::bad(format!("max is {max}"), format!("allowed are 1 to {CLAIM_MAX}")));
    }
    let claims = queue.claim(OwnerToken::new(), Duration::from_secs(lease_seconds), max).await?;
    let messages: Vec<Value> = claims.claimed.iter().map(|claimed| told(queue.kind(), claimed)).collect();
    Ok(Json(json!({ "messages": messages, "nextAt": claims.next_at.map(|at| at.to_string()) })))
}

fn told(queue: Queue, claimed: &Claimed) -> Value {
    let (lease, until) = (claimed.lease.to_string(), claimed.lease.until().to_string());
    match &claimed.message {
        Err(why) => json!({ "lease": lease, "leasedUntil": until, "unreadable": why }),
        Ok(message) => {
            let payload: Value = serde_json::from_str(&message.payload).unwrap_or_else(|_| json!(message.payload));
            json!({
                "lease": lease, "leasedUntil": until, "attempt": claimed.lease.attempts() + 1,
                "messageId": message.id(), "topic": message.topic, "kind": message.kind.as_str(),
                "source": message.source(), "destination": message.destination(),
                "correlationId": message.correlation_id, "headers": message.headers, "payload": payload,
                "queue": queue.to_string(),
            })
        }
    }
}

/// What is handed back.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Held {
    leases: Vec<String>,
    /// To acknowledge: the answer, of a single message.
    response: Option<Box<RawValue>>,
    /// To abandon or fail: why.
    error: Option<String>,
    /// To abandon: for how long it is left alone.
    delay_seconds: Option<u64>,
    /// To extend: for how long from now.
    lease_seconds: Option<u64>,
}

impl Held {
    fn leases(&self) -> Result<Vec<Lease>, Refusal> {
        if self.leases.is_empty() || self.leases.len() > CLAIM_MAX {
            let count = self.leases.len();
            return Err(Refusal::bad(format!("{count} leases"), format!("allowed are 1 to {CLAIM_MAX}")));
        }
        let parsed = self.leases.iter().map(|lease| lease.parse());
        Ok(parsed.collect::<postroom::Result<Vec<Lease>>>()?)
    }
}

/// The leases of a request, each with what becomes of it.
async fn settle(
    desk: &Desk,
    which: Result<Path<Which>, PathRejection>,
    held: Result<Json<Held>, JsonRejection>,
    verb: impl Fn(Lease, &Held) -> Result<Settle, Refusal>,
) -> Result<Json<Value>, Refusal> {
    let (queue, Json(held)) = (queue(desk, which)?, held?);
    let settles = held.leases()?.into_iter().map(|lease| verb(lease, &held)).collect::<Result<_, _>>()?;
    let settled = queue.settle(settles).await?;
    Ok(Json(json!({ "applied": settled.applied, "lost": settled.lost })))
}

pub(super) async fn ack(
    State(desk): State<Desk>,
    which: Result<Path<Which>, PathRejection>,
    held: Result<Json<Held>, JsonRejection>,
) -> Result<Json<Value>, Refusal> {
    settle(&desk, which, held, |lease, held| match &held.response {
        Some(_) if held.leases.len() > 1 => {
            Err(Refusal::bad("one response for many leases", "acknowledge them singly"))
        }
        response => Ok(Settle::ack_with(lease, response.as_ref().map(|response| response.get().to_owned()))),
    })
    .await
}

pub(super) async fn abandon(
    State(desk): State<Desk>,
    which: Result<Path<Which>, PathRejection>,
    held: Result<Json<Held>, JsonRejection>,
) -> Result<Json<Value>, Refusal> {
    settle(&desk, which, held, |lease, held| {
        let delay = Duration::from_secs(held.delay_seconds.unwrap_or(DELAY));
        Ok(Settle::abandon(lease, delay, held.error.as_deref().unwrap_or_default())?)
    })
    .await
}

pub(super) async fn fail(
    State(desk): State<Desk>,
    which: Result<Path<Which>, PathRejection>,
    held: Result<Json<Held>, JsonRejection>,
) -> Result<Json<Value>, Refusal> {
    settle(&desk, which, held, |lease, held| Ok(Settle::fail(lease, held.error.as_deref().unwrap_or_default()))).await
}

pub(super) async fn extend(
    State(desk): State<Desk>,
    which: Result<Path<Which>, PathRejection>,
    held: Result<Json<Held>, JsonRejection>,
) -> Result<Json<Value>, Refusal> {
    let (queue, Json(held)) = (queue(&desk, which)?, held?);
    let lease = Duration::from_secs(held.lease_seconds.unwrap_or(LEASE));
    let kept = queue.extend(&held.leases()?, lease).await?;
    Ok(Json(json!({ "extended": kept })))
}

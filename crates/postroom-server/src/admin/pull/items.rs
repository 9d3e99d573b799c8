//! Settles fetched messages, several at once, with one result for each.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use postroom::queue::{LeaseToken, State as Stands};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Counter, Verb};
use crate::admin::object::Object;
use crate::admin::problem::Refusal;
use crate::admin::{Desk, whole};

const ITEMS_MAX: usize = 1000;
/// The number of messages settled at once: they share commits, and leave connections to others.
const AT_ONCE: usize = 16;
const DELAY_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
const ANSWER_MAX: usize = 64 * 1024;

/// The messages to settle.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct Items<T> {
    items: Vec<Object<T>>,
}

/// One message, and what to do with it.
trait Item {
    fn into_parts(self) -> (String, Result<Verb, Refusal>);
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct Acked {
    lease: String,
    /// Any JSON; its text is stored unchanged.
    answer: Option<Box<RawValue>>,
}

impl Item for Acked {
    fn into_parts(self) -> (String, Result<Verb, Refusal>) {
        let answer = self.answer.map(|answer| answer.get().to_owned());
        let too_long = answer.as_ref().is_some_and(|answer| answer.len() > ANSWER_MAX);
        let refusal = || Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "the answer is too long", "send at most 64 KiB");
        (self.lease, if too_long { Err(refusal()) } else { Ok(Verb::Ack { answer }) })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::admin) struct Abandoned {
    lease: String,
    #[serde(default)]
    error: String,
    #[serde(default, deserialize_with = "whole::maybe")]
    delay_seconds: Option<u64>,
}

impl Item for Abandoned {
    fn into_parts(self) -> (String, Result<Verb, Refusal>) {
        let delay = self.delay_seconds.map(Duration::from_secs);
        let refusal = || Refusal::bad("the delay is too long", "send at most a year");
        let too_long = delay.is_some_and(|delay| delay > DELAY_MAX);
        (self.lease, if too_long { Err(refusal()) } else { Ok(Verb::Abandon { error: self.error, delay }) })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct Failed {
    lease: String,
    #[serde(default)]
    error: String,
}

impl Item for Failed {
    fn into_parts(self) -> (String, Result<Verb, Refusal>) {
        (self.lease, Ok(Verb::Fail { error: self.error }))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::admin) struct Extended {
    lease: String,
    #[serde(deserialize_with = "whole::number")]
    lease_seconds: u64,
}

impl Item for Extended {
    fn into_parts(self) -> (String, Result<Verb, Refusal>) {
        (self.lease, Ok(Verb::Extend { lease: Duration::from_secs(self.lease_seconds) }))
    }
}

macro_rules! settles {
    ($($(#[$doc:meta])* $name:ident: $item:ty;)*) => {$(
        $(#[$doc])*
        pub(in crate::admin) async fn $name(
            State(desk): State<Desk>,
            queue: Result<Path<String>, PathRejection>,
            items: Result<Json<Object<Items<$item>>>, JsonRejection>,
        ) -> Result<Response, Refusal> {
            settle(&desk, queue, items).await
        }
    )*};
}

settles! {
    /// Acks messages.
    ack: Acked;
    /// Requeues messages.
    abandon: Abandoned;
    /// Makes messages dead.
    fail: Failed;
    /// Extends leases.
    extend: Extended;
}

/// The result for one message.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Settled {
    lease: String,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    /// Whether somebody cancelled the message while it is in progress.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    asked_to_stop: bool,
    #[serde(flatten)]
    refusal: Option<Refusal>,
}

#[derive(Serialize)]
struct Results {
    results: Vec<Settled>,
}

async fn settle<T: Item>(
    desk: &Desk,
    queue: Result<Path<String>, PathRejection>,
    items: Result<Json<Object<Items<T>>>, JsonRejection>,
) -> Result<Response, Refusal> {
    let (_, counter) = desk.counter(queue)?;
    let Items { items } = items?.0.0;
    if items.is_empty() || items.len() > ITEMS_MAX {
        return Err(Refusal::bad(format!("there are {} items", items.len()), format!("send 1 to {ITEMS_MAX}")));
    }
    let results: Vec<Settled> = stream::iter(items.into_iter().map(|item| item.0.into_parts()))
        .map(|(lease, verb)| settle_one(counter, lease, verb))
        .buffered(AT_ONCE)
        .collect()
        .await;
    let worst = results.iter().map(|settled| settled.status).max();
    let status = worst.and_then(|worst| StatusCode::from_u16(worst).ok()).unwrap_or_default();
    Ok((status, Json(Results { results })).into_response())
}

async fn settle_one(counter: &dyn Counter, lease: String, verb: Result<Verb, Refusal>) -> Settled {
    let stands = async {
        let token: LeaseToken = lease.parse()?;
        let stands = counter.settle(&token, verb?).await?.ok_or_else(|| {
            let error = "the lease is lost: it expired, or the message was already settled";
            Refusal::new(StatusCode::CONFLICT, error, "do nothing: the message is settled, or another client has it")
        })?;
        let asked_to_stop = stands == Stands::Leased && counter.asked_to_stop(&token).await?;
        Ok::<_, Refusal>((stands, asked_to_stop))
    };
    let stands = stands.await;
    match stands {
        Ok((stands, asked_to_stop)) => {
            Settled { lease, status: 200, state: Some(name(stands)), asked_to_stop, refusal: None }
        }
        Err(refusal) => {
            let (status, asked_to_stop) = (refusal.status(), false);
            Settled { lease, status, state: None, asked_to_stop, refusal: Some(refusal) }
        }
    }
}

fn name(stands: Stands) -> &'static str {
    match stands {
        Stands::Done => "done",
        Stands::Leased => "leased",
        Stands::Dead => "dead",
        Stands::Expired => "expired",
        Stands::Dismissed => "dismissed",
        _ => "waiting",
    }
}

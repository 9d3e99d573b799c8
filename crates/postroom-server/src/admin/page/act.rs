//! What the page changes. The same as the command line does, by the same code; each can be tried without a change.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use postroom::{Filter, Queue, Revival, WorkQueue};
use serde::{Deserialize, Serialize};

use super::failed::Meant;
use super::groups::{LOOKED_AT_MAX, merge};
use super::queue_of;
use crate::admin::Desk;
use crate::admin::problem::Refusal;
use crate::operator::{Count, Ending, Reviving};
use crate::{duration, output};

/// Longer than any message should wait.
const DELAY_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Which messages go back in line, and how.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Revive {
    queue: Option<String>,
    /// One message.
    row: Option<i64>,
    /// Those of a group.
    group: Option<String>,
    /// Those with this in their topic, service, error or id.
    q: Option<String>,
    /// All that failed. Told on purpose: what was left out by mistake must not mean everything.
    #[serde(default)]
    all: bool,
    /// The first of them after so long.
    after: Option<String>,
    per_second: Option<u32>,
    ttl: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

/// What is past its time becomes expired.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Expire {
    queue: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

/// What was done long ago is deleted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Purge {
    queue: Option<String>,
    older_than: String,
    #[serde(default)]
    dry_run: bool,
}

/// What was done, or would be.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Done {
    messages: u64,
    still_expired: u64,
    dry_run: bool,
    /// There may be more: so many were looked at and no more.
    is_bounded: bool,
    /// In words.
    told: String,
}

pub(super) async fn revive(
    State(desk): State<Desk>,
    asked: Result<Json<Revive>, JsonRejection>,
) -> Result<Json<Done>, Refusal> {
    let Json(mut asked) = asked?;
    // An empty field is none: it must not mean everything.
    asked.group = asked.group.filter(|group| !group.trim().is_empty());
    asked.q = asked.q.filter(|part| !part.trim().is_empty());
    let queue = queue_of(&desk, asked.queue.as_deref())?;
    if !asked.all && asked.row.is_none() && asked.group.is_none() && asked.q.is_none() {
        return Err(Refusal::bad("it is not said which messages", "give `row`, `group`, `q`, or `all`: true"));
    }
    let groups = match &asked.group {
        Some(_) => merge(queue.failed_groups(LOOKED_AT_MAX).await?),
        None => Vec::new(),
    };
    let meant = Meant::new(&groups, asked.group.as_deref(), asked.q.as_deref())?;
    let reviving = Reviving {
        queue,
        clock: desk.0.page.clock(),
        revival: asked.revival()?,
        dry_run: asked.dry_run,
        most: u64::MAX,
        look_at_most: LOOKED_AT_MAX as u64,
    };
    let filter = asked.row.map_or_else(|| meant.filter(), Filter::one);
    let count = reviving.those(&filter, |failed| meant.is(failed)).await?;
    Ok(Json(Done::revived(count, &reviving)))
}

impl Revive {
    fn revival(&self) -> Result<Revival, Refusal> {
        let mut revival = Revival::at_once();
        if let Some(delay) = span("after", self.after.as_deref())? {
            revival = revival.after(delay);
        }
        if let Some(rate) = self.per_second {
            if rate == 0 {
                return Err(Refusal::bad("at 0 a second none would ever go", "leave `perSecond` out, or take more"));
            }
            revival = revival.per_second(rate);
        }
        match span("ttl", self.ttl.as_deref())? {
            Some(Duration::ZERO) => Err(Refusal::bad("a time to live of zero", "write one like 1h")),
            Some(ttl) => Ok(revival.ttl(ttl)),
            None => Ok(revival),
        }
    }
}

impl Done {
    fn revived(count: Count, reviving: &Reviving<'_>) -> Self {
        let Count { revived, still_expired, looked_at } = count;
        let verb = match (reviving.dry_run, revived) {
            (true, _) => "would be",
            (false, 1) => "is",
            (false, _) => "are",
        };
        let mut told = format!("{} {verb} back in line", plural(revived));
        if revived > 1 {
            let last = reviving.revival.delay_of(revived - 1);
            if !last.is_zero() {
                told += &format!(", the last of them in {}", duration::short(last));
            }
        }
        if still_expired > 0 {
            let stay = if reviving.dry_run { "would stay" } else { "stayed" };
            told +=
                &format!("; {} {stay} as they are: their time is over, give a new time to live", plural(still_expired));
        }
        let is_bounded = looked_at >= reviving.look_at_most;
        if is_bounded {
            told += &format!("; only {} were looked at, there may be more", plural(looked_at));
        }
        Self { messages: revived, still_expired, dry_run: reviving.dry_run, is_bounded, told: told + "." }
    }

    /// Whatever is found ends; before, it is counted only up to a bound.
    async fn ended(ending: Ending, queue: &WorkQueue, dry_run: bool) -> Result<Self, Refusal> {
        let messages = match dry_run {
            true => ending.count(queue, LOOKED_AT_MAX).await?,
            false => ending.all(queue).await?,
        };
        let is_bounded = dry_run && messages >= LOOKED_AT_MAX as u64;
        let verb = match ending {
            Ending::Expire => "expired",
            Ending::Purge(_) => "deleted",
        };
        let (least, were) = match (is_bounded, dry_run, messages) {
            (true, ..) => ("At least ", "would be"),
            (_, true, _) => ("", "would be"),
            (_, _, 1) => ("", "was"),
            _ => ("", "were"),
        };
        let told = format!("{least}{} {were} {verb}.", plural(messages));
        Ok(Self { messages, still_expired: 0, dry_run, is_bounded, told })
    }
}

pub(super) async fn expire(
    State(desk): State<Desk>,
    asked: Result<Json<Expire>, JsonRejection>,
) -> Result<Json<Done>, Refusal> {
    let Json(Expire { queue, dry_run }) = asked?;
    let queue = queue_of(&desk, queue.as_deref())?;
    if queue.kind() == Queue::Inbox {
        return Err(Refusal::bad("what arrived does not expire", "only the outbox has messages with a time to live"));
    }
    Ok(Json(Done::ended(Ending::Expire, queue, dry_run).await?))
}

pub(super) async fn purge(
    State(desk): State<Desk>,
    asked: Result<Json<Purge>, JsonRejection>,
) -> Result<Json<Done>, Refusal> {
    let Json(Purge { queue, older_than, dry_run }) = asked?;
    let queue = queue_of(&desk, queue.as_deref())?;
    let older_than = span("olderThan", Some(&older_than))?.unwrap_or(DELAY_MAX);
    Ok(Json(Done::ended(Ending::Purge(older_than), queue, dry_run).await?))
}

/// A span of time as people write it; an empty field is none.
fn span(name: &str, text: Option<&str>) -> Result<Option<Duration>, Refusal> {
    let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
    match duration::parse(text) {
        Ok(span) if span > DELAY_MAX => Err(Refusal::bad(format!("`{name}` is too long"), "allowed is up to 365d")),
        Ok(span) => Ok(Some(span)),
        Err(_) => Err(Refusal::bad(format!("`{name}` is no span of time"), "write one like 500ms, 10s, 5m, 2h or 7d")),
    }
}

fn plural(messages: u64) -> String {
    let noun = if messages == 1 { "message" } else { "messages" };
    format!("{} {noun}", output::thousands(messages))
}

//! The actions of the page. They share their code with the command line, and each has a dry run.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Extension, State};
use postroom::operator::{Filter, Operator, Revival};
use postroom::queue::{Queue, State as Stands, WorkQueue};
use serde::{Deserialize, Serialize};

use super::failed::Meant;
use super::groups::{LOOKED_AT_MAX, Looked};
use super::queue_of;
use crate::admin::problem::Refusal;
use crate::admin::sight::Sight;
use crate::admin::{Desk, Rights};
use crate::operator::{Count, Dismissed, Ending, Reviving};
use crate::{duration, output};

/// The longest delay.
const DELAY_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Which messages to requeue, and how.
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
    /// All failed messages. It must be given explicitly, so that a missing field never means everything.
    #[serde(default)]
    all: bool,
    /// One message that was dismissed by mistake.
    #[serde(default)]
    dismissed: bool,
    /// The delay of the first message.
    after: Option<String>,
    per_second: Option<u32>,
    ttl: Option<String>,
    /// For the audit trail.
    why: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

/// Marks messages past their time to live as expired.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Expire {
    queue: Option<String>,
    why: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

/// Deletes old done messages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Purge {
    queue: Option<String>,
    older_than: String,
    why: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

/// The result, or the result of a dry run.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Done {
    messages: u64,
    still_expired: u64,
    dry_run: bool,
    /// The limit was reached, so there may be more.
    is_bounded: bool,
    /// In words.
    told: String,
}

pub(super) async fn revive(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    asked: Result<Json<Revive>, JsonRejection>,
) -> Result<Json<Done>, Refusal> {
    let Json(mut asked) = asked?;
    // An empty field counts as missing; it must not mean everything.
    asked.group = asked.group.filter(|group| !group.trim().is_empty());
    asked.q = asked.q.filter(|part| !part.trim().is_empty());
    let queue = queue_of(&desk, asked.queue.as_deref())?;
    if !asked.all && asked.row.is_none() && asked.group.is_none() && asked.q.is_none() {
        return Err(Refusal::bad("no messages are selected", "send `row`, `group`, `q`, or `all`: true"));
    }
    if asked.dismissed && asked.row.is_none() {
        return Err(Refusal::bad("dismissed messages are requeued one by one", "send `row`"));
    }
    let (revival, dry_run, clock) = (asked.revival()?, asked.dry_run, desk.0.page.clock().clone());
    let chosen = chosen(asked.row, asked.group.as_deref(), asked.q.as_deref());
    let doing = {
        let queue = by(queue, &rights, asked.why.as_deref(), &chosen)?;
        async move {
            let reviving = Reviving { queue: &queue, clock: &clock, revival, dry_run, most: u64::MAX };
            if let Some(row) = asked.row {
                let one = Filter::one(row);
                let one = if asked.dismissed { one.state(Stands::Dismissed) } else { one };
                return Ok(Done::revived(reviving.those(&one, |_| true).await?, &reviving, false));
            }
            let sight = Sight::of(&rights);
            let looked = Looked::at(&queue, sight).await?;
            let meant = Meant::new(&looked, asked.group.as_deref(), asked.q.as_deref(), sight)?;
            let count = reviving.those(&meant.filter(), |failed| meant.is(failed)).await?;
            Ok(Done::revived(count, &reviving, looked.is_bounded))
        }
    };
    desk.0.page.act(queue.kind(), dry_run, doing).await.map(Json)
}

impl Revive {
    fn revival(&self) -> Result<Revival, Refusal> {
        let mut revival = Revival::at_once();
        if let Some(delay) = span("after", self.after.as_deref())? {
            revival = revival.after(delay);
        }
        if let Some(rate) = self.per_second {
            if rate == 0 {
                return Err(Refusal::bad("`perSecond` must not be 0", "send 1 or more, or leave it out"));
            }
            revival = revival.per_second(rate);
        }
        match span("ttl", self.ttl.as_deref())? {
            Some(Duration::ZERO) => Err(Refusal::bad("`ttl` must not be 0", "write a duration like 1h")),
            Some(ttl) => Ok(revival.ttl(ttl)),
            None => Ok(revival),
        }
    }
}

impl Done {
    fn revived(count: Count, reviving: &Reviving<'_>, is_bounded: bool) -> Self {
        let Count { revived, still_expired, changed } = count;
        let verb = match (reviving.dry_run, revived) {
            (true, _) => "would be",
            (false, 1) => "was",
            (false, _) => "were",
        };
        let mut told = format!("{} {verb} requeued", plural(revived));
        let last = reviving.revival.delay_of(revived.saturating_sub(1));
        match (revived, last.is_zero()) {
            (0, _) | (_, true) => {}
            (1, false) => told += &format!(" and is due in {}", duration::short(last)),
            (_, false) => told += &format!("; the last one is due in {}", duration::short(last)),
        }
        if still_expired > 0 {
            let stay = if reviving.dry_run { "would stay" } else { "stayed" };
            told += &format!("; {} {stay} expired; set a new time to live", plural(still_expired));
        }
        if changed > 0 {
            told += &format!("; skipped {} that changed in the meantime", plural(changed));
        }
        told += bounded(is_bounded).as_str();
        Self { messages: revived, still_expired, dry_run: reviving.dry_run, is_bounded, told: told + "." }
    }

    /// The result for one message.
    pub(super) fn one(messages: u64, dry_run: bool, told: &str) -> Self {
        Self { messages, still_expired: 0, dry_run, is_bounded: false, told: told.into() }
    }

    pub(super) fn dismissed(count: Dismissed, dry_run: bool, is_bounded: bool) -> Self {
        let Dismissed { dismissed, changed } = count;
        let verb = match (dry_run, dismissed) {
            (true, _) => "would be",
            (false, 1) => "was",
            (false, _) => "were",
        };
        let mut told = format!("{} {verb} dismissed", plural(dismissed));
        if changed > 0 {
            told += &format!("; skipped {} that changed in the meantime", plural(changed));
        }
        told += bounded(is_bounded).as_str();
        Self { messages: dismissed, still_expired: 0, dry_run, is_bounded, told: told + "." }
    }

    /// Expires or deletes all messages found. A dry run counts only up to a limit.
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
    Extension(rights): Extension<Rights>,
    asked: Result<Json<Expire>, JsonRejection>,
) -> Result<Json<Done>, Refusal> {
    let Json(Expire { queue, why, dry_run }) = asked?;
    let queue = queue_of(&desk, queue.as_deref())?;
    let queue = by(queue, &rights, why.as_deref(), "past their time")?;
    ended(&desk, Ending::Expire, queue, dry_run).await
}

pub(super) async fn purge(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    asked: Result<Json<Purge>, JsonRejection>,
) -> Result<Json<Done>, Refusal> {
    let Json(Purge { queue, older_than, why, dry_run }) = asked?;
    let queue = queue_of(&desk, queue.as_deref())?;
    let older_than = span("olderThan", Some(&older_than))?.unwrap_or(DELAY_MAX);
    let taken_for = desk.0.taken_for;
    if queue.kind() == Queue::Inbox && older_than < taken_for {
        let advice = format!("write {} or more", duration::at_least(taken_for));
        return Err(Refusal::bad("the inbox would no longer recognise duplicates of these messages", advice));
    }
    let chosen = format!("done for longer than {}", duration::short(older_than));
    let queue = by(queue, &rights, why.as_deref(), &chosen)?;
    ended(&desk, Ending::Purge(older_than), queue, dry_run).await
}

async fn ended(desk: &Desk, ending: Ending, queue: WorkQueue, dry_run: bool) -> Result<Json<Done>, Refusal> {
    let kind = queue.kind();
    let doing = async move { Done::ended(ending, &queue, dry_run).await };
    desk.0.page.act(kind, dry_run, doing).await.map(Json)
}

/// The queue, on behalf of the owner of the token.
pub(super) fn by(queue: &WorkQueue, rights: &Rights, why: Option<&str>, chosen: &str) -> Result<WorkQueue, Refusal> {
    let operator = Operator::new(rights.name())?.chose(chosen)?;
    Ok(queue.by(match why.filter(|why| !why.trim().is_empty()) {
        Some(why) => operator.because(why)?,
        None => operator,
    }))
}

/// The selection in words.
pub(super) fn chosen(row: Option<i64>, group: Option<&str>, part: Option<&str>) -> String {
    match (row, group, part) {
        (Some(row), ..) => format!("row {row}"),
        (_, Some(_), Some(part)) => format!("a group, with {part:?}"),
        (_, Some(_), None) => "a group".into(),
        (_, None, Some(part)) => format!("with {part:?}"),
        (_, None, None) => "all".into(),
    }
}

/// A duration as people write it; an empty field counts as missing.
fn span(name: &str, text: Option<&str>) -> Result<Option<Duration>, Refusal> {
    let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
    match duration::parse(text) {
        Ok(span) if span > DELAY_MAX => Err(Refusal::bad(format!("`{name}` is too long"), "write at most 365d")),
        Ok(span) => Ok(Some(span)),
        Err(_) => Err(Refusal::bad(format!("`{name}` is not a duration"), "write one like 500ms, 10s, 5m, 2h or 7d")),
    }
}

/// A note that there may be more messages.
fn bounded(is_bounded: bool) -> String {
    let most = output::thousands(LOOKED_AT_MAX as u64);
    if is_bounded { format!("; this covers only the newest {most}, and there may be more") } else { String::new() }
}

fn plural(messages: u64) -> String {
    let noun = if messages == 1 { "message" } else { "messages" };
    format!("{} {noun}", output::thousands(messages))
}

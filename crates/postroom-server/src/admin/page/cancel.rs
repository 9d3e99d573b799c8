//! Cancels messages that wait or are in progress: one, or all of a lane.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Extension, State};
use postroom::operator::{Filter, Lane, Record};
use postroom::queue::{Cancelled, State as Stands, WorkQueue};
use serde::Deserialize;

use super::act::{Done, by, chosen};
use super::lanes::LANES_SHOWN;
use super::queue_of;
use crate::admin::problem::Refusal;
use crate::admin::{Desk, Rights};
use crate::output;

/// What to cancel: one message, or all of a lane.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Cancel {
    queue: Option<String>,
    row: Option<i64>,
    lane: Option<String>,
    /// For the audit trail.
    why: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

pub(super) async fn cancel(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    asked: Result<Json<Cancel>, JsonRejection>,
) -> Result<Json<Done>, Refusal> {
    let Json(Cancel { queue, row, lane, why, dry_run }) = asked?;
    let what = match (row, lane) {
        (Some(row), None) => What::Message(row),
        (None, Some(lane)) => What::Lane(lane),
        _ => return Err(Refusal::bad("nothing is selected, or two things are", "send either `row` or `lane`")),
    };
    let chosen = match &what {
        What::Message(row) => chosen(Some(*row), None, None),
        What::Lane(lane) => format!("lane {lane}"),
    };
    let queue = by(queue_of(&desk, queue.as_deref())?, &rights, why.as_deref(), &chosen)?;
    let kind = queue.kind();
    let doing = async move {
        match what {
            What::Message(row) => message(&queue, row, dry_run).await,
            What::Lane(lane) if dry_run => expected_of_lane(&queue, &lane).await,
            What::Lane(lane) => {
                let cancelled = queue.cancel_lane(&lane).await?;
                let told = of_lane(cancelled.waiting, cancelled.asked);
                Ok(Done::one(cancelled.waiting + cancelled.asked, false, &told))
            }
        }
    };
    desk.0.page.act(kind, dry_run, doing).await.map(Json)
}

enum What {
    Message(i64),
    Lane(String),
}

async fn message(queue: &WorkQueue, row: i64, dry_run: bool) -> Result<Done, Refusal> {
    let became = match dry_run {
        true => expected(queue.list(Filter::one(row)).await?.first()),
        false => queue.cancel(row).await?,
    };
    Ok(Done::one(u64::from(is_changed(became)), dry_run, told(became, dry_run)))
}

/// The lane is one of those that the page shows, unless it has changed since.
async fn expected_of_lane(queue: &WorkQueue, name: &str) -> Result<Done, Refusal> {
    let lanes = queue.lanes(LANES_SHOWN).await?;
    let Some(lane) = lanes.blocked.iter().chain(&lanes.deepest).find(|lane| lane.name == name) else {
        return Ok(Done::one(1, true, "Every message of the lane that waits or is in progress would be cancelled."));
    };
    let dead = u64::from(lane.is_blocked());
    let messages = lane.messages.saturating_sub(dead);
    let dead = if dead > 0 { " The dead one stays: dismiss it." } else { "" };
    let more = if lane.messages >= Lane::COUNTED as u64 { " or more" } else { "" };
    let told = format!("{}{more} of the lane would be cancelled.{dead}", output::count(messages, "message"));
    Ok(Done::one(messages, true, &told))
}

fn of_lane(waiting: u64, asked: u64) -> String {
    let waiting = format!("{} of the lane cancelled", output::count(waiting, "message"));
    match asked {
        0 => format!("{waiting}."),
        asked => format!("{waiting}; {} in progress asked to stop.", asked),
    }
}

fn expected(record: Option<&Record>) -> Cancelled {
    match record.map(Record::state) {
        Some(Stands::Ready) => Cancelled::Waiting,
        Some(Stands::Leased) => Cancelled::Asked,
        Some(_) => Cancelled::TooLate,
        None => Cancelled::Unknown,
    }
}

fn is_changed(became: Cancelled) -> bool {
    matches!(became, Cancelled::Waiting | Cancelled::Asked)
}

fn told(became: Cancelled, dry_run: bool) -> &'static str {
    match (became, dry_run) {
        (Cancelled::Waiting, true) => "The message would be cancelled.",
        (Cancelled::Waiting, false) => "The message was cancelled.",
        (Cancelled::Asked, true) => "The message is in progress and would be asked to stop.",
        (Cancelled::Asked, false) => "The message is in progress and was asked to stop.",
        (Cancelled::TooLate, _) => "It is too late: the message has ended.",
        _ => "There is no such message.",
    }
}

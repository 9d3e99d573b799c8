//! Cancels one message that waits or is in progress.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Extension, State};
use postroom::operator::{Filter, Record};
use postroom::queue::{Cancelled, State as Stands};
use serde::Deserialize;

use super::act::{Done, by, chosen};
use super::queue_of;
use crate::admin::problem::Refusal;
use crate::admin::{Desk, Rights};

/// Which message to cancel.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Cancel {
    queue: Option<String>,
    row: i64,
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
    let Json(Cancel { queue, row, why, dry_run }) = asked?;
    let queue = by(queue_of(&desk, queue.as_deref())?, &rights, why.as_deref(), &chosen(Some(row), None, None))?;
    let kind = queue.kind();
    let doing = async move {
        let became = match dry_run {
            true => expected(queue.list(Filter::one(row)).await?.first()),
            false => queue.cancel(row).await?,
        };
        Ok(Done::one(u64::from(is_changed(became)), dry_run, told(became, dry_run)))
    };
    desk.0.page.act(kind, dry_run, doing).await.map(Json)
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

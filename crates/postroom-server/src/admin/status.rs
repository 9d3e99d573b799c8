//! The status of a message, for the service that enqueued it and waits for the answer.

use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State as From};
use axum::http::StatusCode;
use axum::{Extension, Json};
use postroom::Message;
use postroom::operator::Record;
use postroom::queue::State;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use super::problem::Refusal;
use super::sight::Sight;
use super::{Desk, Rights, Scope};
use crate::{duration, output};

/// The most destinations to report for one message.
const TOLD_MAX: usize = 100;

/// Shorter than the timeout of common proxies.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// The pauses between two looks at a message that somebody waits for.
const LOOK_FIRST: Duration = Duration::from_millis(5);
const LOOK_LAST: Duration = Duration::from_millis(200);

/// The message with this id, once for each of its destinations.
pub(super) async fn status(
    From(desk): From<Desk>,
    Extension(rights): Extension<Rights>,
    Path(id): Path<String>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let wait = asked?.0.wait()?;
    let Ok(id) = Uuid::try_parse(&id) else {
        return Err(Refusal::bad(
            "a message id must be a UUID",
            "use the `messageId` from the answer to the enqueue request",
        ));
    };
    let found = settled_or_not(&desk, id, wait).await?;
    if found.is_empty() {
        let advice = "check the id; done messages are deleted after their retention time";
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no message has this id", advice));
    }
    let told: Vec<_> = found.iter().take(TOLD_MAX).map(|record| told(record, &rights)).collect();
    Ok(Json(json!({ "messages": told })))
}

/// What a request asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    wait: Option<String>,
}

impl Asked {
    fn wait(&self) -> Result<Duration, Refusal> {
        let Some(wait) = &self.wait else { return Ok(Duration::ZERO) };
        let parsed = wait.parse().map(Duration::from_secs).or_else(|_| duration::parse(wait));
        let advice = format!("use a number of seconds, or a duration like 30s; at most {WAIT_MAX:?}");
        match parsed {
            Ok(wait) if wait <= WAIT_MAX => Ok(wait),
            Ok(_) => Err(Refusal::bad(format!("the wait of {wait:?} is too long"), advice)),
            Err(error) => Err(Refusal::bad(format!("the wait is invalid: {error}"), advice)),
        }
    }
}

/// Waits until nothing of the message waits or is in progress any more, or the time is over.
async fn settled_or_not(desk: &Desk, id: Uuid, wait: Duration) -> Result<Vec<Record>, Refusal> {
    let settled = async {
        let mut pause = LOOK_FIRST;
        loop {
            let found = desk.0.outbox.find(id).await?;
            let lives = found.iter().any(|record| matches!(record.state(), State::Ready | State::Leased));
            if !lives || timeout(pause, desk.0.stopped.clone().wait()).await.is_ok() {
                return Ok::<_, Refusal>(found);
            }
            pause = (pause * 2).min(LOOK_LAST);
        }
    };
    // So many may wait at once; a further one gets its answer now.
    let permit = desk.0.waiting.try_acquire().ok().filter(|_| !wait.is_zero());
    if permit.is_some()
        && let Ok(settled) = timeout(wait, settled).await
    {
        return settled;
    }
    Ok(desk.0.outbox.find(id).await?)
}

fn told(record: &Record, rights: &Rights) -> Value {
    let message = record.message().ok();
    let sight = Sight::of(rights);
    json!({
        "topic": message.map(|message| &message.topic),
        "kind": message.map(|message| message.kind.as_str()),
        "destination": message.and_then(Message::destination),
        "correlationId": message.and_then(|message| message.correlation_id.as_deref()),
        "lane": message.and_then(|message| message.lane.as_deref()),
        "state": output::state(record.state()),
        "attempts": record.attempts(),
        "createdAt": message.map(|message| message.created_at.to_string()),
        "notBefore": record.visible_at().map(|at| at.to_string()),
        "expiresAt": record.expires_at().map(|at| at.to_string()),
        "finishedAt": record.processed_at().map(|at| at.to_string()),
        "lastError": record.last_error().map(|error| sight.of_error(error)),
        "hasAnswer": record.response().is_some(),
        "answer": record.response().filter(|_| rights.may(Scope::Payload)).map(answer),
    })
}

/// Most answers are JSON; others become a string.
fn answer(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

//! The status of a message, for the service that enqueued it and waits for the answer.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use postroom::Message;
use postroom::operator::Record;
use serde_json::{Value, json};
use uuid::Uuid;

use super::problem::Refusal;
use super::sight::Sight;
use super::{Desk, Rights, Scope};
use crate::output;

/// The most destinations to report for one message.
const TOLD_MAX: usize = 100;

/// The message with this id, once for each of its destinations.
pub(super) async fn status(
    State(desk): State<Desk>,
    Extension(rights): Extension<Rights>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Refusal> {
    let Ok(id) = Uuid::try_parse(&id) else {
        return Err(Refusal::bad(
            "a message id must be a UUID",
            "use the `messageId` from the answer to the enqueue request",
        ));
    };
    let found = desk.0.outbox.find(id).await?;
    if found.is_empty() {
        let advice = "check the id; done messages are deleted after their retention time";
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no message has this id", advice));
    }
    let told: Vec<_> = found.iter().take(TOLD_MAX).map(|record| told(record, &rights)).collect();
    Ok(Json(json!({ "messages": told })))
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

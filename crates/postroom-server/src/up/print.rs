//! Prints each message as a line of JSON on stdout.

use std::time::Duration;

use postroom::{HandlerError, HandlerResult, Message};
use serde::Serialize;

use super::queue_of;
use super::signals::Stop;
use crate::output;

/// How long a message that could not be printed keeps its slot, so that the worker has time to return the others.
const STOP_TIME: Duration = Duration::from_millis(100);

/// The settings of the handler.
pub(crate) struct Printer {
    show_payload: bool,
    stop: Stop,
}

impl Printer {
    pub(crate) fn new(show_payload: bool, stop: Stop) -> Self {
        Self { show_payload, stop }
    }

    /// Prints one message. If stdout is closed, the worker stops instead of retrying forever.
    pub(super) async fn handle(&self, message: &Message) -> HandlerResult<Option<String>> {
        let line = Line {
            queue: queue_of(message).as_str(),
            id: message.id(),
            topic: &message.topic,
            attempt: message.attempts + 1,
            payload_bytes: message.payload.len(),
            payload: self.show_payload.then_some(&message.payload),
        };
        if let Err(error) = output::json(&line) {
            self.stop.ask_without_stdout();
            let _ = tokio::time::timeout(STOP_TIME, std::future::pending::<()>()).await;
            return Err(HandlerError::retry(format_args!("cannot print: {error}")));
        }
        Ok(None)
    }
}

#[derive(Serialize)]
struct Line<'a> {
    queue: &'static str,
    id: String,
    topic: &'a str,
    attempt: u32,
    payload_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
}

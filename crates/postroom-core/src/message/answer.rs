//! The answer of a handler that runs after the sender was already answered: it goes back through the outbox.

use crate::message::{Kind, Message, NewMessage};

/// The header that marks a message whose answer goes back to its source through the outbox. Nobody outside can set it.
pub const ANSWER_TO: &str = "rf-answer-to";
/// The header with the id of the message that a Response answers.
pub const IN_REPLY_TO: &str = "rf-in-reply-to";

/// Builds the answer to a queued message, for the service that waits for it. A signal without an answer needs none.
pub fn answer_to(message: &Message, response: Option<&str>) -> Option<NewMessage> {
    let source = message.headers.get(ANSWER_TO)?;
    if message.kind == Kind::Signal && response.is_none() {
        return None;
    }
    let correlation_id = message.correlation_id.clone().unwrap_or_else(|| message.id());
    let answer = NewMessage::new(&message.topic, response.unwrap_or("null")).kind(Kind::Response);
    Some(answer.to(source).correlation_id(correlation_id).header(IN_REPLY_TO, message.id()))
}

//! Replaces `trace.rs` without its feature. It does nothing, at no cost.

use std::borrow::Cow;

use tracing::Span;

use crate::message::{Message, NewMessage};

pub(crate) fn traced(message: &NewMessage) -> Cow<'_, NewMessage> {
    Cow::Borrowed(message)
}

pub(crate) fn into_traced(message: NewMessage) -> NewMessage {
    message
}

pub(crate) fn all_traced(messages: Vec<NewMessage>) -> Vec<NewMessage> {
    messages
}

pub(crate) fn begun(_: &Span, _: &Message) {}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller;

impl Caller {
    pub(crate) fn here() -> Self {
        Self
    }

    pub(crate) fn within<T>(self, code: impl FnOnce() -> T) -> T {
        code()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_stays_as_it_is_and_nothing_is_carried() {
        let message = NewMessage::new("topic", "{}");
        assert!(matches!(traced(&message), Cow::Borrowed(same) if same.headers.is_empty()));
        assert_eq!(into_traced(message.clone()), message);
        assert_eq!(size_of::<Caller>(), 0);
    }
}

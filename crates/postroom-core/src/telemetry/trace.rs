//! Traces across messages: the context of the span that sends a message is stored with the message, and the span that
//! handles the message is linked to it.

mod context;

use std::borrow::Cow;

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, TraceContextExt};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::message::{Message, NewMessage};
use context::{TRACEPARENT, TRACESTATE, from_headers, to_headers};

/// Returns the message as it is stored: with the current span's context, unless it has one. The caller has checked it.
pub(crate) fn traced(message: &NewMessage) -> Cow<'_, NewMessage> {
    if message.headers.contains_key(TRACEPARENT) {
        return Cow::Borrowed(message);
    }
    let context = current();
    let context = context.span().span_context().clone();
    if context.is_valid() { with_context(message, &context) } else { Cow::Borrowed(message) }
}

/// Does the same for an owned message.
pub(crate) fn into_traced(message: NewMessage) -> NewMessage {
    match traced(&message) {
        Cow::Owned(traced) => traced,
        Cow::Borrowed(_) => message,
    }
}

/// Does the same for many messages.
pub(crate) fn all_traced(messages: Vec<NewMessage>) -> Vec<NewMessage> {
    messages.into_iter().map(into_traced).collect()
}

/// A message that already has the maximum number of headers gets no context.
fn with_context<'a>(message: &'a NewMessage, context: &SpanContext) -> Cow<'a, NewMessage> {
    let (parent, state) = to_headers(context);
    let mut traced = message.clone();
    traced.headers.remove(TRACESTATE);
    traced.headers.insert(TRACEPARENT.into(), parent);
    traced.headers.extend(state.map(|state| (TRACESTATE.into(), state)));
    if traced.check().is_ok() { Cow::Owned(traced) } else { Cow::Borrowed(message) }
}

/// Returns the context of the current span, whichever of the two interfaces created it.
fn current() -> Context {
    let of_span = Span::current().context();
    if of_span.span().span_context().is_valid() { of_span } else { Context::current() }
}

/// Links a span to the one that sent the message, and sets the attributes that OpenTelemetry specifies.
pub(crate) fn begun(span: &Span, message: &Message) {
    if span.is_disabled() {
        return;
    }
    // This comes first, because the kind of a span cannot be changed once it has started.
    let (kind, operation, destination) = match message.destination() {
        Some(destination) => ("producer", "send", destination),
        None => ("consumer", "process", message.topic.as_str()),
    };
    span.record("otel.kind", kind);
    if let Some(sender) = from_headers(&message.headers) {
        span.add_link(sender);
    }
    span.set_attribute("messaging.system", "postroom");
    span.set_attribute("messaging.operation.name", "handle");
    span.set_attribute("messaging.operation.type", operation);
    span.set_attribute("messaging.destination.name", destination.to_owned());
    span.set_attribute("messaging.message.id", message.id());
    if let Some(id) = &message.correlation_id {
        span.set_attribute("messaging.message.conversation_id", id.clone());
    }
}

/// The span of work that continues on another thread.
#[derive(Clone, Debug)]
pub(crate) struct Caller(Context);

impl Caller {
    pub(crate) fn here() -> Self {
        Self(current())
    }

    /// Runs code as if it were called where this was taken.
    pub(crate) fn within<T>(&self, code: impl FnOnce() -> T) -> T {
        let _attached = self.0.clone().attach();
        code()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Headers;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    /// Runs code inside a span with this context.
    fn in_a_span<T>(code: impl FnOnce() -> T) -> T {
        let headers = [(TRACEPARENT.to_owned(), PARENT.to_owned()), (TRACESTATE.to_owned(), "vendor=1".to_owned())];
        let context = from_headers(&Headers::from(headers)).unwrap();
        Caller(Context::new().with_remote_span_context(context)).within(code)
    }

    fn header<'a>(message: &'a NewMessage, name: &str) -> Option<&'a str> {
        message.headers.get(name).map(String::as_str)
    }

    #[test]
    fn outside_of_a_span_a_message_stays_as_it_is() {
        assert!(matches!(traced(&NewMessage::new("topic", "{}")), Cow::Borrowed(_)));
    }

    #[test]
    fn a_message_carries_the_context_it_was_sent_in() {
        let message = in_a_span(|| into_traced(NewMessage::new("topic", "{}").header("own", "1")));
        assert_eq!(header(&message, TRACEPARENT), Some(PARENT));
        assert_eq!(header(&message, TRACESTATE), Some("vendor=1"));
        assert_eq!(header(&message, "own"), Some("1"));
    }

    #[test]
    fn a_context_of_the_users_own_is_kept() {
        let message = NewMessage::new("topic", "{}").header(TRACEPARENT, "mine");
        assert_eq!(in_a_span(|| into_traced(message.clone())), message);
    }

    #[test]
    fn a_message_without_room_for_it_goes_without() {
        let full = (0..63).fold(NewMessage::new("topic", "{}"), |message, n| message.header(format!("h{n}"), "v"));
        assert!(full.check().is_ok());
        assert_eq!(in_a_span(|| into_traced(full.clone())), full);
    }

    #[test]
    fn the_callers_context_comes_along_to_another_thread() {
        let caller = in_a_span(Caller::here);
        let elsewhere = std::thread::spawn(move || caller.within(|| into_traced(NewMessage::new("topic", "{}"))));
        assert_eq!(header(&elsewhere.join().unwrap(), TRACEPARENT), Some(PARENT));
    }
}

//! The context of a span as message headers in the W3C format, and back. Headers from outside may contain anything.

use std::str::FromStr;

use opentelemetry::trace::{SpanContext, TraceState};
use opentelemetry::{SpanId, TraceFlags, TraceId};

use crate::message::Headers;

pub(super) const TRACEPARENT: &str = "traceparent";
pub(super) const TRACESTATE: &str = "tracestate";
/// Longer values need not be passed on.
const TRACESTATE_BYTES_MAX: usize = 512;
const VERSION: &str = "00";
const VERSION_NEVER: &str = "ff";

/// Returns the value of `traceparent`, and of `tracestate` if there is one to pass on.
pub(super) fn to_headers(context: &SpanContext) -> (String, Option<String>) {
    let (trace, span, flags) = (context.trace_id(), context.span_id(), context.trace_flags() & TraceFlags::SAMPLED);
    let state = Some(context.trace_state().header()).filter(|state| !state.is_empty());
    let state = state.filter(|state| state.len() <= TRACESTATE_BYTES_MAX);
    (format!("{VERSION}-{trace:032x}-{span:016x}-{flags:02x}"), state)
}

/// Returns the context in a message's headers, or `None` if there is no valid one.
pub(super) fn from_headers(headers: &Headers) -> Option<SpanContext> {
    let mut parts = headers.get(TRACEPARENT)?.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    // A later version may have more fields.
    if version == VERSION_NEVER || version == VERSION && parts.next().is_some() {
        return None;
    }
    hex(version, 2)?;
    let trace = TraceId::from(hex(trace, 32)?);
    let span = SpanId::from(u64::try_from(hex(span, 16)?).ok()?);
    let flags = TraceFlags::new(u8::try_from(hex(flags, 2)?).ok()?) & TraceFlags::SAMPLED;
    let state = headers.get(TRACESTATE).filter(|state| state.len() <= TRACESTATE_BYTES_MAX);
    let state = state.and_then(|state| TraceState::from_str(state).ok()).unwrap_or_default();
    Some(SpanContext::new(trace, span, flags, true, state)).filter(SpanContext::is_valid)
}

/// Parses a number of exactly this many lower-case hexadecimal digits.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_hex = text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| u128::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn parse(traceparent: &str, tracestate: &str) -> Option<SpanContext> {
        let headers = [(TRACEPARENT, traceparent), (TRACESTATE, tracestate)];
        from_headers(&headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
    }

    #[test]
    fn what_is_written_is_read_again() {
        let context = parse(GOOD, "vendor=1,other=2").unwrap();
        assert!(context.is_sampled() && context.is_remote());
        assert_eq!(to_headers(&context), (GOOD.to_owned(), Some("vendor=1,other=2".to_owned())));
        assert_eq!(to_headers(&parse(GOOD, "").unwrap()), (GOOD.to_owned(), None));
    }

    #[test]
    fn anything_else_is_ignored() {
        let bad = [
            "",
            "-",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ü",
        ];
        for traceparent in bad {
            assert_eq!(parse(traceparent, ""), None, "{traceparent}");
        }
        assert_eq!(from_headers(&Headers::new()), None);
    }

    #[test]
    fn a_later_version_may_say_more() {
        let later = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-09-more";
        assert_eq!(to_headers(&parse(later, "").unwrap()).0, GOOD);
    }

    #[test]
    fn a_state_that_is_too_long_or_senseless_is_left_out() {
        for state in [&format!("vendor={}", "x".repeat(600)), "no pairs"] {
            assert_eq!(to_headers(&parse(GOOD, state).unwrap()).1, None, "{state}");
        }
    }
}

//! CloudEvents.

use http::HeaderMap;

use postroom_core::support::error::Result;
use postroom_services::foreign::{CloudEvent, CloudEventsMode};

/// What is read, in whichever mode, is written and read again as it was in both.
pub(super) fn come_back(headers: &HeaderMap, body: &[u8]) {
    let Ok(event) = CloudEvent::read(headers, body) else { return };
    comes_back(&event, CloudEventsMode::Structured).expect("every event can be written in structured mode");
    let content_type = event.headers.get("content-type").map(|given| given.trim().to_ascii_lowercase());
    let binary = comes_back(&event, CloudEventsMode::Binary);
    if content_type.is_none_or(|given| given.is_ascii() && !given.starts_with("application/cloudevents")) {
        binary.expect("in binary mode too, if its type can be a header there");
    }
}

fn comes_back(event: &CloudEvent, mode: CloudEventsMode) -> Result<()> {
    let (headers, body) = event.write(mode)?;
    let read = CloudEvent::read(&headers, &body).expect("what was written can be read");
    assert!(read == *event, "{mode:?}: {event:?} became {read:?}");
    Ok(())
}

//! What the fuzzers look for: each function takes any bytes, and panics when they break a promise of the wire.
//!
//! `fuzz/` calls them with bytes that libFuzzer makes up; the test below, with all that were ever worth keeping.

mod address;
mod cloud_events;
mod envelope;
mod headers;
mod input;
mod signature;
#[cfg(test)]
mod tests;
mod webhooks;

pub use envelope::envelope;
pub use headers::headers;
pub use signature::signature;

use postroom_core::support::clock::Timestamp;

/// A name, and what it checks.
pub type Target = (&'static str, fn(&[u8]));

/// Each by the name that it has in `fuzz/fuzz_targets` and `fuzz/corpus` too.
pub const TARGETS: [Target; 4] =
    [("envelope", envelope), ("headers", headers), ("neighbours", neighbours), ("signature", signature)];

/// Peers that do not speak our own wire, and what is written in configurations.
pub fn neighbours(bytes: &[u8]) {
    let (headers, body) = input::request(bytes);
    cloud_events::come_back(&headers, body);
    webhooks::take_nothing_unsigned(&headers, body);
    webhooks::take_what_is_signed(&headers, body);
    for line in String::from_utf8_lossy(bytes).lines() {
        a_time_comes_back(line);
        address::comes_back(line);
    }
}

fn a_time_comes_back(text: &str) {
    let Ok(time) = text.parse::<Timestamp>() else { return };
    let written = time.to_string();
    assert_eq!(written.parse::<Timestamp>().ok(), Some(time), "{text} becomes {written}");
    assert_eq!(written.len(), "2026-02-14T12:00:00.000000Z".len(), "{text} becomes {written}");
}

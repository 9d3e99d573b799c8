//! Clocks that jump, and messages with wrong times.

use metrics::counter;
use tracing::{info, warn};

use super::{Named, metric};
use crate::support::clock::{Clock, JumpState};
use crate::telemetry::label::store_label;

/// Logs a jump when it is seen, and again when it is accepted or taken back.
pub(crate) fn clock_jumped(store: &str, clock: &Clock) {
    let Some(jump) = clock.take_news() else { return };
    if jump.state == JumpState::Doubted {
        counter!(metric::CLOCK_JUMPS, "store" => store_label(store)).increment(1);
    }
    let (seconds, way) = (jump.by.as_secs(), if jump.is_ahead { "ahead" } else { "back" });
    match jump.state {
        JumpState::Doubted => {
            warn!(store, seconds, way, "the clock jumped; nothing is reaped, expired or deleted because of it yet");
        }
        JumpState::Accepted => warn!(store, seconds, way, "the jump of the clock is confirmed; the new time is used"),
        JumpState::TakenBack => info!(store, seconds, way, "the clock came back; its jump was ignored"),
    }
}

pub(crate) fn times_corrected(queue: Named<'_>, corrected: u64) {
    if corrected > 0 {
        let (store, queue, count) = (queue.store, queue.kind, corrected);
        warn!(store, %queue, count, "messages waited because a clock was wrong; their times were corrected");
    }
}

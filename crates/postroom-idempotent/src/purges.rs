//! Decides when old marks are deleted.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(super) struct Purges(Mutex<Option<Instant>>);

impl Purges {
    /// Returns whether a purge is due. The next one is due after the interval.
    pub(super) fn is_due(&self, now: Instant, interval: Duration) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= interval);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_at_first_and_then_once_in_each_interval() {
        let (purges, minute, start) =
            (Purges::default(), Duration::from_secs(60), postroom_core::support::clock::monotonic());
        let due = [0, 1, 59, 60, 61, 119, 120, 500, 559, 560]
            .map(|seconds| purges.is_due(start + Duration::from_secs(seconds), minute));
        assert_eq!(due, [true, false, false, true, false, false, true, true, false, true]);
    }
}

//! When old marks are deleted.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(3600);

#[derive(Debug, Default)]
pub(super) struct Purges(Mutex<Option<Instant>>);

impl Purges {
    /// Whether it is time; then it is not for another hour.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= INTERVAL);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

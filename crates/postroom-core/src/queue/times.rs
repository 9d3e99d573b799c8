//! Times in a row that only a clock ahead of ours can have written.

use std::time::Duration;

use crate::queue::{LEASE_MAX, State, Work};
use crate::support::clock::Timestamp;

/// A row whose time is this far in the future was written by a wrong clock.
pub(crate) const AHEAD: Duration = Duration::from_secs(60);
/// No retry is ever requested for later than this.
const RETRY_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

impl Work {
    /// Corrects a row that waits only because a clock was ahead when it was written, and returns whether it did. A due
    /// time that the sender set stays, and so does the expiry time, which does not make it wait.
    pub(crate) fn correct_times(&mut self, now: Timestamp) -> bool {
        match self.state {
            _ if self.visible_at() <= Some(now.plus(AHEAD)) => false,
            State::Ready => self.correct_ready(now),
            State::Leased => self.correct_lease(now),
            _ => false,
        }
    }

    fn correct_ready(&mut self, now: Timestamp) -> bool {
        let was_created_ahead = self.created_at > now.plus(AHEAD);
        let was_tried_ahead = self.last_attempt_at.is_some_and(|tried| tried > now.plus(AHEAD));
        let longest = if was_tried_ahead { AHEAD } else { RETRY_MAX };
        let is_retried_late = self.next_attempt_at.is_some_and(|next| next > now.plus(longest));
        if was_created_ahead {
            self.created_at = now;
        }
        if is_retried_late {
            self.next_attempt_at = Some(now);
        }
        was_created_ahead || is_retried_late
    }

    /// Its holder may be alive, so it keeps the lease for its full length.
    fn correct_lease(&mut self, now: Timestamp) -> bool {
        let (Some(until), Some(claimed)) = (self.locked_until, self.last_attempt_at) else { return false };
        if claimed > now.plus(AHEAD) {
            self.locked_until = Some(now.plus(until.since(claimed).min(LEASE_MAX)).min(until));
            self.last_attempt_at = Some(now);
            return true;
        }
        let is_too_long = until > now.plus(LEASE_MAX + AHEAD);
        if is_too_long {
            self.locked_until = Some(now.plus(LEASE_MAX));
        }
        is_too_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_771_070_400_000_000);
    const HOUR: Duration = Duration::from_secs(3600);
    const YEARS: Duration = Duration::from_secs(12 * 366 * 24 * 3600);

    fn ready(created_at: Timestamp) -> Work {
        Work::new(State::Ready, created_at)
    }

    fn leased(claimed: Timestamp, until: Timestamp) -> Work {
        let mut work = Work::new(State::Leased, NOW.minus(HOUR));
        (work.last_attempt_at, work.locked_until) = (Some(claimed), Some(until));
        work
    }

    #[test]
    fn what_was_written_in_the_future_can_be_claimed_now() {
        let mut work = ready(NOW.plus(YEARS));
        assert!(work.correct_times(NOW));
        assert_eq!(work.visible_at(), Some(NOW));
    }

    #[test]
    fn what_was_asked_for_stays() {
        let mut scheduled = ready(NOW.minus(HOUR));
        scheduled.due_at = Some(NOW.plus(YEARS));
        let mut retried = ready(NOW.minus(HOUR));
        (retried.last_attempt_at, retried.next_attempt_at) = (Some(NOW), Some(NOW.plus(24 * HOUR)));
        let fresh = ready(NOW.plus(AHEAD));
        let held = leased(NOW, NOW.plus(LEASE_MAX));
        for work in [scheduled, retried, fresh, held] {
            let mut corrected = work.clone();
            assert!(!corrected.correct_times(NOW), "{work:?}");
            assert_eq!(corrected, work);
        }
        let mut scheduled_ahead = ready(NOW.plus(YEARS));
        scheduled_ahead.due_at = Some(NOW.plus(YEARS + HOUR));
        scheduled_ahead.correct_times(NOW);
        assert_eq!(scheduled_ahead.visible_at(), Some(NOW.plus(YEARS + HOUR)), "its due time may be meant");
    }

    #[test]
    fn a_retry_by_a_clock_that_was_ahead_comes_now() {
        for tried in [NOW, NOW.plus(YEARS)] {
            let mut work = ready(NOW.minus(HOUR));
            (work.last_attempt_at, work.next_attempt_at) = (Some(tried), Some(NOW.plus(YEARS)));
            assert!(work.correct_times(NOW));
            assert_eq!(work.visible_at(), Some(NOW));
        }
    }

    /// Its worker has renewed it since, so it waits for nothing.
    #[test]
    fn a_lease_that_was_renewed_by_the_right_clock_stays() {
        let mut work = leased(NOW.plus(YEARS), NOW.plus(AHEAD / 2));
        assert!(!work.correct_times(NOW));
        assert_eq!(work.last_attempt_at, Some(NOW.plus(YEARS)));
    }

    #[test]
    fn a_lease_by_a_clock_that_was_ahead_lasts_as_long_as_it_was_given() {
        let mut work = leased(NOW.plus(YEARS), NOW.plus(YEARS + HOUR));
        assert!(work.correct_times(NOW));
        assert_eq!(work.locked_until, Some(NOW.plus(HOUR)));
        assert!(!work.correct_times(NOW), "once is enough");
        let mut renewed_ahead = leased(NOW, NOW.plus(YEARS));
        assert!(renewed_ahead.correct_times(NOW));
        assert_eq!(renewed_ahead.locked_until, Some(NOW.plus(LEASE_MAX)));
    }
}

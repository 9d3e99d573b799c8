//! A circuit breaker: after some failures in a row a destination is left alone for a while, then one message tries.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When a destination is left alone, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BreakerPolicy {
    /// So many failures in a row.
    pub(crate) failures: u32,
    /// For so long the first time; twice as long each time it fails again.
    pub(crate) pause: Duration,
    pub(crate) pause_max: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self { failures: 5, pause: Duration::from_secs(2), pause_max: Duration::from_secs(60) }
    }
}

#[derive(Debug)]
pub(crate) struct Breaker {
    policy: BreakerPolicy,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// How often it opened since it was last closed.
    opened: u32,
    /// Open until then.
    until: Option<Instant>,
    /// One message is on its way to see whether the destination is back.
    probing: bool,
}

/// Whether a message may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Permission {
    Go,
    /// To see whether the destination is back; no other may until it was answered, failed or broke off.
    Try,
    /// The destination is left alone for so long.
    Wait(Duration),
}

impl Breaker {
    pub(crate) fn new(policy: BreakerPolicy) -> Self {
        Self { policy, state: Mutex::default() }
    }

    pub(crate) fn ask(&self, now: Instant) -> Permission {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.until {
            None => Permission::Go,
            Some(until) if now < until => Permission::Wait(until - now),
            Some(_) if state.probing => Permission::Wait(self.policy.pause),
            Some(_) => {
                state.probing = true;
                Permission::Try
            }
        }
    }

    /// The destination answered, whatever it said.
    pub(crate) fn answered(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::default();
    }

    /// Nobody answered, or it is broken. True when the breaker opened just now.
    pub(crate) fn failed(&self, now: Instant) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failures = state.failures.saturating_add(1);
        let is_open = state.until.is_some();
        // Those that were under way when it opened change nothing; only the one that was sent to see counts.
        if (is_open && !state.probing) || state.failures < self.policy.failures {
            return false;
        }
        let pause = self.policy.pause.saturating_mul(1u32.checked_shl(state.opened).unwrap_or(u32::MAX));
        state.until = Some(now + pause.min(self.policy.pause_max));
        state.opened = state.opened.saturating_add(1);
        state.probing = false;
        !is_open
    }

    /// The message that was to try has ended, perhaps without being sent: another may.
    pub(crate) fn broken_off(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).probing = false;
    }

    /// How many failures there were in a row, and for how long the destination is still left alone, if it is.
    pub(crate) fn standing(&self, now: Instant) -> (u32, Option<Duration>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.failures, state.until.map(|until| until.saturating_duration_since(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic;

    const SECOND: Duration = Duration::from_secs(1);

    fn open(now: Instant) -> Breaker {
        let breaker = Breaker::new(BreakerPolicy { failures: 3, pause: 2 * SECOND, pause_max: 5 * SECOND });
        assert!(!breaker.failed(now) && !breaker.failed(now) && breaker.failed(now));
        breaker
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_one_message_try() {
        let now = monotonic();
        let breaker = open(now);
        assert_eq!(breaker.standing(now + SECOND), (3, Some(SECOND)));
        assert_eq!(breaker.ask(now + SECOND), Permission::Wait(SECOND));
        assert_eq!(breaker.ask(now + 2 * SECOND), Permission::Try);
        assert_eq!(breaker.standing(now + 3 * SECOND), (3, Some(Duration::ZERO)), "one is on its way to see");
        assert_eq!(breaker.ask(now + 2 * SECOND), Permission::Wait(2 * SECOND), "one is on its way");
        breaker.answered();
        assert_eq!(breaker.ask(now + 2 * SECOND), Permission::Go);
    }

    #[test]
    fn it_waits_twice_as_long_each_time_up_to_a_limit() {
        let mut now = monotonic();
        let breaker = open(now);
        for pause in [2, 4, 5, 5] {
            assert_eq!(breaker.ask(now), Permission::Wait(pause * SECOND));
            now += pause * SECOND;
            assert_eq!(breaker.ask(now), Permission::Try);
            assert!(!breaker.failed(now), "it was open before");
        }
    }

    #[test]
    fn an_answer_between_failures_starts_the_count_again() {
        let (now, breaker) = (monotonic(), Breaker::new(BreakerPolicy { failures: 2, ..BreakerPolicy::default() }));
        for _ in 0..10 {
            breaker.failed(now);
            breaker.answered();
        }
        assert_eq!(breaker.standing(now), (0, None));
    }

    #[test]
    fn late_failures_of_an_open_breaker_do_not_prolong_it() {
        let now = monotonic();
        let breaker = open(now);
        assert!(!breaker.failed(now + SECOND));
        assert_eq!(breaker.ask(now + 2 * SECOND), Permission::Try);
        breaker.broken_off();
        assert_eq!(breaker.ask(now + 2 * SECOND), Permission::Try, "another may try");
    }
}

//! A circuit breaker: after several failures in a row a place is held for a while, then one message tries it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// When a place is held, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BreakerPolicy {
    /// The number of failures in a row.
    pub(crate) failures: u32,
    /// How long the place is held the first time; each further failure doubles it.
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
    /// When the place may be tried again, while the breaker is open.
    until: Option<Instant>,
    /// One message is trying whether the place works again.
    probing: bool,
    /// No message waits for the place, so the next one that comes may try it.
    idle: bool,
}

/// Whether a message may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Permission {
    Go,
    /// The message tries whether the place works again. No other may until this one has an outcome.
    Try,
    /// The place is held.
    Wait,
}

impl Breaker {
    pub(crate) fn new(policy: BreakerPolicy) -> Self {
        Self { policy, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ask(&self, now: Instant) -> Permission {
        let mut state = self.state();
        match state.until {
            None => Permission::Go,
            Some(until) if now < until || state.probing => {
                state.idle = false;
                Permission::Wait
            }
            Some(_) => {
                (state.probing, state.idle) = (true, false);
                Permission::Try
            }
        }
    }

    /// Records that the place answered, whatever the answer was. It returns true if the breaker was open.
    pub(crate) fn answered(&self) -> bool {
        std::mem::take(&mut *self.state()).until.is_some()
    }

    /// Records that the place failed. It returns true if the breaker has just opened.
    pub(crate) fn failed(&self, now: Instant, asked_for: Option<Duration>) -> bool {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        let is_open = state.until.is_some();
        // Failures of messages that were in progress when it opened change nothing; only the one that tries the place
        // counts.
        let is_enough = state.failures >= self.policy.failures || asked_for.is_some();
        if (is_open && !state.probing) || !is_enough {
            return false;
        }
        let pause = self.policy.pause.saturating_mul(1u32.checked_shl(state.opened).unwrap_or(u32::MAX));
        // If the place says when to come back, it is tried then.
        let pause = asked_for.unwrap_or(pause).min(self.policy.pause_max);
        state.until = Some(now + pause);
        state.opened = state.opened.saturating_add(1);
        (state.probing, state.idle) = (false, false);
        !is_open
    }

    /// Makes the next failure open the breaker, because there is no handler that could answer.
    pub(crate) fn despair(&self) {
        let mut state = self.state();
        state.failures = state.failures.max(self.policy.failures);
    }

    /// Records that the message that was to try the place ended without being sent, so another one may.
    pub(crate) fn broken_off(&self) {
        self.state().probing = false;
    }

    /// Records that no message waits for the place, so the next one that comes need not be searched for.
    pub(crate) fn rest(&self) {
        let mut state = self.state();
        state.idle = !state.probing;
    }

    /// Returns whether messages for the place stay in the queue.
    pub(crate) fn holds(&self) -> bool {
        let state = self.state();
        state.until.is_some() && !state.idle
    }

    /// Returns when a message has to try the place, unless one already does.
    pub(crate) fn probe_at(&self) -> Option<Instant> {
        let state = self.state();
        state.until.filter(|_| !state.probing && !state.idle)
    }

    /// Returns the number of failures in a row, and how much longer the place is held, if it is.
    pub(crate) fn standing(&self, now: Instant) -> (u32, Option<Duration>) {
        let state = self.state();
        (state.failures, state.until.map(|until| until.saturating_duration_since(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::clock::monotonic;

    const SECOND: Duration = Duration::from_secs(1);

    fn open(now: Instant) -> Breaker {
        let breaker = Breaker::new(BreakerPolicy { failures: 3, pause: 2 * SECOND, pause_max: 5 * SECOND });
        assert!(!breaker.failed(now, None) && !breaker.failed(now, None) && breaker.failed(now, None));
        breaker
    }

    #[test]
    fn where_there_is_nobody_it_opens_at_once() {
        let (now, breaker) = (monotonic(), Breaker::new(BreakerPolicy::default()));
        breaker.despair();
        assert!(breaker.failed(now, None) && breaker.holds());
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_one_message_try() {
        let now = monotonic();
        let breaker = open(now);
        assert_eq!(breaker.standing(now + SECOND), (3, Some(SECOND)));
        assert_eq!((breaker.ask(now + SECOND), breaker.probe_at()), (Permission::Wait, Some(now + 2 * SECOND)));
        assert_eq!(breaker.ask(now + 2 * SECOND), Permission::Try);
        assert_eq!(breaker.standing(now + 3 * SECOND), (3, Some(Duration::ZERO)), "one is on its way to see");
        assert_eq!((breaker.ask(now + 2 * SECOND), breaker.probe_at()), (Permission::Wait, None), "one is on its way");
        assert!(breaker.holds() && breaker.answered());
        assert_eq!((breaker.ask(now + 2 * SECOND), breaker.holds()), (Permission::Go, false));
    }

    #[test]
    fn it_waits_twice_as_long_each_time_up_to_a_limit() {
        let mut now = monotonic();
        let breaker = open(now);
        for pause in [2, 4, 5, 5] {
            assert_eq!(breaker.standing(now).1, Some(pause * SECOND));
            now += pause * SECOND;
            assert_eq!(breaker.ask(now), Permission::Try);
            assert!(!breaker.failed(now, None), "it was open before");
        }
    }

    #[test]
    fn an_answer_between_failures_starts_the_count_again() {
        let (now, breaker) = (monotonic(), Breaker::new(BreakerPolicy { failures: 2, ..BreakerPolicy::default() }));
        for _ in 0..10 {
            breaker.failed(now, None);
            assert!(!breaker.answered());
        }
        assert_eq!(breaker.standing(now), (0, None));
    }

    #[test]
    fn a_place_that_asks_for_time_is_held_at_once() {
        let (now, breaker) = (monotonic(), Breaker::new(BreakerPolicy::default()));
        assert!(breaker.failed(now, Some(7 * SECOND)));
        assert_eq!(breaker.standing(now).1, Some(7 * SECOND));
    }

    #[test]
    fn late_failures_of_an_open_breaker_do_not_prolong_it() {
        let now = monotonic();
        let breaker = open(now);
        assert!(!breaker.failed(now + SECOND, None));
        assert_eq!(breaker.ask(now + 2 * SECOND), Permission::Try);
        breaker.broken_off();
        assert_eq!(breaker.ask(now + 2 * SECOND), Permission::Try, "another may try");
    }

    #[test]
    fn a_message_that_comes_when_none_waited_is_not_held() {
        let now = monotonic();
        let breaker = open(now);
        breaker.rest();
        assert!(!breaker.holds() && breaker.probe_at().is_none());
        assert_eq!(breaker.ask(now + 2 * SECOND), Permission::Try);
        assert_eq!(breaker.ask(now + 2 * SECOND), Permission::Wait);
        assert!(breaker.holds(), "the others wait again");
    }
}

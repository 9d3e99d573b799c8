//! A circuit breaker: after some failures in a row a place is left alone for a while, then one message tries.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// When a place is left alone, and for how long.
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
    /// One message is on its way to see whether the place is back.
    probing: bool,
    /// Nothing waits for it: whatever comes next may try.
    idle: bool,
}

/// Whether a message may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Permission {
    Go,
    /// To see whether the place is back; no other may until it was answered, failed or broke off.
    Try,
    /// The place is left alone.
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

    /// The place answered, whatever it said. True when the breaker was open.
    pub(crate) fn answered(&self) -> bool {
        std::mem::take(&mut *self.state()).until.is_some()
    }

    /// The place failed. True when the breaker opened just now.
    pub(crate) fn failed(&self, now: Instant, asked_for: Option<Duration>) -> bool {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        let is_open = state.until.is_some();
        // Those that were under way when it opened change nothing; only the one that was sent to see counts.
        let is_enough = state.failures >= self.policy.failures || asked_for.is_some();
        if (is_open && !state.probing) || !is_enough {
            return false;
        }
        let pause = self.policy.pause.saturating_mul(1u32.checked_shl(state.opened).unwrap_or(u32::MAX));
        // A place that says when to come back is asked then.
        let pause = asked_for.unwrap_or(pause).min(self.policy.pause_max);
        state.until = Some(now + pause);
        state.opened = state.opened.saturating_add(1);
        (state.probing, state.idle) = (false, false);
        !is_open
    }

    /// The next failure is enough: there is nobody who could answer.
    pub(crate) fn despair(&self) {
        let mut state = self.state();
        state.failures = state.failures.max(self.policy.failures);
    }

    /// The message that was to try has ended without being sent: another may.
    pub(crate) fn broken_off(&self) {
        self.state().probing = false;
    }

    /// Nothing waits for the place: what comes next need not be looked for.
    pub(crate) fn rest(&self) {
        let mut state = self.state();
        state.idle = !state.probing;
    }

    /// Whether what waits for the place is left in line.
    pub(crate) fn holds(&self) -> bool {
        let state = self.state();
        state.until.is_some() && !state.idle
    }

    /// When somebody has to see whether the place is back, if nobody does yet.
    pub(crate) fn probe_at(&self) -> Option<Instant> {
        let state = self.state();
        state.until.filter(|_| !state.probing && !state.idle)
    }

    /// How many failures there were in a row, and for how long the place is still left alone, if it is.
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
    fn who_asks_for_time_is_left_alone_at_once() {
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
    fn what_comes_when_nothing_waited_is_not_left_in_line() {
        let now = monotonic();
        let breaker = open(now);
        breaker.rest();
        assert!(!breaker.holds() && breaker.probe_at().is_none());
        assert_eq!(breaker.ask(now + 2 * SECOND), Permission::Try);
        assert_eq!(breaker.ask(now + 2 * SECOND), Permission::Wait);
        assert!(breaker.holds(), "the others wait in line again");
    }
}

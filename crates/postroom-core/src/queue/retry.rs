//! When to try again. Pure arithmetic.

mod policies;

pub use policies::RetryPolicies;

use std::time::Duration;

use crate::message::SERVICE_TTL;
use crate::support::error::{Error, Result};

/// How long to wait after a failed attempt, when a message is dead, and how long it lives. Only the message's own
/// failures are attempts ([`Whose::Message`](crate::Whose)).
///
/// ```
/// use std::time::Duration;
/// use postroom::RetryPolicy;
///
/// let policy = RetryPolicy::handlers();
/// assert_eq!(policy.delay(1), Duration::from_secs(2));
/// assert_eq!(policy.delay(3), Duration::from_secs(8));
/// assert_eq!(policy.delay(30), Duration::from_secs(60));
///
/// let patient = RetryPolicy::handlers().attempts(20).factor(3.0).longest(Duration::from_secs(3600));
/// assert_eq!(patient.delay(2), Duration::from_secs(6));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    base: Duration,
    factor: f64,
    cap: Duration,
    jitter: Duration,
    attempts_max: u32,
    ttl: Option<Duration>,
}

/// A message that waits for something else is tried again after at most this long.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// The largest factor by which a delay grows.
const FACTOR_MAX: f64 = 100.0;
/// The longest delay, and the longest time to live.
const TIME_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl RetryPolicy {
    /// Returns the policy for handlers in this process: 2, 4, 8 … 60 s, dead at the tenth failure. Messages never
    /// expire.
    pub fn handlers() -> Self {
        Self {
            base: Duration::from_secs(2),
            factor: 2.0,
            cap: Duration::from_secs(60),
            jitter: Duration::ZERO,
            attempts_max: 10,
            ttl: None,
        }
    }

    /// Returns the policy for messages to other services: 2, 4 … 32 s with up to 0.5 s of jitter, dead at the sixth
    /// failure. Messages live for 24 hours.
    pub fn services() -> Self {
        Self {
            cap: Duration::from_secs(300),
            jitter: Duration::from_millis(500),
            attempts_max: 6,
            ttl: Some(SERVICE_TTL),
            ..Self::handlers()
        }
    }

    /// Creates a policy: the first delay is `base`, it doubles with each failure up to `cap`, and up to `jitter` is
    /// added.
    pub fn exponential(base: Duration, cap: Duration, jitter: Duration, attempts_max: u32) -> Result<Self> {
        Self { base, cap, jitter, attempts_max, ..Self::handlers() }.checked()
    }

    crate::setters! {
        /// Sets after how many failures a message is dead, unless it sets its own limit.
        pub fn attempts(mut self, attempts: u32) { self.attempts_max = attempts; }

        /// Sets the delay after the first failure.
        pub fn base(mut self, delay: Duration) { self.base = delay; }

        /// Sets the factor by which each delay is longer than the one before; 2 by default, and 1 for equal delays.
        pub fn factor(mut self, factor: f64) { self.factor = factor; }

        /// Sets the longest delay, without jitter.
        pub fn longest(mut self, delay: Duration) { self.cap = delay; }

        /// Sets how much is added to each delay at most, at random.
        pub fn jitter(mut self, jitter: Duration) { self.jitter = jitter; }

        /// Sets how long a message lives that does not set its own time to live, counted from its due time. `None`
        /// means forever.
        pub fn ttl(mut self, ttl: Option<Duration>) { self.ttl = ttl; }
    }

    /// Returns the policy if it is valid.
    pub fn checked(self) -> Result<Self> {
        if self.base.is_zero() {
            return Err(Error::invalid("the first delay of a retry policy must be longer than zero"));
        }
        if self.cap < self.base {
            return Err(Error::invalid("the longest delay of a retry policy must not be shorter than its first"));
        }
        if self.attempts_max == 0 {
            return Err(Error::invalid("a retry policy must allow at least one attempt"));
        }
        if !(1.0..=FACTOR_MAX).contains(&self.factor) {
            return Err(Error::invalid(format!(
                "the factor of a retry policy is {}; it must be from 1 to {FACTOR_MAX}",
                self.factor
            )));
        }
        if self.ttl.is_some_and(|ttl| ttl.is_zero() || ttl > TIME_MAX) {
            return Err(Error::invalid(
                "the time to live of a retry policy must be more than zero and at most ten years",
            ));
        }
        Ok(self)
    }

    /// Returns after how many failed attempts a message is dead that does not set its own limit.
    pub fn attempts_max(&self) -> u32 {
        self.attempts_max
    }

    /// Returns the longest delay, without jitter.
    pub fn longest_delay(&self) -> Duration {
        self.cap
    }

    /// Returns how long a message lives that does not set its own time to live.
    pub fn time_to_live(&self) -> Option<Duration> {
        self.ttl
    }

    /// Returns the delay after failed attempt number `attempt`, counted from one.
    pub fn delay(&self, attempt: u32) -> Duration {
        grown(self.base, self.factor, self.cap, attempt).saturating_add(self.random_jitter())
    }

    /// Returns the delay before a message that waits for something else is tried again: a fraction of the time that it
    /// has already waited.
    pub(crate) fn pause(&self, waited: Duration) -> Duration {
        (waited / 4).clamp(self.base, self.cap.clamp(self.base, PAUSE_MAX.max(self.base)))
    }

    fn random_jitter(&self) -> Duration {
        match u64::try_from(self.jitter.as_micros()) {
            Ok(micros) if micros > 0 => Duration::from_micros(fastrand::u64(0..=micros)),
            _ => Duration::ZERO,
        }
    }
}

/// Returns the delay after the n-th crash of a worker with the message in progress: 2, 4, 8 … 60 s.
pub(crate) fn crash_delay(crashes: u32) -> Duration {
    grown(Duration::from_secs(2), 2.0, Duration::from_secs(60), crashes)
}

fn grown(base: Duration, factor: f64, cap: Duration, nth: u32) -> Duration {
    let times = factor.powi(i32::try_from(nth.saturating_sub(1)).unwrap_or(i32::MAX));
    // A number that is too large, or NaN, means a delay beyond every cap.
    let seconds = base.as_secs_f64() * times;
    Duration::try_from_secs_f64(seconds).unwrap_or(cap).min(cap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_cap_and_never_overflow() {
        let policy = RetryPolicy::handlers();
        let secs: Vec<u64> = (0..8).map(|n| policy.delay(n).as_secs()).collect();
        assert_eq!(secs, [2, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(policy.delay(u32::MAX).as_secs(), 60);
        let endless = RetryPolicy::exponential(Duration::MAX, Duration::MAX, Duration::ZERO, 1).unwrap();
        assert_eq!(endless.delay(u32::MAX), Duration::MAX);
    }

    #[test]
    fn a_message_that_waits_for_something_else_is_tried_less_and_less_often() {
        let policy = RetryPolicy::handlers();
        let pauses = [0, 8, 80, 100_000].map(|waited| policy.pause(Duration::from_secs(waited)).as_secs());
        assert_eq!(pauses, [2, 2, 20, 60]);
    }

    #[test]
    fn jitter_stays_within_its_bound() {
        let policy = RetryPolicy::services();
        for _ in 0..1000 {
            let delay = policy.delay(1);
            assert!(delay >= Duration::from_secs(2) && delay <= Duration::from_millis(2500), "{delay:?}");
        }
    }

    #[test]
    fn impossible_policies_are_refused() {
        let second = Duration::from_secs(1);
        assert!(RetryPolicy::exponential(Duration::ZERO, second, Duration::ZERO, 1).is_err());
        assert!(RetryPolicy::exponential(second * 2, second, Duration::ZERO, 1).is_err());
        assert!(RetryPolicy::exponential(second, second, Duration::ZERO, 0).is_err());
        for factor in [0.5, f64::NAN, f64::INFINITY, -1.0] {
            assert!(RetryPolicy::handlers().factor(factor).checked().is_err(), "{factor}");
        }
        assert!(RetryPolicy::handlers().ttl(Some(Duration::ZERO)).checked().is_err());
    }
}

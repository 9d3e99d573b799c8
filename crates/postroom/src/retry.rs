//! When to try again: pure arithmetic.

use std::time::Duration;

use crate::error::{Error, Result};

/// How long to wait after the n-th failed attempt, and when to stop trying.
///
/// ```
/// use std::time::Duration;
/// use postroom::RetryPolicy;
///
/// let policy = RetryPolicy::handlers();
/// assert_eq!(policy.delay(1), Duration::from_secs(2));
/// assert_eq!(policy.delay(3), Duration::from_secs(8));
/// assert_eq!(policy.delay(30), Duration::from_secs(60));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    base: Duration,
    cap: Duration,
    jitter: Duration,
    attempts_max: u32,
}

impl RetryPolicy {
    /// For handlers in this process: 2, 4, 8 … 60 s, dead at the tenth failure.
    pub fn handlers() -> Self {
        Self { base: Duration::from_secs(2), cap: Duration::from_secs(60), jitter: Duration::ZERO, attempts_max: 10 }
    }

    /// For messages to another service: 2, 4 … 32 s and up to 0.5 s of jitter, sent at most six times.
    pub fn services() -> Self {
        Self {
            base: Duration::from_secs(2),
            cap: Duration::from_secs(300),
            jitter: Duration::from_millis(500),
            attempts_max: 6,
        }
    }

    /// A policy of one's own: `base`, doubled with each failure, up to `cap`, with up to `jitter` on top.
    pub fn exponential(base: Duration, cap: Duration, jitter: Duration, attempts_max: u32) -> Result<Self> {
        if base.is_zero() {
            return Err(Error::invalid("the first delay of a retry policy must be longer than zero"));
        }
        if cap < base {
            return Err(Error::invalid("the longest delay of a retry policy must not be shorter than its first"));
        }
        if attempts_max == 0 {
            return Err(Error::invalid("a retry policy must allow at least one attempt"));
        }
        Ok(Self { base, cap, jitter, attempts_max })
    }

    /// How many failed attempts end a message that does not say so itself.
    pub fn attempts_max(&self) -> u32 {
        self.attempts_max
    }

    /// The wait after failed attempt number `attempt`, counted from one.
    pub fn delay(&self, attempt: u32) -> Duration {
        doubled(self.base, self.cap, attempt).saturating_add(self.random_jitter())
    }

    fn random_jitter(&self) -> Duration {
        match u64::try_from(self.jitter.as_micros()) {
            Ok(micros) if micros > 0 => Duration::from_micros(fastrand::u64(0..=micros)),
            _ => Duration::ZERO,
        }
    }
}

/// The wait after the n-th time a worker vanished with the message in hand: 2, 4, 8 … 60 s.
pub(crate) fn crash_delay(crashes: u32) -> Duration {
    doubled(Duration::from_secs(2), Duration::from_secs(60), crashes)
}

fn doubled(base: Duration, cap: Duration, nth: u32) -> Duration {
    let factor = 1u32.checked_shl(nth.saturating_sub(1)).unwrap_or(u32::MAX);
    base.checked_mul(factor).unwrap_or(cap).min(cap)
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
    }
}

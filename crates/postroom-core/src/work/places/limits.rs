//! The limits for sending to a place.

use std::time::Duration;

use crate::work::places::breaker::BreakerPolicy;

/// The limits for a destination, or for the handler of a topic: how many messages it gets at once, and when it is held.
///
/// ```
/// use std::time::Duration;
/// use postroom::worker::Limits;
///
/// // After three failures in a row it is held for 1 s, then for 2, 4 … 30 s, until one message goes through.
/// let limits = Limits::default().concurrency(8).breaker(3, Duration::from_secs(1), Duration::from_secs(30));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    #[doc(hidden)]
    pub concurrency: usize,
    pub(crate) breaker: BreakerPolicy,
}

impl Default for Limits {
    fn default() -> Self {
        Self { concurrency: usize::MAX, breaker: BreakerPolicy::default() }
    }
}

impl Limits {
    crate::setters! {
        /// Sends at most this many messages at once, if the worker's limit for one place allows it; no limit by
        /// default.
        pub fn concurrency(mut self, messages: usize) { self.concurrency = messages.max(1); }

        /// Sets the circuit breaker. After this many failures in a row the place is held for `pause`, then for twice as
        /// long, up to `pause_max`, until one message goes through: 5, 2 s and 60 s by default. Only the place's own
        /// failures count.
        pub fn breaker(mut self, failures: u32, pause: Duration, pause_max: Duration) {
            self.breaker = BreakerPolicy { failures: failures.max(1), pause, pause_max: pause_max.max(pause) };
        }
    }
}

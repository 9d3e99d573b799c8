//! How finished messages go back in the queue.

use std::time::Duration;

use crate::queue::Work;
use crate::support::clock::Timestamp;
use crate::support::error::{Error, Result};

/// How dead letters go back in the queue; by default at once.
///
/// ```
/// use std::time::Duration;
/// use postroom::Outbox;
/// use postroom::operator::{Filter, Revival};
/// use postroom::queue::State;
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// let given_up = Filter::all().state(State::Dead).party("billing");
/// // In a minute, and then ten per second, so that a service that has just come back is not overloaded.
/// let gently = Revival::at_once().after(Duration::from_secs(60)).per_second(10);
/// assert_eq!(outbox.queue().revive(given_up, gently).await?, 0);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Revival {
    ttl: Option<Duration>,
    delay: Duration,
    per_second: Option<u32>,
}

impl Revival {
    /// Requeues all of them at once, with the rest of their time to live.
    pub fn at_once() -> Self {
        Self::default()
    }

    crate::setters! {
        /// Sets a new time to live, which begins when they can be claimed. Expired messages need one.
        pub fn ttl(mut self, ttl: Duration) { self.ttl = Some(ttl); }

        /// Delays the first of them by this time.
        pub fn after(mut self, delay: Duration) { self.delay = delay; }

        /// Limits how many can be claimed per second. The delay of each message grows accordingly.
        pub fn per_second(mut self, messages: u32) { self.per_second = Some(messages); }
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.ttl == Some(Duration::ZERO) {
            return Err(Error::invalid("the time to live of a revived message must be longer than zero"));
        }
        if self.per_second == Some(0) {
            return Err(Error::invalid("the rate must be at least 1 message per second"));
        }
        Ok(())
    }

    /// Returns how long after the first message this one can be claimed. To continue a long series, delay the rest by
    /// what this returns for the first of the rest.
    pub fn delay_of(&self, nth: u64) -> Duration {
        let spread = self.per_second.map_or(Duration::ZERO, |rate| {
            Duration::from_micros(nth.saturating_mul(1_000_000) / u64::from(rate.max(1)))
        });
        self.delay.saturating_add(spread)
    }

    /// Returns when one of them can be claimed, or `None` if that is at once.
    fn at(&self, nth: u64, now: Timestamp) -> Option<Timestamp> {
        Some(self.delay_of(nth)).filter(|delay| !delay.is_zero()).map(|delay| now.plus(delay))
    }

    /// Returns when a message that is requeued at that time expires. It is an error if it would expire before it could
    /// be claimed.
    fn expiry(&self, expires_at: Option<Timestamp>, at: Timestamp) -> std::result::Result<Option<Timestamp>, TooLate> {
        match self.ttl.map(|ttl| at.plus(ttl)).or(expires_at) {
            Some(expires) if expires <= at => Err(TooLate),
            expires => Ok(expires),
        }
    }

    /// Puts a finished row back in the queue, as one of many. Returns false if it would expire before its turn.
    pub(crate) fn put_back(&self, work: &mut Work, nth: u64, now: Timestamp) -> bool {
        let at = self.at(nth, now);
        let Ok(expires_at) = self.expiry(work.expires_at, at.unwrap_or(now)) else { return false };
        work.revive(at, expires_at);
        true
    }

    /// Returns whether a message with this expiry would go back in the queue as number `nth`, if the first goes back
    /// now.
    pub fn takes(&self, expires_at: Option<Timestamp>, nth: u64, now: Timestamp) -> bool {
        self.expiry(expires_at, now.plus(self.delay_of(nth))).is_ok()
    }
}

/// The message would expire before it could be claimed.
#[derive(Clone, Copy, Debug)]
struct TooLate;

impl From<Option<Duration>> for Revival {
    /// Requeues at once, with that time to live.
    fn from(ttl: Option<Duration>) -> Self {
        Self { ttl, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn so_many_can_be_claimed_in_each_second() {
        let revival = Revival::at_once().after(SECOND).per_second(4);
        let delays: Vec<_> = [0, 1, 4, 5].map(|nth| revival.delay_of(nth).as_millis()).into();
        assert_eq!(delays, [1000, 1250, 2000, 2250]);
        assert_eq!(Revival::at_once().delay_of(9), Duration::ZERO);
    }

    #[test]
    fn who_would_expire_before_its_turn_stays() {
        let now = Timestamp::from_micros(0);
        let soon = Some(now.plus(SECOND));
        assert!(Revival::at_once().takes(soon, 0, now));
        assert!(!Revival::at_once().after(SECOND).takes(soon, 0, now));
        assert!(Revival::at_once().after(SECOND).ttl(SECOND).takes(soon, 0, now));
        assert!(!Revival::at_once().per_second(1).takes(soon, 1, now));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(Revival::at_once().per_second(0).check().is_err());
        assert!(Revival::at_once().ttl(Duration::ZERO).check().is_err());
        assert!(Revival::at_once().after(SECOND).ttl(SECOND).per_second(1).check().is_ok());
    }
}

//! The clock of a database server.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::carried::Doubt;
use super::watch::Watch;
use super::{ClockJump, Timestamp, monotonic};

/// A database server's clock: the time it last reported, carried on by this machine's monotonic clock. This machine's
/// own wall clock may be wrong or jump; nothing depends on it.
///
/// ```
/// use postroom::clock::{Clock, ServerClock};
/// use postroom::store::{MemoryStore, Store};
///
/// /// A store on a database server uses that server's clock.
/// fn server_clock(store: &dyn Store) -> Option<&ServerClock> {
///     match store.clock() {
///         Clock::Server(clock) => Some(clock),
///         _ => None,
///     }
/// }
///
/// assert!(server_clock(&MemoryStore::new()).is_none());
/// ```
#[derive(Clone, Debug)]
pub struct ServerClock(Arc<Heard>);

#[derive(Debug)]
struct Heard {
    watch: Watch,
    /// The last time that was assigned to a transaction.
    given: Mutex<Timestamp>,
    /// When the server last reported its time.
    heard_at: Mutex<Instant>,
}

/// If a server's clock goes back by more than this, somebody has set it.
const SET_BACK: Duration = Duration::from_millis(100);

impl ServerClock {
    pub(crate) fn new(said: Timestamp) -> Self {
        let (watch, given, heard_at) = (Watch::new(said), Mutex::new(said), Mutex::new(monotonic()));
        Self(Arc::new(Heard { watch, given, heard_at }))
    }

    /// Records the time that the server reported when it was asked at `asked`. Returns a time that no other transaction
    /// has: if a commit gets no answer, its effects are recognised by this time.
    pub(crate) fn hear(&self, said: Timestamp, asked: Instant) -> Timestamp {
        *self.0.heard_at.lock().unwrap_or_else(PoisonError::into_inner) = monotonic();
        self.give(self.0.watch.hear(said, asked))
    }

    /// Returns how long ago the server reported its time.
    #[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
    pub(crate) fn heard_ago(&self) -> Duration {
        self.0.heard_at.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Returns a time that no other transaction has, without asking the server again.
    pub(crate) fn tick(&self) -> Timestamp {
        self.give(self.0.watch.now())
    }

    fn give(&self, now: Timestamp) -> Timestamp {
        let mut given = self.0.given.lock().unwrap_or_else(PoisonError::into_inner);
        let is_taken = now <= *given && given.since(now) < SET_BACK;
        *given = if is_taken { given.plus(Duration::from_micros(1)) } else { now };
        *given
    }

    pub(super) fn now(&self) -> Timestamp {
        self.0.watch.now()
    }

    pub(super) fn jump(&self) -> Option<ClockJump> {
        self.0.watch.jump()
    }

    pub(super) fn doubt(&self) -> Doubt {
        self.0.watch.doubt()
    }

    pub(super) fn accepted(&self) -> u64 {
        self.0.watch.accepted()
    }

    pub(super) fn take_news(&self) -> Option<ClockJump> {
        self.0.watch.take_news()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::clock::{JumpState, monotonic};

    #[test]
    fn what_a_server_says_for_a_moment_is_not_believed() {
        let (start, month) = (Timestamp::from_micros(1_771_070_400_000_000), Duration::from_secs(31 * 24 * 3600));
        let clock = ServerClock::new(start);
        assert!(clock.hear(start.plus(month), monotonic()) < start.plus(Duration::from_secs(5)));
        assert!(clock.doubt().late(start) >= start.plus(month - Duration::from_secs(5)));
        assert_eq!(clock.jump().map(|jump| jump.state), Some(JumpState::Doubted));
        assert!(clock.hear(start, monotonic()) < start.plus(Duration::from_secs(5)));
        assert_eq!(clock.jump().map(|jump| jump.state), Some(JumpState::TakenBack));
    }

    #[test]
    fn no_two_transactions_have_the_same_time() {
        let start = Timestamp::from_micros(1_771_070_400_000_000);
        let clock = ServerClock::new(start);
        let mut given: Vec<_> = (0..100).map(|_| clock.hear(start, monotonic())).collect();
        given.extend((0..100).map(|_| clock.tick()));
        given.dedup();
        assert_eq!(given.len(), 200);
        assert!(given.is_sorted());
    }
}

//! A clock for tests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::carried::{Carried, Doubt, Look};
use super::{ClockJump, Timestamp};

/// A clock that moves only when the test moves it.
///
/// ```
/// use std::time::Duration;
/// use postroom::{NewMessage, Outbox};
/// use postroom::clock::{Clock, ManualClock, Timestamp};
/// use postroom::message::OwnerToken;
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let clock = ManualClock::new(Timestamp::from_micros(0));
/// let outbox = Outbox::new(MemoryStore::with_clock(Clock::Manual(clock.clone())));
/// let (hour, lease) = (Duration::from_secs(3600), Duration::from_secs(30));
/// outbox.enqueue(NewMessage::new("invoice.due", "{}").due_after(hour)).await?;
/// assert!(outbox.queue().claim(OwnerToken::new(), lease, 10).await?.claimed.is_empty());
///
/// clock.advance(hour);
/// assert_eq!(outbox.queue().claim(OwnerToken::new(), lease, 10).await?.claimed.len(), 1);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Hands>>);

/// The wall clock, and the monotonic clock that it is compared with.
#[derive(Debug)]
struct Hands {
    wall: Timestamp,
    at: Duration,
    carried: Carried,
}

impl ManualClock {
    /// Creates a clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        let carried = Carried::new(start, Duration::ZERO);
        Self(Arc::new(Mutex::new(Hands { wall: start, at: Duration::ZERO, carried })))
    }

    /// Returns the time that the clock shows. After a [jump](Self::set), the jump is ignored at first.
    pub fn now(&self) -> Timestamp {
        let hands = self.look();
        hands.carried.now(hands.at)
    }

    /// Lets time pass.
    pub fn advance(&self, span: Duration) {
        let mut hands = self.hands();
        (hands.wall, hands.at) = (hands.wall.plus(span), hands.at.saturating_add(span));
    }

    /// Sets the wall clock while no time passes. A store sees this as a jump: it keeps the old time until a second
    /// look, ten seconds later, confirms the jump.
    ///
    /// ```
    /// use std::time::Duration;
    /// use postroom::clock::{ManualClock, Timestamp};
    ///
    /// let (then, later) = (Timestamp::from_micros(0), Timestamp::from_micros(3_600_000_000));
    /// let clock = ManualClock::new(then);
    /// clock.set(later);
    /// assert_eq!(clock.now(), then);
    /// clock.advance(Duration::from_secs(10));
    /// assert_eq!(clock.now(), later.plus(Duration::from_secs(10)));
    /// ```
    pub fn set(&self, time: Timestamp) {
        self.hands().wall = time;
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) -> MutexGuard<'_, Hands> {
        let mut hands = self.hands();
        let look = Look { said: hands.wall, took: Duration::ZERO, at: hands.at };
        hands.carried.look(look);
        hands
    }

    pub(super) fn jump(&self) -> Option<ClockJump> {
        let hands = self.look();
        hands.carried.jump(hands.at)
    }

    pub(super) fn doubt(&self) -> Doubt {
        self.look().carried.doubt()
    }

    pub(super) fn accepted(&self) -> u64 {
        self.look().carried.accepted()
    }

    pub(super) fn take_news(&self) -> Option<ClockJump> {
        let mut hands = self.look();
        let at = hands.at;
        hands.carried.take_news(at)
    }
}

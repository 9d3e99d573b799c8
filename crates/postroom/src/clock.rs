//! Time: microseconds since 1970, and the one place that asks the machine for it.

mod rfc3339;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A moment in UTC, in whole microseconds since 1970.
///
/// ```
/// use std::time::Duration;
/// use postroom::Timestamp;
///
/// let noon: Timestamp = "2026-02-14T12:00:00Z".parse()?;
/// let later = noon.plus(Duration::from_secs(90));
/// assert_eq!(later.to_string(), "2026-02-14T12:01:30.000000Z");
/// assert_eq!(later.since(noon), Duration::from_secs(90));
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The moment `micros` microseconds after 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This moment and `span` more, or the last moment there is.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros(span)))
    }

    /// This moment less `span`, or the first moment there is.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(micros(span)))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(micros(after)),
            Err(before) => Self(-micros(before.duration())),
        }
    }
}

pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// Where a store takes the time from.
///
/// ```
/// use postroom::{Clock, ManualClock, MemoryStore, Store, Timestamp};
///
/// let new_year: Timestamp = "2026-01-01T00:00:00Z".parse()?;
/// let store = MemoryStore::with_clock(Clock::Manual(ManualClock::new(new_year)));
/// assert_eq!(store.clock().now(), new_year);
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Clock {
    /// The database's own clock; for an embedded database that is the machine's.
    #[default]
    Database,
    /// The clock of a database server, as far as this machine has heard it.
    Server(ServerClock),
    /// A clock that stands still until it is moved: for tests.
    Manual(ManualClock),
}

impl Clock {
    /// The time on this machine, or on the manual clock.
    #[allow(clippy::disallowed_methods, reason = "this is the clock the rest of the code asks")]
    pub fn now(&self) -> Timestamp {
        match self {
            Self::Database => SystemTime::now().into(),
            Self::Server(server) => server.now(),
            Self::Manual(manual) => manual.now(),
        }
    }
}

/// A database server's clock: what it last said, carried on by this machine's monotonic clock. This machine's own time
/// of day may be wrong or jump; nothing is judged by it.
///
/// ```
/// use postroom::{Clock, MemoryStore, ServerClock, Store};
///
/// /// A store on a database server goes by that server's clock.
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
pub struct ServerClock(Arc<Mutex<Heard>>);

#[derive(Debug)]
struct Heard {
    at: Instant,
    said: Timestamp,
    /// The last time that was given to a transaction.
    given: Timestamp,
}

/// A server's clock that goes back by more than this was set.
const SET_BACK: Duration = Duration::from_millis(100);

impl ServerClock {
    pub(crate) fn new(said: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(Heard { at: monotonic(), said, given: said })))
    }

    /// Takes what the server just said; returns a time for a transaction that no other has. When a commit had no
    /// answer, what it did is recognised by its time.
    pub(crate) fn hear(&self, said: Timestamp) -> Timestamp {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (heard.at, heard.said) = (monotonic(), said);
        heard.give(said)
    }

    /// A time for a transaction that no other has, without a new word from the server.
    pub(crate) fn tick(&self) -> Timestamp {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = heard.now();
        heard.give(now)
    }

    /// How long ago the server spoke.
    #[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql", feature = "tiberius-0_13"))]
    pub(crate) fn heard_ago(&self) -> Duration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).at.elapsed()
    }

    fn now(&self) -> Timestamp {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).now()
    }
}

impl Heard {
    fn now(&self) -> Timestamp {
        self.said.plus(self.at.elapsed())
    }

    fn give(&mut self, now: Timestamp) -> Timestamp {
        let is_taken = now <= self.given && self.given.since(now) < SET_BACK;
        self.given = if is_taken { self.given.plus(Duration::from_micros(1)) } else { now };
        self.given
    }
}

/// A clock that only moves when told to.
///
/// ```
/// use std::time::Duration;
/// use postroom::{Clock, ManualClock, MemoryStore, NewMessage, Outbox, OwnerToken, Timestamp};
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
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(start.0)))
    }

    /// What the clock shows.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    /// Moves the clock forward.
    pub fn advance(&self, span: Duration) {
        self.0.fetch_add(micros(span), Ordering::SeqCst);
    }
}

/// The monotonic clock: for how long, never for when.
#[allow(clippy::disallowed_methods, reason = "this is the clock the rest of the code asks")]
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_stops_at_the_ends_of_time() {
        let last = Timestamp::from_micros(i64::MAX);
        assert_eq!(last.plus(Duration::MAX), last);
        assert_eq!(Timestamp::from_micros(5).since(last), Duration::ZERO);
    }
}

//! Time in microseconds since 1970, and the only code that asks the machine for it.

mod carried;
mod jump;
mod manual;
mod rfc3339;
mod server;
mod timestamp;
mod watch;

pub(crate) use carried::Doubt;
pub use jump::{ClockJump, JumpState};
pub use manual::ManualClock;
pub use server::ServerClock;
pub use timestamp::Timestamp;
pub(crate) use timestamp::micros;

use std::time::{Instant, SystemTime};

/// Where a store takes the time from.
///
/// The monotonic clock of this machine carries the time on, and the wall clock is compared with it. When the two differ
/// by more than a few seconds, the wall clock has jumped. The jump is ignored until a second look, at least ten seconds
/// later, confirms it.
///
/// ```
/// use postroom::clock::{Clock, ManualClock, Timestamp};
/// use postroom::store::{MemoryStore, Store};
///
/// let new_year: Timestamp = "2026-01-01T00:00:00Z".parse()?;
/// let store = MemoryStore::with_clock(Clock::Manual(ManualClock::new(new_year)));
/// assert_eq!(store.clock().now(), new_year);
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Clock {
    /// The database's own clock. For an embedded database this is the machine's clock.
    #[default]
    Database,
    /// The clock of a database server, as last read by this machine.
    Server(ServerClock),
    /// A clock for tests that stands still until it is moved.
    Manual(ManualClock),
}

impl Clock {
    /// Returns the current time. A jump of the wall clock is ignored until it is confirmed.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::Database => watch::machine().now(),
            Self::Server(server) => server.now(),
            Self::Manual(manual) => manual.now(),
        }
    }

    /// Returns the last jump of the wall clock that this process has seen.
    ///
    /// ```
    /// use postroom::clock::{Clock, ManualClock, Timestamp};
    ///
    /// let hands = ManualClock::new(Timestamp::from_micros(0));
    /// let clock = Clock::Manual(hands.clone());
    /// assert_eq!(clock.jump(), None);
    /// hands.set(Timestamp::from_micros(3_600_000_000));
    /// assert!(clock.jump().is_some_and(|jump| jump.is_ahead));
    /// ```
    pub fn jump(&self) -> Option<ClockJump> {
        match self {
            Self::Database => watch::machine().jump(),
            Self::Server(server) => server.jump(),
            Self::Manual(manual) => manual.jump(),
        }
    }

    /// Returns what the wall clock shows, jump or not. Use it to compare with another clock right away, as for a
    /// signature.
    #[doc(hidden)]
    pub fn wall(&self) -> Timestamp {
        let now = self.now();
        self.doubt().wall(now)
    }

    /// Returns how far the wall clock differs from [`now`](Self::now) while a jump is not confirmed.
    pub(crate) fn doubt(&self) -> Doubt {
        match self {
            Self::Database => watch::machine().doubt(),
            Self::Server(server) => server.doubt(),
            Self::Manual(manual) => manual.doubt(),
        }
    }

    /// Returns how many jumps were accepted so far.
    pub(crate) fn jumps_accepted(&self) -> u64 {
        match self {
            Self::Database => watch::machine().accepted(),
            Self::Server(server) => server.accepted(),
            Self::Manual(manual) => manual.accepted(),
        }
    }

    /// Returns what happened to a jump, once for each change, for the log.
    pub(crate) fn take_news(&self) -> Option<ClockJump> {
        match self {
            Self::Database => watch::machine().take_news(),
            Self::Server(server) => server.take_news(),
            Self::Manual(manual) => manual.take_news(),
        }
    }
}

/// Returns the monotonic clock's time. Use it to measure durations, never to tell the date.
#[allow(clippy::disallowed_methods, reason = "the rest of the code gets the time from here")]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// Returns what the machine's wall clock shows.
#[allow(clippy::disallowed_methods, reason = "the rest of the code gets the time from here")]
fn machine_says() -> Timestamp {
    SystemTime::now().into()
}

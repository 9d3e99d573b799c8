//! Time: microseconds since 1970, and the one place that asks the machine for it.

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
/// A clock is carried on by the monotonic clock of this machine and compared with what the wall clock says. When the
/// two differ by more than a few seconds, the wall clock has jumped. Until a second look at least ten seconds later
/// finds the same, the time goes on as if it had not.
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
    /// The database's own clock; for an embedded database that is the machine's.
    #[default]
    Database,
    /// The clock of a database server, as far as this machine has heard it.
    Server(ServerClock),
    /// A clock that stands still until it is moved: for tests.
    Manual(ManualClock),
}

impl Clock {
    /// The time: after a jump of the wall clock, the time without it until the jump is confirmed.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::Database => watch::machine().now(),
            Self::Server(server) => server.now(),
            Self::Manual(manual) => manual.now(),
        }
    }

    /// The last jump of the wall clock that this process has seen.
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

    /// What the wall clock says, jump or not: for what is compared with other clocks at once, such as a signature.
    #[doc(hidden)]
    pub fn wall(&self) -> Timestamp {
        let now = self.now();
        self.doubt().wall(now)
    }

    /// By how much the wall clock differs from [`now`](Self::now) while a jump is not confirmed.
    pub(crate) fn doubt(&self) -> Doubt {
        match self {
            Self::Database => watch::machine().doubt(),
            Self::Server(server) => server.doubt(),
            Self::Manual(manual) => manual.doubt(),
        }
    }

    /// How many jumps were accepted so far.
    pub(crate) fn jumps_accepted(&self) -> u64 {
        match self {
            Self::Database => watch::machine().accepted(),
            Self::Server(server) => server.accepted(),
            Self::Manual(manual) => manual.accepted(),
        }
    }

    /// What became of a jump, each time once: for the log.
    pub(crate) fn take_news(&self) -> Option<ClockJump> {
        match self {
            Self::Database => watch::machine().take_news(),
            Self::Server(server) => server.take_news(),
            Self::Manual(manual) => manual.take_news(),
        }
    }
}

/// The monotonic clock: for how long, never for when.
#[allow(clippy::disallowed_methods, reason = "this is the clock the rest of the code asks")]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// What the machine's wall clock says.
#[allow(clippy::disallowed_methods, reason = "this is the clock the rest of the code asks")]
fn machine_says() -> Timestamp {
    SystemTime::now().into()
}

//! A point in time, and arithmetic on it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time in UTC, in whole microseconds since 1970.
///
/// ```
/// use std::time::Duration;
/// use postroom::clock::Timestamp;
///
/// let noon: Timestamp = "2026-02-14T12:00:00Z".parse()?;
/// let later = noon.plus(Duration::from_secs(90));
/// assert_eq!(later.to_string(), "2026-02-14T12:01:30.000000Z");
/// assert_eq!(later.since(noon), Duration::from_secs(90));
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Timestamp(pub(super) i64);

impl Timestamp {
    /// Returns the time `micros` microseconds after 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds since 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns this time plus `span`, or the last possible time.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros(span)))
    }

    /// Returns this time minus `span`, or the first possible time.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(micros(span)))
    }

    /// Returns how long this is after `earlier`, or zero if it is not after it.
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

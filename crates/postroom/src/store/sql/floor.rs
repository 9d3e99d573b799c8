//! From where a claim looks along the line.
//!
//! A server keeps what was claimed in its index until no transaction can see it any more; with an old snapshot held open
//! somewhere, each claim would step over everything that ever passed. So a claim begins where the last one found
//! something. That is a hint and no cursor: commits become visible out of order, so the whole line is looked at whenever
//! nothing is found, and once a second at least.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Timestamp;

const WHOLE_LINE_EVERY: Duration = Duration::from_secs(1);

/// The begin of a line nobody has looked along yet.
pub(super) const BEGINNING: Timestamp = Timestamp::from_micros(i64::MIN);

#[derive(Debug)]
pub(crate) struct Floor(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    from: Timestamp,
    whole_line_at: Timestamp,
}

impl Floor {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Seen { from: BEGINNING, whole_line_at: BEGINNING }))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where to begin.
    pub(super) fn from(&self, now: Timestamp) -> Timestamp {
        let mut seen = self.seen();
        if seen.from != BEGINNING && now.since(seen.whole_line_at) < WHOLE_LINE_EVERY {
            return seen.from;
        }
        seen.whole_line_at = now;
        BEGINNING
    }

    /// The first of the rows that were just claimed.
    pub(super) fn raise(&self, first: Timestamp) {
        self.seen().from = first;
    }

    /// A row is about to be put in line there.
    pub(super) fn lower(&self, row: Option<Timestamp>) {
        let mut seen = self.seen();
        seen.from = row.map_or(seen.from, |row| row.min(seen.from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_line_is_looked_at_once_a_second() {
        let (floor, second) = (Floor::new(), Duration::from_secs(1));
        let start = Timestamp::from_micros(1_000_000_000);
        assert_eq!(floor.from(start), BEGINNING);
        floor.raise(start);
        assert_eq!(floor.from(start), start);
        assert_eq!(floor.from(start.plus(second)), BEGINNING);
        assert_eq!(floor.from(start.plus(second)), start);
        floor.lower(Some(start.minus(second)));
        assert_eq!(floor.from(start.plus(second)), start.minus(second));
    }
}

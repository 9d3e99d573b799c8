//! From where a claim looks along the line.
//!
//! A server keeps what was claimed in its index until no transaction can see it any more; with an old snapshot held
//! open somewhere, each claim would step over everything that ever passed. So a claim begins where the last one found
//! something. That is a hint and no cursor: commits become visible out of order, so the whole line is looked at when
//! nothing is found, and what lies below is looked for once a second at least.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Timestamp;

/// How long what lies below, or what ran out, may go unseen while there is enough to claim.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The begin of a line nobody has looked along yet.
pub(super) const BEGINNING: Timestamp = Timestamp::from_micros(i64::MIN);

#[derive(Debug)]
pub(crate) struct Floor(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    from: Timestamp,
    looked_at: Timestamp,
}

impl Floor {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Seen { from: BEGINNING, looked_at: BEGINNING }))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a claim begins.
    pub(super) fn from(&self) -> Timestamp {
        self.seen().from
    }

    /// Whether it is time to look below, and for what ran out; then this look is taken as done.
    pub(super) fn is_look_due(&self, now: Timestamp) -> bool {
        let mut seen = self.seen();
        let is_due = seen.looked_at == BEGINNING || seen.looked_at > now || now.since(seen.looked_at) >= LOOK_EVERY;
        if is_due {
            seen.looked_at = now;
        }
        is_due
    }

    /// The first of the rows that were just claimed.
    pub(super) fn raise(&self, first: Timestamp) {
        self.seen().from = first;
    }

    /// There is a row in line there, or about to be.
    pub(super) fn lower(&self, row: Option<Timestamp>) {
        let mut seen = self.seen();
        seen.from = row.map_or(seen.from, |row| row.min(seen.from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_is_looked_for_once_a_second() {
        let (floor, second) = (Floor::new(), Duration::from_secs(1));
        let start = Timestamp::from_micros(1_000_000_000);
        assert_eq!(floor.from(), BEGINNING);
        assert!(floor.is_look_due(start));
        floor.raise(start);
        assert_eq!(floor.from(), start);
        assert!(!floor.is_look_due(start));
        assert!(floor.is_look_due(start.plus(second)));
        assert!(floor.is_look_due(start), "a clock that was set back does not stop it");
        floor.lower(Some(start.minus(second)));
        assert_eq!(floor.from(), start.minus(second));
    }
}

//! Which part of the line a claim of a few topics need not look along again.
//!
//! Messages that nobody fetches stay in line, before all that others wait for, and each claim of those would step over
//! all of them. So the place of the first row that was found is kept, and the next claim begins there. What becomes
//! visible below it, a commit that took long or a message that was due before it came, is found when the whole line is
//! looked along: as often as that is cheap. Where it takes no time that is always.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::floor::BEGINNING;
use crate::clock::Timestamp;
use crate::queue::{Queue, Topics};

/// The whole line is looked along again after so many times as long as it took.
const TIMES: u32 = 300;
/// At once when it took no longer than this.
const CHEAP: Duration = Duration::from_millis(10);
/// And no later than this.
const LATEST: Duration = Duration::from_secs(30);
/// Commits become visible out of order: nobody relies on the last moments.
const SLACK: Duration = Duration::from_secs(2);
/// Sets of topics that are remembered: whoever fetches may name others each time.
const SETS_MAX: usize = 256;

/// For each set of topics, what its claims have passed.
#[derive(Debug, Default)]
pub(crate) struct Passed(Mutex<HashMap<(Queue, Topics), Seen>>);

#[derive(Clone, Copy, Debug)]
struct Seen {
    from: Timestamp,
    whole_at: Timestamp,
    whole_took: Duration,
}

/// A look along the line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) from: Timestamp,
    pub(super) now: Timestamp,
    pub(super) took: Duration,
    /// The place of the first row that was found.
    pub(super) first: Option<Timestamp>,
}

impl Passed {
    fn sets(&self) -> MutexGuard<'_, HashMap<(Queue, Topics), Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self, queue: Queue, topics: &Topics) -> Option<Seen> {
        self.sets().get(&(queue, topics.clone())).copied()
    }

    /// Where a claim of these topics begins.
    pub(super) fn beginning(&self, queue: Queue, topics: &Topics, now: Timestamp) -> Timestamp {
        let pause = |seen: Seen| match seen.whole_took {
            took if took <= CHEAP => Duration::ZERO,
            took => (took * TIMES).min(LATEST),
        };
        let recent =
            self.seen(queue, topics).filter(|seen| seen.whole_at <= now && now < seen.whole_at.plus(pause(*seen)));
        recent.map_or(BEGINNING, |seen| seen.from)
    }

    /// Before this there is nothing, as far as was seen.
    pub(super) fn from(&self, queue: Queue, topics: &Topics) -> Timestamp {
        self.seen(queue, topics).map_or(BEGINNING, |seen| seen.from)
    }

    pub(super) fn looked(&self, queue: Queue, topics: &Topics, look: Look) {
        let from = look.first.unwrap_or(look.now).min(look.now.minus(SLACK)).max(look.from);
        let mut sets = self.sets();
        if sets.len() >= SETS_MAX && !sets.contains_key(&(queue, topics.clone())) {
            sets.clear();
        }
        let seen =
            sets.entry((queue, topics.clone())).or_insert(Seen { from, whole_at: look.now, whole_took: look.took });
        seen.from = from;
        if look.from == BEGINNING {
            (seen.whole_at, seen.whole_took) = (look.now, look.took);
        }
    }

    /// There is a row in line there, or about to be.
    pub(super) fn lower(&self, queue: Queue, row: Option<Timestamp>) {
        let Some(row) = row else { return };
        for (_, seen) in self.sets().iter_mut().filter(|((of, _), _)| *of == queue) {
            seen.from = seen.from.min(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    fn look(from: Timestamp, took: Duration, first: Option<Timestamp>) -> Look {
        Look { from, now: NOW, took, first }
    }

    #[test]
    fn a_line_that_is_short_is_always_looked_along_from_its_beginning() {
        let (passed, topics) = (Passed::default(), Topics::only(["a"]).unwrap());
        passed.looked(Queue::Outbox, &topics, look(BEGINNING, Duration::from_micros(20), None));
        assert_eq!(passed.beginning(Queue::Outbox, &topics, NOW.plus(SECOND)), BEGINNING);
    }

    #[test]
    fn what_took_long_to_pass_is_not_passed_again_soon() {
        let (passed, topics) = (Passed::default(), Topics::only(["a"]).unwrap());
        let (first, soon) = (NOW.minus(SECOND * 60), NOW.plus(SECOND * 4));
        passed.looked(Queue::Outbox, &topics, look(BEGINNING, SECOND / 10, Some(first)));
        assert_eq!(passed.beginning(Queue::Outbox, &topics, soon), first);
        assert_eq!(passed.beginning(Queue::Inbox, &topics, soon), BEGINNING, "each queue has a line of its own");
        assert_eq!(passed.beginning(Queue::Outbox, &topics.rest(), soon), BEGINNING);
        assert_eq!(passed.beginning(Queue::Outbox, &topics, NOW.plus(SECOND * 30)), BEGINNING);
        passed.looked(Queue::Outbox, &topics, look(first, SECOND / 100, None));
        assert_eq!(passed.beginning(Queue::Outbox, &topics, soon), NOW.minus(SLACK), "the last moments are no past");
        passed.lower(Queue::Outbox, Some(first));
        assert_eq!(passed.beginning(Queue::Outbox, &topics, soon), first);
    }
}

//! Where claims of a few topics start.
//!
//! Messages that nobody fetches stay at the front of the queue, and each claim of other topics would step over all of
//! them. So the place of the first row that was found is kept, and the next claim starts there. Rows may become visible
//! before that place, after a long commit or with an early due time. A longer scan finds them: of the last moments or
//! of the whole queue, each as often as that is cheap. Where a scan takes no time, it is always a whole one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::scan_start::{BEGINNING, MOMENT, Position, Span};
use crate::queue::{Queue, Topics};
use crate::support::clock::Timestamp;

/// A scan of the whole queue, or of the last moments, is repeated after this many times its own duration.
const TIMES: u32 = 300;
/// A scan that took no longer than this is repeated at once.
const CHEAP: Duration = Duration::from_millis(1);
/// The longest pause before a scan is repeated.
const LATEST: Duration = Duration::from_secs(30);
/// Commits become visible out of order, so this last time span is scanned again now and then.
const RECENT: Duration = Duration::from_secs(2);
/// The number of topic sets that are remembered, because a service may fetch different topics each time.
const SETS_MAX: usize = 256;

/// The passed part of the queue for each set of topics.
#[derive(Debug, Default)]
pub(crate) struct TopicScanStart(Mutex<HashMap<(Queue, Topics), Seen>>);

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Where a scan of the last moments starts, and where a scan of new rows starts.
    recent: Position,
    new: Position,
    whole_look: Last,
    recent_look: Last,
}

/// When a scan last ran, and how long it took.
#[derive(Clone, Copy, Debug)]
struct Last {
    at: Timestamp,
    took: Duration,
}

impl Last {
    fn is_due(self, now: Timestamp) -> bool {
        let pause = if self.took <= CHEAP { Duration::ZERO } else { (self.took * TIMES).min(LATEST) };
        now < self.at || self.at.plus(pause) <= now
    }
}

/// A scan of the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) from: Position,
    pub(super) now: Timestamp,
    pub(super) took: Duration,
    /// Where the rows were that it found.
    pub(super) found: Option<Span>,
}

impl TopicScanStart {
    fn sets(&self) -> MutexGuard<'_, HashMap<(Queue, Topics), Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self, queue: Queue, topics: &Topics) -> Option<Seen> {
        self.sets().get(&(queue, topics.clone())).copied()
    }

    /// Returns where a claim of these topics starts.
    pub(super) fn beginning(&self, queue: Queue, topics: &Topics, now: Timestamp) -> Position {
        match self.seen(queue, topics) {
            Some(seen) if seen.whole_look.is_due(now) => BEGINNING.into(),
            Some(seen) if seen.recent_look.is_due(now) => seen.recent,
            Some(seen) => seen.new,
            None => BEGINNING.into(),
        }
    }

    pub(super) fn looked(&self, queue: Queue, topics: &Topics, look: Look) {
        let passed = |found: Option<Position>, slack| {
            found.unwrap_or(look.now.into()).min(look.now.minus(slack).into()).max(look.from)
        };
        let (last, is_whole) = (Last { at: look.now, took: look.took }, look.from.at == BEGINNING);
        let mut sets = self.sets();
        if sets.len() >= SETS_MAX && !sets.contains_key(&(queue, topics.clone())) {
            sets.clear();
        }
        let unseen = Seen { recent: BEGINNING.into(), new: BEGINNING.into(), whole_look: last, recent_look: last };
        let seen = sets.entry((queue, topics.clone())).or_insert(unseen);
        if is_whole {
            seen.whole_look = last;
        }
        if is_whole || look.from <= seen.recent {
            (seen.recent, seen.recent_look) = (passed(look.found.map(|found| found.first), RECENT), last);
        }
        seen.new = passed(look.found.map(|found| found.passed(look.now)), MOMENT);
    }

    /// Moves the start back to a row that is in the queue, or will be soon.
    pub(super) fn lower(&self, queue: Queue, row: Option<Timestamp>) {
        let Some(row) = row else { return };
        for (_, seen) in self.sets().iter_mut().filter(|((of, _), _)| *of == queue) {
            (seen.recent, seen.new) = (seen.recent.min(row.into()), seen.new.min(row.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::from_micros(1_000_000_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    fn look(from: Timestamp, took: Duration, first: Option<Timestamp>) -> Look {
        Look { from: from.into(), now: AT, took, found: first.map(|at| Span { first: at.into(), last: at.into() }) }
    }

    #[test]
    fn a_line_that_is_short_is_always_looked_along_from_its_beginning() {
        let (passed, topics) = (TopicScanStart::default(), Topics::only(["a"]).unwrap());
        passed.looked(Queue::Outbox, &topics, look(BEGINNING, Duration::from_micros(20), None));
        assert_eq!(passed.beginning(Queue::Outbox, &topics, AT.plus(SECOND)).at, BEGINNING);
    }

    #[test]
    fn what_took_long_to_pass_is_not_passed_again_soon() {
        let (passed, topics) = (TopicScanStart::default(), Topics::only(["a"]).unwrap());
        let (first, soon) = (AT.minus(SECOND * 60), AT.plus(SECOND * 4));
        passed.looked(Queue::Outbox, &topics, look(BEGINNING, SECOND / 10, Some(first)));
        assert_eq!(passed.beginning(Queue::Outbox, &topics, soon).at, first);
        assert_eq!(passed.beginning(Queue::Inbox, &topics, soon).at, BEGINNING, "each queue has a line of its own");
        assert_eq!(passed.beginning(Queue::Outbox, &topics.rest(), soon).at, BEGINNING);
        assert_eq!(passed.beginning(Queue::Outbox, &topics, AT.plus(SECOND * 30)).at, BEGINNING);
        passed.looked(Queue::Outbox, &topics, look(first, Duration::ZERO, None));
        assert_eq!(passed.beginning(Queue::Outbox, &topics, soon).at, AT.minus(RECENT), "the last moments are no past");
        passed.lower(Queue::Outbox, Some(first));
        assert_eq!(passed.beginning(Queue::Outbox, &topics, soon).at, first);
    }

    #[test]
    fn last_moments_that_take_long_to_pass_are_not_passed_each_time() {
        let (passed, topics) = (TopicScanStart::default(), Topics::only(["a"]).unwrap());
        let next = |after| passed.beginning(Queue::Outbox, &topics, AT.plus(after)).at;
        let look = |after, took| {
            let look = Look { from: next(after).into(), now: AT.plus(after), took, found: None };
            passed.looked(Queue::Outbox, &topics, look);
        };
        look(Duration::ZERO, SECOND / 50);
        assert_eq!(next(SECOND), AT.minus(MOMENT));
        look(SECOND, Duration::ZERO);
        assert_eq!(next(SECOND), AT.plus(SECOND).minus(MOMENT));
        assert_eq!(next(SECOND * 6), BEGINNING);
        look(SECOND * 6, SECOND / 5);
        look(SECOND * 7, Duration::ZERO);
        assert_eq!(next(SECOND * 7), AT.plus(SECOND * 7).minus(MOMENT));
        passed.lower(Queue::Outbox, Some(AT));
        assert_eq!(next(SECOND * 8), AT);
        look(SECOND * 8, SECOND / 100);
        assert_eq!(next(SECOND * 8), AT.plus(SECOND * 8).minus(MOMENT));
        assert_eq!(next(SECOND * 11), AT.plus(SECOND * 8).minus(RECENT), "a commit that took longer is found then");
    }
}

//! Where scans of a queue start.
//!
//! A server keeps passed rows in its indexes until no transaction can see them any more. If an old snapshot is open
//! somewhere, every scan from the beginning would step over all of them. So a claim starts where the last one ended,
//! and a look starts where the last one found nothing. This is a hint and not a cursor: commits become
//! visible out of order, so the whole queue is scanned as often as that is cheap. Where a scan takes no time, it is
//! always a whole one.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::SqlVerbs;
use crate::message::NewMessage;
use crate::queue::{Queue, first_due};
use crate::support::clock::{Timestamp, monotonic};

/// How long earlier rows, or leases that ran out, may go unseen while there is enough to claim.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A whole scan is repeated after this many times its own duration.
const TIMES: u32 = 50;
/// A scan that took no longer than this is repeated at once.
const CHEAP: Duration = Duration::from_millis(3);
/// The longest pause before a whole scan is repeated.
const LATEST: Duration = Duration::from_secs(10);
/// Commits become visible out of order, so scans always include this last time span.
const SLACK: Duration = Duration::from_secs(2);
/// Most transactions are over within this time.
pub(super) const MOMENT: Duration = Duration::from_millis(50);
/// How many rows that went back in the queue are remembered one by one.
const LOWERED_MAX: usize = 64;

/// The start of a queue that was never scanned.
pub(super) const BEGINNING: Timestamp = Timestamp::from_micros(i64::MIN);

/// A position in the order in which rows are claimed. Many rows may have the same time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Position {
    pub(super) at: Timestamp,
    pub(super) seq: i64,
}

impl From<Timestamp> for Position {
    /// Returns the position before all rows of that time.
    fn from(at: Timestamp) -> Self {
        Self { at, seq: i64::MIN }
    }
}

/// What a look found first in each order, or where it starts there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Lines<T> {
    /// In the order in which rows may be claimed.
    pub(super) ready: T,
    /// In the order in which leases end.
    pub(super) leased: T,
    /// In the order in which rows expire.
    pub(super) expiring: T,
}

/// Where the rows of a claim were.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) first: Position,
    pub(super) last: Position,
}

impl Span {
    /// Returns where the next claim starts: behind these rows. Others have what is left between them, or a look finds
    /// it. While other transactions with rows of the same time may not have committed, it is the first of these rows.
    pub(super) fn passed(self, now: Timestamp) -> Position {
        if self.last.at <= now.minus(MOMENT) { self.last } else { self.first }
    }
}

#[derive(Debug)]
pub(crate) struct ScanStart(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    lines: Lines<Line>,
    looked_at: Timestamp,
    /// Rows that went back in the queue a moment ago, perhaps in a transaction that is not committed yet.
    lowered: VecDeque<(Instant, Timestamp)>,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    from: Position,
    whole: Option<(Instant, Duration)>,
}

impl Line {
    const NEW: Self = Self { from: Position { at: BEGINNING, seq: i64::MIN }, whole: None };

    fn begin(&self, asked: Instant) -> Timestamp {
        let pause = |took: Duration| if took <= CHEAP { Duration::ZERO } else { (took * TIMES).min(LATEST) };
        let is_recent = |(at, took): (Instant, Duration)| asked.saturating_duration_since(at) < pause(took);
        if self.whole.is_some_and(is_recent) { self.from.at } else { BEGINNING }
    }

    fn looked(&mut self, look: Look, begin: Timestamp, first: Option<Timestamp>) {
        self.from = first.unwrap_or(look.now).min(look.now.minus(SLACK)).max(begin).into();
        if begin == BEGINNING {
            self.whole = Some((look.asked, look.took));
        }
    }
}

/// A look at a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) asked: Instant,
    pub(super) took: Duration,
    pub(super) now: Timestamp,
}

impl ScanStart {
    pub(super) fn new() -> Self {
        let lines = Lines { ready: Line::NEW, leased: Line::NEW, expiring: Line::NEW };
        Self(Mutex::new(Seen { lines, looked_at: BEGINNING, lowered: VecDeque::new() }))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns where a claim starts.
    pub(super) fn from(&self) -> Position {
        self.seen().lines.ready.from
    }

    /// Returns where a look starts in each order.
    pub(super) fn begin(&self, asked: Instant) -> Lines<Timestamp> {
        let lines = self.seen().lines;
        let [ready, leased, expiring] = [lines.ready, lines.leased, lines.expiring].map(|line| line.begin(asked));
        Lines { ready, leased, expiring }
    }

    /// Records what a look found first.
    pub(super) fn looked(&self, look: Look, begin: Lines<Timestamp>, first: Lines<Option<Timestamp>>) {
        let mut seen = self.seen();
        seen.lines.ready.looked(look, begin.ready, first.ready);
        seen.lines.leased.looked(look, begin.leased, first.leased);
        seen.lines.expiring.looked(look, begin.expiring, first.expiring);
        seen.keep_what_was_lowered();
    }

    /// Records that nothing is ready and no lease ran out. Rows that expire were not queried.
    pub(super) fn passed(&self, look: Look, begin: Lines<Timestamp>) {
        let mut seen = self.seen();
        seen.lines.ready.looked(look, begin.ready, None);
        seen.lines.leased.looked(look, begin.leased, None);
        seen.keep_what_was_lowered();
    }

    /// Returns whether it is time to look at earlier rows and leases that ran out. If so, it counts this look as taken.
    pub(super) fn is_look_due(&self, now: Timestamp) -> bool {
        let mut seen = self.seen();
        let is_due = seen.looked_at == BEGINNING || seen.looked_at > now || now.since(seen.looked_at) >= LOOK_EVERY;
        if is_due {
            seen.looked_at = now;
        }
        is_due
    }

    /// Moves the start to where a claim ended.
    pub(super) fn raise(&self, to: Position) {
        let mut seen = self.seen();
        seen.lines.ready.from = to;
        seen.keep_what_was_lowered();
    }

    /// Moves the start back to a row that is in the queue, or will be soon.
    pub(super) fn lower(&self, row: Option<Timestamp>) {
        let Some(row) = row else { return };
        let mut seen = self.seen();
        if seen.lowered.len() >= LOWERED_MAX
            && let (Some((_, oldest)), Some((_, next))) = (seen.lowered.pop_front(), seen.lowered.front_mut())
        {
            *next = (*next).min(oldest);
        }
        seen.lowered.push_back((monotonic(), row));
        seen.lines.ready.from = seen.lines.ready.from.min(row.into());
    }
}

impl SqlVerbs {
    /// Notices a message that goes into the outbox.
    pub(super) fn notice_new(&self, message: &NewMessage, now: Timestamp) {
        self.notice(Queue::Outbox, message.lane.as_ref(), (message.due(now), now));
    }

    /// Notices a message that goes into a queue: one in a lane has to be given its turn, and claims may have passed the
    /// place of one with a head start.
    pub(super) fn notice(&self, queue: Queue, lane: Option<&String>, (due, now): (Option<Timestamp>, Timestamp)) {
        if lane.is_some() {
            self.expect_notes(queue);
        }
        let first = first_due(due, now);
        if first < now {
            self.scan_start(queue).lower(Some(first));
            self.topic_scan_start.lower(queue, Some(first));
        }
    }
}

impl Seen {
    /// Keeps the start at these rows. A claim or a look that began earlier has not seen them.
    fn keep_what_was_lowered(&mut self) {
        self.lowered.retain(|(at, _)| at.elapsed() < LOOK_EVERY);
        let lowest = self.lowered.iter().map(|(_, row)| *row).min();
        self.lines.ready.from = lowest.map_or(self.lines.ready.from, |row| self.lines.ready.from.min(row.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000);
    const SECOND: Duration = Duration::from_secs(1);
    const NOTHING: Lines<Option<Timestamp>> = Lines { ready: None, leased: None, expiring: None };

    #[test]
    fn what_lies_below_is_looked_for_once_a_second() {
        let start = ScanStart::new();
        assert_eq!(start.from(), BEGINNING.into());
        assert!(start.is_look_due(NOW));
        start.raise(NOW.into());
        assert_eq!(start.from(), NOW.into());
        assert!(!start.is_look_due(NOW));
        assert!(start.is_look_due(NOW.plus(SECOND)));
        assert!(start.is_look_due(NOW), "a clock that was set back does not stop it");
        start.lower(Some(NOW.minus(SECOND)));
        assert_eq!(start.from(), NOW.minus(SECOND).into());
    }

    #[test]
    fn a_claim_that_began_before_a_row_went_back_in_line_does_not_hide_it() {
        let (start, back) = (ScanStart::new(), NOW.minus(SECOND * 60));
        start.raise(NOW.minus(SECOND).into());
        start.lower(Some(back));
        start.raise(NOW.into());
        assert_eq!(start.from(), back.into());
        let asked = monotonic();
        start.looked(Look { asked, took: SECOND, now: NOW }, start.begin(asked), NOTHING);
        assert_eq!(start.from(), back.into());
        (0..2 * LOWERED_MAX).for_each(|_| start.lower(Some(NOW)));
        assert_eq!(start.from(), back.into(), "however many follow it");
    }

    #[test]
    fn a_claim_from_a_large_batch_starts_behind_those_that_were_taken() {
        let (start, taken) = (ScanStart::new(), Position { at: NOW, seq: 500 });
        let span = Span { first: Position { at: NOW, seq: 1 }, last: taken };
        assert_eq!(span.passed(NOW).seq, 1, "another transaction may be about to commit");
        start.raise(span.passed(NOW.plus(SECOND)));
        assert_eq!(start.from(), taken);
        start.lower(Some(NOW));
        assert_eq!(start.from(), NOW.into(), "which of them went back is not known");
    }

    #[test]
    fn what_took_long_to_pass_is_not_passed_again_soon() {
        let (start, asked) = (ScanStart::new(), monotonic());
        let whole = Lines { ready: BEGINNING, leased: BEGINNING, expiring: BEGINNING };
        assert_eq!(start.begin(asked), whole);
        start.looked(Look { asked, took: CHEAP, now: NOW }, whole, NOTHING);
        assert_eq!(start.begin(asked), whole, "what is cheap is always done");
        let (first, due) = (NOW.minus(SECOND * 60), NOW.plus(SECOND * 60));
        let found = Lines { ready: Some(first), leased: Some(due), expiring: None };
        start.looked(Look { asked, took: SECOND / 10, now: NOW }, whole, found);
        let (passed, soon) = (NOW.minus(SLACK), asked + SECOND * 4);
        assert_eq!(start.begin(soon), Lines { ready: first, leased: passed, expiring: passed });
        assert_eq!(start.begin(asked + SECOND * 5), whole);
        // A look that started later knows nothing of earlier rows.
        start.looked(Look { asked: soon, took: CHEAP, now: NOW.plus(SECOND * 4) }, start.begin(soon), NOTHING);
        assert_eq!(start.begin(asked + SECOND * 5), whole);
    }
}

//! Finds what happened in a queue since the last poll: new rows and failures by number, finished rows by time. Commits
//! become visible out of order, so each poll checks skipped numbers and the last moments again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use anyhow::Result;
use postroom::clock::Timestamp;
use postroom::questions::{Occurrence, OccurrencesAfter, Place};
use postroom::queue::{Queue, State, WorkQueue};

use super::{Event, Happened};

/// The rows per query.
const PAGE: usize = 1000;
/// The queries per poll. The follower catches up with a faster queue later.
const PAGES_MAX: usize = 20;
/// A row that was finished this long before the last poll may become visible only now.
const OVERLAP: Duration = Duration::from_secs(2);
/// How long to wait for a skipped number. Its transaction may have been rolled back.
const GAP_TIME: Duration = Duration::from_secs(10);
/// The time before anything was finished.
const NEVER: Timestamp = Timestamp::from_micros(0);
/// The most skipped numbers that are kept.
const GAPS_MAX: usize = 500;

/// A position in a sequence of numbers.
#[derive(Default)]
struct Numbers {
    last: i64,
    /// Skipped numbers, and for how many more polls to wait for each.
    gaps: BTreeMap<i64, u32>,
}

pub(super) struct Follower {
    queue: Queue,
    verbs: WorkQueue,
    show_payload: bool,
    rows: Numbers,
    failures: Numbers,
    /// The finish time of the last reported row, by state.
    finished: HashMap<State, Timestamp>,
    /// The rows reported in the last moments, with their times.
    told: HashSet<(i64, Timestamp)>,
}

const FINISHED: [(State, Happened); 4] = [
    (State::Done, Happened::Done),
    (State::Dead, Happened::Dead),
    (State::Expired, Happened::Expired),
    (State::Dismissed, Happened::Dismissed),
];

impl Follower {
    /// Starts with what happens from now on.
    pub(super) async fn begin(queue: Queue, verbs: WorkQueue, show_payload: bool) -> Result<Self> {
        let last = |number: Option<i64>| Numbers { last: number.unwrap_or(0), gaps: BTreeMap::new() };
        let newest = verbs.newest().await?;
        let (rows, failures) = (last(newest.row), last(newest.failure));
        let (finished, told) = (HashMap::new(), HashSet::new());
        let mut follower = Self { queue, verbs, show_payload, rows, failures, finished, told };
        for (state, happened) in FINISHED {
            // Existing rows are known, so they are not reported.
            follower.finished.insert(state, newest.finished_at(state).unwrap_or(NEVER));
            follower.finished_in(state, happened).await?;
        }
        Ok(follower)
    }

    /// Returns what has happened since the last poll.
    pub(super) async fn look(&mut self, interval: Duration) -> Result<Vec<Event>> {
        let patience = u32::try_from(GAP_TIME.as_millis() / interval.as_millis().max(1)).unwrap_or(u32::MAX);
        let mut events = Vec::new();
        for _ in 0..PAGES_MAX {
            let (number, skipped) = self.rows.place();
            let page = self.ask(Place::Row { number, skipped }).await?;
            let is_last = self.rows.pass(page.iter().map(|row| row.number), patience);
            events.extend(page.into_iter().map(|row| event(row, self.queue, Happened::Enqueued)));
            if is_last {
                break;
            }
        }
        for _ in 0..PAGES_MAX {
            let (number, skipped) = self.failures.place();
            let page = self.ask(Place::Failure { number, skipped }).await?;
            let is_last = self.failures.pass(page.iter().map(|row| row.number), patience);
            events.extend(page.into_iter().map(|row| event(row, self.queue, Happened::Failed)));
            if is_last {
                break;
            }
        }
        for (state, happened) in FINISHED {
            events.extend(self.finished_in(state, happened).await?);
        }
        let oldest = self.finished.values().min().copied().unwrap_or(NEVER).minus(OVERLAP);
        self.told.retain(|(_, at)| *at >= oldest);
        Ok(events)
    }

    async fn finished_in(&mut self, state: State, happened: Happened) -> Result<Vec<Event>> {
        let newest = self.finished.get(&state).copied().unwrap_or(NEVER);
        let (mut at, mut row) = (newest.minus(OVERLAP), 0);
        let mut events = Vec::new();
        for _ in 0..PAGES_MAX {
            let page = self.ask(Place::Finished { state, at, row }).await?;
            let is_last = page.len() < PAGE;
            for finished in page {
                (at, row) = (finished.at, finished.number);
                if self.told.insert((row, at)) {
                    events.push(event(finished, self.queue, happened));
                }
            }
            if is_last {
                break;
            }
        }
        self.finished.insert(state, newest.max(at));
        Ok(events)
    }

    async fn ask(&self, place: Place) -> Result<Vec<Occurrence>> {
        let request = OccurrencesAfter::new(place, PAGE).with_payload(self.show_payload);
        Ok(self.verbs.occurrences(request).await?)
    }
}

impl Numbers {
    /// Returns the last number, and the skipped numbers before it.
    fn place(&self) -> (i64, Vec<i64>) {
        (self.last, self.gaps.keys().copied().collect())
    }

    /// Records the numbers of a page, in order. Returns whether it was the last page.
    fn pass(&mut self, numbers: impl Iterator<Item = i64>, patience: u32) -> bool {
        let mut count = 0;
        for number in numbers {
            count += 1;
            if self.gaps.remove(&number).is_none() && number > self.last {
                let room = GAPS_MAX.saturating_sub(self.gaps.len());
                let skipped = (self.last + 1..number).rev().take(room);
                self.gaps.extend(skipped.map(|number| (number, patience)));
                self.last = number;
            }
        }
        self.gaps.retain(|_, looks| {
            *looks = looks.saturating_sub(1);
            *looks > 0
        });
        count < PAGE
    }
}

fn event(row: Occurrence, queue: Queue, state: Happened) -> Event {
    let (destination, source) = if queue == Queue::Outbox { (row.party, None) } else { (None, row.party) };
    Event {
        at: row.at.to_string(),
        time: row.at,
        seq: row.number,
        queue: queue.as_str(),
        state,
        id: row.id,
        topic: row.topic,
        destination,
        source,
        attempts: row.attempts,
        error: row.error.filter(|_| matches!(state, Happened::Failed | Happened::Dead)),
        payload_bytes: row.payload_bytes,
        payload: row.payload,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_skipped_is_waited_for() {
        let mut numbers = Numbers { last: 5, gaps: BTreeMap::new() };
        assert!(numbers.pass([6, 9].into_iter(), 2));
        assert_eq!(numbers.place(), (9, vec![7, 8]));
        assert!(numbers.pass([7].into_iter(), 2));
        assert_eq!(numbers.place(), (9, Vec::new()), "8 was rolled back");
    }

    #[test]
    fn a_full_page_is_not_the_last() {
        let mut numbers = Numbers::default();
        assert!(!numbers.pass(1..=1000, 1));
        assert!(numbers.pass(1001..=1002, 1));
    }
}

//! Finds what happened in a queue since the last poll: new rows and failures by number, finished rows by time. Commits
//! become visible out of order, so each poll checks skipped numbers and the last moments again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use anyhow::Result;
use postroom::{Queue, State, Timestamp};

use super::{Event, Happened};
use crate::ask::{Asker, Row};

/// The rows per query.
const PAGE: usize = 1000;
/// The queries per poll. The follower catches up with a faster queue later.
const PAGES_MAX: usize = 20;
/// A row that was finished this long before the last poll may become visible only now, in microseconds.
const OVERLAP: i64 = 2_000_000;
/// How long to wait for a skipped number; its transaction may have been rolled back.
const GAP_TIME: Duration = Duration::from_secs(10);
/// The most skipped numbers to remember.
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
    show_payload: bool,
    rows: Numbers,
    failures: Numbers,
    /// The finish time of the last reported row, by state.
    finished: HashMap<i64, i64>,
    /// The rows and times that were reported for the last moments.
    told: HashSet<(i64, i64)>,
}

const FINISHED: [(State, Happened); 4] = [
    (State::Done, Happened::Done),
    (State::Dead, Happened::Dead),
    (State::Expired, Happened::Expired),
    (State::Dismissed, Happened::Dismissed),
];

impl Follower {
    /// Starts with events from now on.
    pub(super) async fn begin(queue: Queue, show_payload: bool, asker: &mut Asker) -> Result<Self> {
        let last = |number: Option<i64>| Numbers { last: number.unwrap_or(0), gaps: BTreeMap::new() };
        let rows = last(asker.number(queue, "max(seq)", "FROM {t}").await?);
        let failures = last(asker.number(queue, "max({no})", "FROM {t}_failures").await?);
        let mut follower = Self { queue, show_payload, rows, failures, finished: HashMap::new(), told: HashSet::new() };
        for (state, happened) in FINISHED {
            // Existing rows are not reported.
            let newest = format!("FROM {{t}} WHERE state = {} AND processed_at IS NOT NULL", state.code());
            let newest = asker.number(queue, "max(processed_at)", &newest).await?.unwrap_or(0);
            follower.finished.insert(state.code(), newest);
            follower.finished_in(asker, state, happened).await?;
        }
        Ok(follower)
    }

    /// The events since the last poll.
    pub(super) async fn look(&mut self, asker: &mut Asker, interval: Duration) -> Result<Vec<Event>> {
        let patience = u32::try_from(GAP_TIME.as_millis() / interval.as_millis().max(1)).unwrap_or(u32::MAX);
        let mut events = Vec::new();
        for _ in 0..PAGES_MAX {
            let (rest, columns) =
                (self.rows.rest("FROM {t} AS m", "m.seq"), self.columns("m.created_at", "m.last_error"));
            let page = self.ask(asker, &columns, &rest).await?;
            let is_last = self.rows.pass(page.iter().map(|row| row.number), patience);
            events.extend(page.into_iter().map(|row| row.event(self.queue, Happened::Enqueued)));
            if is_last {
                break;
            }
        }
        for _ in 0..PAGES_MAX {
            let from = "FROM {t}_failures AS f JOIN {t} AS m ON m.seq = f.seq";
            let rest = self.failures.rest(from, "f.{no}");
            let mut columns = self.columns("f.at", "f.error");
            (columns[0], columns[6]) = ("f.{no}", "f.attempt");
            let page = self.ask(asker, &columns, &rest).await?;
            let is_last = self.failures.pass(page.iter().map(|row| row.number), patience);
            events.extend(page.into_iter().map(|row| row.event(self.queue, Happened::Failed)));
            if is_last {
                break;
            }
        }
        for (state, happened) in FINISHED {
            events.extend(self.finished_in(asker, state, happened).await?);
        }
        let oldest = self.finished.values().min().copied().unwrap_or(0) - OVERLAP;
        self.told.retain(|(_, at)| *at >= oldest);
        Ok(events)
    }

    async fn finished_in(&mut self, asker: &mut Asker, state: State, happened: Happened) -> Result<Vec<Event>> {
        let code = state.code();
        let newest = self.finished.get(&code).copied().unwrap_or(0);
        let (mut at, mut seq) = (newest - OVERLAP, 0);
        let mut events = Vec::new();
        for _ in 0..PAGES_MAX {
            let rest = format!(
                "FROM {{t}} AS m WHERE m.state = {code} AND m.processed_at >= {at}
                   AND (m.processed_at > {at} OR m.seq > {seq})
                 ORDER BY m.processed_at, m.seq LIMIT {PAGE}"
            );
            let page = self.ask(asker, &self.columns("m.processed_at", "m.last_error"), &rest).await?;
            let is_last = page.len() < PAGE;
            for row in page {
                (at, seq) = (row.micros, row.number);
                if self.told.insert((row.number, row.micros)) {
                    events.push(row.event(self.queue, happened));
                }
            }
            if is_last {
                break;
            }
        }
        self.finished.insert(code, newest.max(at));
        Ok(events)
    }

    /// The columns of an event; the first is its number, the fifth its time.
    fn columns(&self, at: &'static str, error: &'static str) -> [&'static str; 9] {
        let payload = if self.show_payload { "m.payload" } else { "NULL" };
        ["m.seq", "{id}", "m.topic", "m.{party}", at, error, "m.attempts", "octet_length(m.payload)", payload]
    }

    async fn ask(&self, asker: &mut Asker, columns: &[&str], rest: &str) -> Result<Vec<Told>> {
        let rows = asker.rows(self.queue, columns, rest, None).await?;
        Ok(rows.into_iter().map(Told::from).collect())
    }
}

impl Numbers {
    /// Selects the rows after the last number, and the skipped ones before it.
    fn rest(&self, from: &str, number: &str) -> String {
        let gaps: Vec<_> = self.gaps.keys().map(ToString::to_string).collect();
        let gaps = if gaps.is_empty() { String::new() } else { format!(" OR {number} IN ({})", gaps.join(", ")) };
        format!("{from} WHERE {number} > {}{gaps} ORDER BY {number} LIMIT {PAGE}", self.last)
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

/// A row of the result.
struct Told {
    number: i64,
    micros: i64,
    row: Row,
}

impl From<Row> for Told {
    fn from(row: Row) -> Self {
        let number = |index: usize| row.get(index).and_then(Option::as_deref).and_then(|text| text.parse().ok());
        Self { number: number(0).unwrap_or(0), micros: number(4).unwrap_or(0), row }
    }
}

impl Told {
    fn event(self, queue: Queue, state: Happened) -> Event {
        let [_, id, topic, party, _, error, attempts, bytes, payload] =
            <[Option<String>; 9]>::try_from(self.row).unwrap_or_default();
        let time = Timestamp::from_micros(self.micros);
        let (destination, source) = if queue == Queue::Outbox { (party, None) } else { (None, party) };
        let id = id.unwrap_or_default();
        let count = |text: Option<String>| text.and_then(|text| text.parse().ok()).unwrap_or(0);
        Event {
            at: time.to_string(),
            time,
            seq: self.number,
            queue: queue.as_str(),
            state,
            // As `send` and `show` write it.
            id: if queue == Queue::Outbox {
                uuid::Uuid::try_parse(&id).map_or(id, |uuid| uuid.to_string())
            } else {
                id
            },
            topic: topic.unwrap_or_default(),
            destination,
            source,
            attempts: count(attempts),
            error: error.filter(|_| matches!(state, Happened::Failed | Happened::Dead)),
            payload_bytes: count(bytes),
            payload,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_skipped_is_waited_for() {
        let mut numbers = Numbers { last: 5, gaps: BTreeMap::new() };
        assert!(numbers.pass([6, 9].into_iter(), 2));
        assert!(numbers.rest("FROM a", "seq").contains("seq > 9 OR seq IN (7, 8)"));
        assert!(numbers.pass([7].into_iter(), 2));
        assert_eq!(numbers.rest("FROM a", "seq"), "FROM a WHERE seq > 9 ORDER BY seq LIMIT 1000", "8 was rolled back");
    }

    #[test]
    fn a_full_page_is_not_the_last() {
        let mut numbers = Numbers::default();
        assert!(!numbers.pass(1..=1000, 1));
        assert!(numbers.pass(1001..=1002, 1));
    }
}

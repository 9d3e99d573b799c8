//! A snapshot of both queues. Every query reads a bounded number of rows, except that the counts by state walk an
//! index.

use std::time::Duration;

use anyhow::Result;
use postroom::clock::Timestamp;
use postroom::questions::{LastFailure, Passed};
use postroom::queue::{Queue, State, WorkQueue};
use serde::Serialize;

use super::super::stats::Counts;
use crate::open::Opened;
use crate::output;

/// The time span of the rates.
const WINDOW: Duration = Duration::from_secs(10);
/// The most rows that are read for a rate.
const RATE_ROWS: usize = 5000;
/// The most rows, from the front of the queue, that are read to count ready or dead messages by topic.
const SAMPLE_ROWS: usize = 20_000;
const NAMES_SHOWN: usize = 5;
const ERRORS_SHOWN: usize = 5;

#[derive(Serialize)]
pub(super) struct Snapshot {
    /// By the clock of the database.
    pub(super) at: String,
    #[serde(skip)]
    pub(super) now: Option<Timestamp>,
    pub(super) outbox: View,
    pub(super) inbox: View,
    /// The last failed attempts, newest first.
    pub(super) errors: Vec<Failed>,
}

#[derive(Serialize)]
pub(super) struct View {
    #[serde(flatten)]
    pub(super) counts: Counts,
    pub(super) in_per_second: f64,
    pub(super) out_per_second: f64,
    pub(super) most_waiting: Names,
    pub(super) most_dead: Names,
}

/// The most frequent names among the sampled rows.
#[derive(Serialize, Default)]
pub(super) struct Names {
    /// The number of sampled rows; there may be more.
    pub(super) of_rows: u64,
    pub(super) topics: Vec<Named>,
    /// Destinations in the outbox, sources in the inbox.
    pub(super) services: Vec<Named>,
}

#[derive(Serialize, Debug, PartialEq)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) count: u64,
}

#[derive(Serialize)]
pub(super) struct Failed {
    pub(super) queue: &'static str,
    pub(super) at: String,
    #[serde(skip)]
    pub(super) micros: i64,
    pub(super) topic: String,
    pub(super) attempt: u32,
    pub(super) error: String,
}

impl Snapshot {
    pub(super) async fn take(opened: &Opened) -> Result<Self> {
        let outbox = View::take(opened, Queue::Outbox).await?;
        let inbox = View::take(opened, Queue::Inbox).await?;
        let mut errors = last_errors(opened, Queue::Outbox).await?;
        errors.extend(last_errors(opened, Queue::Inbox).await?);
        errors.sort_by_key(|failed| std::cmp::Reverse(failed.micros));
        errors.truncate(ERRORS_SHOWN);
        let now = opened.store().clock().now();
        Ok(Self { at: now.to_string(), now: Some(now), outbox, inbox, errors })
    }
}

impl View {
    async fn take(opened: &Opened, queue: Queue) -> Result<Self> {
        let verbs = opened.queue(queue);
        let counts = Counts::from(&verbs.stats().await?);
        // The stats have just asked the server for its time.
        let now = opened.store().clock().now();
        let since = now.minus(WINDOW);
        let flow = verbs.flow(since, now, RATE_ROWS).await?;
        Ok(Self {
            counts,
            in_per_second: rate(flow.arrived, since, now),
            out_per_second: rate(flow.done, since, now),
            most_waiting: names(&verbs, State::Ready).await?,
            most_dead: names(&verbs, State::Dead).await?,
        })
    }
}

/// Returns the events per second since then. If there were more events than rows to read, it uses the time span of
/// those rows.
fn rate(passed: Passed, since: Timestamp, now: Timestamp) -> f64 {
    let is_all = passed.messages < RATE_ROWS as u64;
    let from = passed.first_at.filter(|_| !is_all).unwrap_or(since);
    per_second(passed.messages, from.as_micros(), now.as_micros())
}

fn per_second(count: u64, from: i64, to: i64) -> f64 {
    // The counts and the microseconds are far below what a float holds exactly.
    #[allow(clippy::cast_precision_loss)]
    let rate = count as f64 * 1e6 / (to - from).max(1) as f64;
    (rate * 10.0).round() / 10.0
}

async fn names(verbs: &WorkQueue, state: State) -> Result<Names> {
    let (mut of_rows, mut topics, mut services) = (0, Vec::new(), Vec::new());
    for tally in verbs.tally(state, SAMPLE_ROWS).await? {
        of_rows += tally.messages;
        add(&mut topics, tally.topic, tally.messages);
        add(&mut services, tally.party, tally.messages);
    }
    Ok(Names { of_rows, topics: most(topics), services: most(services) })
}

fn add(names: &mut Vec<Named>, name: Option<String>, count: u64) {
    let Some(name) = name else { return };
    match names.iter_mut().find(|known| known.name == name) {
        Some(known) => known.count += count,
        None => names.push(Named { name, count }),
    }
}

fn most(mut names: Vec<Named>) -> Vec<Named> {
    names.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    names.truncate(NAMES_SHOWN);
    names
}

async fn last_errors(opened: &Opened, queue: Queue) -> Result<Vec<Failed>> {
    let failures = opened.queue(queue).last_failures(ERRORS_SHOWN).await?;
    Ok(failures.into_iter().map(|failure| failed(queue, failure)).collect())
}

fn failed(queue: Queue, failure: LastFailure) -> Failed {
    Failed {
        queue: queue.as_str(),
        at: failure.at.to_string(),
        micros: failure.at.as_micros(),
        topic: failure.topic.unwrap_or_default(),
        attempt: failure.attempt,
        error: output::one_line(failure.error.as_deref().unwrap_or("no reason given")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_its_span() {
        assert!((per_second(50, 0, 10_000_000) - 5.0).abs() < f64::EPSILON);
        assert!((per_second(5000, 9_000_000, 10_000_000) - 5000.0).abs() < f64::EPSILON);
        assert!(per_second(0, 5, 5).abs() < f64::EPSILON);
    }

    #[test]
    fn the_most_frequent_come_first() {
        let mut names = Vec::new();
        for (name, count) in [("a", 1), ("b", 2), ("a", 3), ("c", 2)] {
            add(&mut names, Some(name.to_owned()), count);
        }
        let names: Vec<_> = most(names).into_iter().map(|named| (named.name, named.count)).collect();
        assert_eq!(names, [("a".to_owned(), 4), ("b".to_owned(), 2), ("c".to_owned(), 2)]);
    }
}

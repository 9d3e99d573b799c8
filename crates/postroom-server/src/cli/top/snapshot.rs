//! A snapshot of both queues. Every query reads a bounded number of rows, except that the counts by state walk an
//! index.

use anyhow::Result;
use postroom::{Queue, State, Timestamp};
use serde::Serialize;

use super::super::stats::Counts;
use crate::ask::Asker;
use crate::open::Opened;
use crate::output;

/// Rates cover this many seconds.
const WINDOW_SECONDS: i64 = 10;
/// A rate counts at most this many rows.
const RATE_ROWS: i64 = 5000;
/// At most this many rows at the front are sampled for the topics that are ready or dead.
const SAMPLE_ROWS: i64 = 20_000;
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
    pub(super) attempt: u64,
    pub(super) error: String,
}

impl Snapshot {
    pub(super) async fn take(opened: &Opened, asker: &mut Asker) -> Result<Self> {
        let outbox = View::take(opened, asker, Queue::Outbox).await?;
        let inbox = View::take(opened, asker, Queue::Inbox).await?;
        let mut errors = last_errors(asker, Queue::Outbox).await?;
        errors.extend(last_errors(asker, Queue::Inbox).await?);
        errors.sort_by_key(|failed| std::cmp::Reverse(failed.micros));
        errors.truncate(ERRORS_SHOWN);
        let now = opened.store().clock().now();
        Ok(Self { at: now.to_string(), now: Some(now), outbox, inbox, errors })
    }
}

impl View {
    async fn take(opened: &Opened, asker: &mut Asker, queue: Queue) -> Result<Self> {
        let counts = Counts::from(&opened.queue(queue).stats().await?);
        // The stats have just read the time of the server.
        let now = opened.store().clock().now().as_micros();
        let since = now - WINDOW_SECONDS * 1_000_000;
        let newest = format!("(SELECT created_at AS at FROM {{t}} ORDER BY seq DESC LIMIT {RATE_ROWS}) AS newest");
        let done = State::Done.code();
        let done = format!(
            "(SELECT processed_at AS at FROM {{t}} WHERE state = {done} AND processed_at >= {since}
              ORDER BY processed_at DESC LIMIT {RATE_ROWS}) AS done"
        );
        Ok(Self {
            counts,
            in_per_second: rate(asker, queue, &newest, since, now).await?,
            out_per_second: rate(asker, queue, &done, since, now).await?,
            most_waiting: names(asker, queue, State::Ready, "visible_at IS NOT NULL ORDER BY visible_at").await?,
            most_dead: names(asker, queue, State::Dead, "processed_at IS NOT NULL").await?,
        })
    }
}

/// Events per second since then. If not all were read, the rate covers the time span of those that were.
async fn rate(asker: &mut Asker, queue: Queue, events: &str, since: i64, now: i64) -> Result<f64> {
    let rest = format!("FROM {events} WHERE at >= {since} AND at <= {now}");
    let [count, first] = asker.numbers(queue, ["count(*)", "min(at)"], &rest).await?;
    let count = count.unwrap_or(0);
    Ok(per_second(count, if count < RATE_ROWS { since } else { first.unwrap_or(since) }, now))
}

fn per_second(count: i64, from: i64, to: i64) -> f64 {
    // Counts and spans of seconds in microseconds: both far below what a float holds exactly.
    #[allow(clippy::cast_precision_loss)]
    let rate = count as f64 * 1e6 / (to - from).max(1) as f64;
    (rate * 10.0).round() / 10.0
}

async fn names(asker: &mut Asker, queue: Queue, state: State, which: &str) -> Result<Names> {
    let front = format!(
        "(SELECT topic, {{party}} AS party FROM {{t}} WHERE state = {} AND {which} LIMIT {SAMPLE_ROWS}) AS front",
        state.code()
    );
    let rest = format!("FROM {front} GROUP BY topic, party");
    let (mut of_rows, mut topics, mut services) = (0, Vec::new(), Vec::new());
    for row in asker.rows(queue, &["topic", "party", "count(*)"], &rest, None).await? {
        let [topic, party, count] = <[Option<String>; 3]>::try_from(row).unwrap_or_default();
        let count: u64 = count.and_then(|count| count.parse().ok()).unwrap_or(0);
        of_rows += count;
        add(&mut topics, topic, count);
        add(&mut services, party, count);
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

async fn last_errors(asker: &mut Asker, queue: Queue) -> Result<Vec<Failed>> {
    let rest = format!(
        "FROM (SELECT {{no}} AS number, seq, at, attempt, error FROM {{t}}_failures ORDER BY {{no}} DESC
               LIMIT {ERRORS_SHOWN}) AS f LEFT JOIN {{t}} AS m ON m.seq = f.seq ORDER BY f.number DESC"
    );
    let rows = asker.rows(queue, &["f.at", "m.topic", "f.attempt", "f.error"], &rest, None).await?;
    Ok(rows.into_iter().map(|row| failed(queue, row)).collect())
}

fn failed(queue: Queue, row: crate::ask::Row) -> Failed {
    let [at, topic, attempt, error] = <[Option<String>; 4]>::try_from(row).unwrap_or_default();
    let micros = at.and_then(|at| at.parse().ok()).unwrap_or(0);
    Failed {
        queue: queue.as_str(),
        at: Timestamp::from_micros(micros).to_string(),
        micros,
        topic: topic.unwrap_or_default(),
        attempt: attempt.and_then(|attempt| attempt.parse().ok()).unwrap_or(0),
        error: output::one_line(error.as_deref().unwrap_or("no error was recorded")),
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

//! The data of the charts: the last ten minutes, as far as a page was open. Without one, nothing is queried.

use std::collections::VecDeque;
use std::time::Duration;

use postroom::operator::QueueStats;
use postroom::queue::{Queue, WorkQueue};
use postroom::telemetry::metric;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::meters::Took;
use super::overview::standing;
use crate::admin::Desk;

const KEPT: usize = 600;
/// The interval between samples, if the database is fast.
pub(super) const PACE: Duration = Duration::from_secs(1);
/// Queries take at most a twentieth of the time.
const REST: u32 = 20;
const PACE_MAX: Duration = Duration::from_secs(30);
/// After a longer pause, a rate would not describe the present.
const BREAK: Duration = Duration::from_secs(60);

/// Both queues at one time.
#[derive(Clone, Serialize, PartialEq, Debug)]
pub(super) struct Sample {
    /// Milliseconds since 1970.
    at: i64,
    pub(super) outbox: Flow,
    pub(super) inbox: Flow,
    destinations: Vec<Way>,
}

/// One queue at one time.
#[derive(Clone, Serialize, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct Flow {
    ready: u64,
    leased: u64,
    done: u64,
    dead: u64,
    expired: u64,
    dismissed: u64,
    oldest_seconds: Option<u64>,
    in_per_second: Option<f64>,
    out_per_second: Option<f64>,
    median_ms: Option<f64>,
    slow_ms: Option<f64>,
}

/// The state of a destination.
#[derive(Clone, Serialize, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
struct Way {
    name: String,
    class: &'static str,
    state: String,
    on_the_way: usize,
}

#[derive(Default)]
pub(super) struct Samples(Mutex<Ring>);

#[derive(Default)]
struct Ring {
    samples: VecDeque<Sample>,
    last: Option<Reading>,
    /// When the database last did not answer.
    failed_at: Option<Instant>,
    pace: Duration,
}

/// The counters at one time.
struct Reading {
    at: Instant,
    outbox: Counted,
    inbox: Counted,
}

struct Counted {
    stats: QueueStats,
    took: Took,
}

impl Samples {
    /// The history, oldest first.
    pub(super) async fn kept(&self) -> Vec<Sample> {
        self.0.lock().await.samples.iter().cloned().collect()
    }

    /// The newest sample, and when to ask for the next; `None` if the database does not answer. All watchers share one
    /// query, whether it succeeds or not.
    pub(super) async fn next(&self, desk: &Desk) -> Option<(Sample, Duration)> {
        let mut ring = self.0.lock().await;
        let now = Instant::now();
        // Watchers do not wake at exactly the same time, so allow a little early.
        let is_fresh = ring.last.as_ref().is_some_and(|last| now - last.at + PACE / 5 < ring.pace);
        if let Some(newest) = ring.samples.back().filter(|_| is_fresh) {
            return Some((newest.clone(), ring.pace));
        }
        if ring.failed_at.is_some_and(|failed_at| now - failed_at + PACE / 5 < PACE) {
            return None;
        }
        let reading = match Reading::take(desk).await {
            Ok(reading) => reading,
            Err(error) => {
                tracing::warn!(%error, "the database did not answer the admin page");
                ring.failed_at = Some(Instant::now());
                return None;
            }
        };
        let sample = reading.compared_with(ring.last.as_ref(), desk);
        ring.pace = (now.elapsed() * REST).clamp(PACE, PACE_MAX);
        ring.last = Some(reading);
        // Only the newest sample needs the destinations.
        if let Some(before) = ring.samples.back_mut() {
            before.destinations = Vec::new();
        }
        ring.samples.push_back(sample.clone());
        if ring.samples.len() > KEPT {
            ring.samples.pop_front();
        }
        Some((sample, ring.pace))
    }
}

impl Reading {
    async fn take(desk: &Desk) -> postroom::Result<Self> {
        let metrics = desk.0.metrics.render();
        let (outbox, inbox) = (desk.0.outbox.queue(), desk.0.inbox.queue());
        let (outbox, inbox) = tokio::try_join!(Counted::of(outbox, &metrics), Counted::of(inbox, &metrics))?;
        Ok(Self { at: Instant::now(), outbox, inbox })
    }

    fn compared_with(&self, before: Option<&Self>, desk: &Desk) -> Sample {
        let before = before.filter(|before| self.at - before.at < BREAK);
        let elapsed = before.map_or(0.0, |before| (self.at - before.at).as_secs_f64());
        let ways = desk.0.page.destinations().into_iter().map(|way| {
            let (class, state) = standing(desk.0.page.state_of(&way.name).as_ref());
            Way { name: way.name, class, state, on_the_way: way.on_the_way }
        });
        Sample {
            at: desk.0.page.clock().now().as_micros() / 1000,
            outbox: self.outbox.flow(before.map(|before| &before.outbox), elapsed),
            inbox: self.inbox.flow(before.map(|before| &before.inbox), elapsed),
            destinations: ways.collect(),
        }
    }
}

impl Counted {
    async fn of(queue: &WorkQueue, metrics: &str) -> postroom::Result<Self> {
        let name = match queue.kind() {
            Queue::Outbox => metric::OUTBOX_SEND_MS,
            Queue::Inbox => metric::INBOX_PROCESS_MS,
        };
        Ok(Self { stats: queue.stats().await?, took: Took::read(metrics, name) })
    }

    fn flow(&self, before: Option<&Self>, elapsed: f64) -> Flow {
        let QueueStats { ready, leased, done, dead, expired, dismissed, oldest_waiting, .. } = self.stats;
        // Deleted or requeued rows make a count smaller; then there is no rate.
        let rate = |count: fn(&QueueStats) -> u64| {
            let grown = count(&self.stats).checked_sub(count(&before?.stats))?;
            #[allow(clippy::cast_precision_loss, reason = "a chart needs no more than 52 bits")]
            Some(grown as f64 / elapsed.max(0.001))
        };
        let took = before.map(|before| self.took.since(&before.took));
        Flow {
            ready,
            leased,
            done,
            dead,
            expired,
            dismissed,
            oldest_seconds: oldest_waiting.map(|age| age.as_secs()),
            in_per_second: rate(QueueStats::total),
            out_per_second: rate(|stats| stats.done + stats.dead + stats.expired + stats.dismissed),
            median_ms: took.as_ref().and_then(|took| took.quantile(0.5)),
            slow_ms: took.as_ref().and_then(|took| took.quantile(0.95)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(ready: u64, done: u64) -> Counted {
        let mut stats = QueueStats::default();
        (stats.ready, stats.done) = (ready, done);
        Counted { stats, took: Took::default() }
    }

    #[test]
    fn rates_come_from_what_has_changed() {
        let flow = counted(5, 15).flow(Some(&counted(10, 0)), 2.0);
        assert_eq!((flow.in_per_second, flow.out_per_second), (Some(5.0), Some(7.5)));
        assert_eq!(counted(5, 5).flow(None, 0.0).in_per_second, None);
    }

    #[test]
    fn what_was_deleted_is_no_rate() {
        let flow = counted(10, 0).flow(Some(&counted(0, 100)), 1.0);
        assert_eq!((flow.in_per_second, flow.out_per_second), (None, None));
    }
}

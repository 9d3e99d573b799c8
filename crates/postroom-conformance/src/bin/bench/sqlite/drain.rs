//! (c) draining a backlog with a handler that does nothing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postroom::message::OwnerToken;
use postroom::sqlite::{Sqlite, SqliteOptions, SqliteStore};
use postroom::{Handlers, NewMessage, Outbox, Worker, WorkerOptions};
use rusqlite::Connection;
use tokio::sync::Notify;

use super::{open, raw};
use crate::measure::rate;
use crate::{PAYLOAD_BYTES, Report, Sizes};

pub(crate) const BATCH: usize = 500;
/// A batch whose claim and ack are counted in the log.
const LOGGED_BATCH: usize = 200;
const LOGGED_BATCHES: usize = 50;
const LOG_BYTES_MAX: f64 = 200.0;

/// How large the payloads are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload(usize);

impl Default for Payload {
    fn default() -> Self {
        Self(PAYLOAD_BYTES)
    }
}

impl Payload {
    fn text(self) -> String {
        "x".repeat(self.0)
    }
}

pub(crate) async fn run(dir: &Path, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let (tuned, small) = (WorkerOptions::default().batch(BATCH), Payload::default());
    let (mut ours, mut default, mut raws, mut fused) = (0f64, 0f64, 0f64, 0f64);
    for round in 0..3 {
        ours = ours.max(drain(dir, &format!("c{round}.db"), (sizes.messages, small), tuned.clone()).await?);
        let (as_is, name) = (WorkerOptions::default(), format!("c{round}-default.db"));
        default = default.max(drain(dir, &name, (sizes.messages, small), as_is).await?);
        raws = raws.max(drain_raw(dir, &format!("c{round}-raw.db"), (sizes.messages, small), Acks::Alone).await?);
        let name = format!("c{round}-fused.db");
        fused = fused.max(drain_raw(dir, &name, (sizes.messages, small), Acks::WithNextClaim).await?);
    }
    report.rate("c: drain, batch 500", "messages/s", ours, raws);
    report.rate("c: drain, batch 500, raw acks share the next claim's commit", "messages/s", ours, fused);
    report.rate("c: drain, default settings", "messages/s", default, raws);
    report.rate("c: drain, default against batch 500", "messages/s", default, ours);
    for (name, bytes, part) in [("4 kB", 4 << 10, 4), ("100 kB", 100 << 10, 40)] {
        let (size, tuned) = ((sizes.messages / part, Payload(bytes)), tuned.clone());
        let ours = drain(dir, &format!("c-{bytes}.db"), size, tuned).await?;
        let raws = drain_raw(dir, &format!("c-{bytes}-raw.db"), size, Acks::Alone).await?;
        report.rate(&format!("c: drain, batch 500, payloads of {name}"), "messages/s", ours, raws);
    }
    let logged = logged(dir).await?;
    report.cost("c: log, claim and ack of 200, against 200 bytes", "bytes/message", logged, LOG_BYTES_MAX);
    Ok(())
}

async fn drain(
    dir: &Path,
    name: &str,
    (messages, payload): (usize, Payload),
    options: WorkerOptions,
) -> anyhow::Result<f64> {
    let store = open(dir, name).await?;
    fill(&store, messages, payload).await?;
    rate(messages, drain_store(store, messages, options)).await
}

pub(crate) async fn fill(store: &SqliteStore, messages: usize, payload: Payload) -> anyhow::Result<()> {
    let outbox = Outbox::new(store.clone());
    let mut left = messages;
    while left > 0 {
        let step = left.min((64 << 20) / payload.0).min(50_000);
        outbox.enqueue_many((0..step).map(|_| NewMessage::new("bench", payload.text()))).await?;
        left -= step;
    }
    Ok(())
}

pub(crate) fn fill_raw(conn: &Connection, messages: usize, payload: Payload) -> rusqlite::Result<()> {
    let text = payload.text();
    conn.execute_batch("BEGIN IMMEDIATE")?;
    (0..messages).try_for_each(|_| raw::insert(conn, uuid::Uuid::now_v7(), &text))?;
    conn.execute_batch("COMMIT")
}

/// Runs a worker until this many messages were handled and acknowledged.
pub(crate) async fn drain_store(store: SqliteStore, messages: usize, options: WorkerOptions) -> anyhow::Result<()> {
    let (left, all_done) = (Arc::new(AtomicUsize::new(messages)), Arc::new(Notify::new()));
    let done = all_done.clone();
    let handlers = Handlers::new().on_topic_blocking("bench", move |_| {
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            done.notify_one();
        }
        Ok(None)
    });
    work_off(store, handlers, options, all_done, messages).await
}

/// Runs a worker until its handlers say that all is done.
pub(crate) async fn work_off(
    store: SqliteStore,
    handlers: Handlers<Sqlite>,
    options: WorkerOptions,
    all_done: Arc<Notify>,
    messages: usize,
) -> anyhow::Result<()> {
    // The worker drains before it returns, so the last acks are in the time.
    Worker::outbox(store.clone(), handlers).options(options).run(all_done.notified()).await?;
    let stats = Outbox::new(store).queue().stats().await?;
    anyhow::ensure!(stats.done == messages as u64, "not everything was drained: {stats:?}");
    Ok(())
}

/// Returns how many bytes a message adds to the log while it is claimed and acknowledged.
async fn logged(dir: &Path) -> anyhow::Result<f64> {
    let (name, messages) = ("c-log.db", LOGGED_BATCH * LOGGED_BATCHES);
    let store = open(dir, name).await?;
    fill(&store, messages, Payload::default()).await?;
    // Closing empties the log.
    store.close().await;
    let store = SqliteOptions::new(dir.join(name)).open().await?;
    let (queue, owner) = (Outbox::new(store).queue().clone(), OwnerToken::new());
    for _ in 0..LOGGED_BATCHES {
        let claims = queue.claim(owner, Duration::from_secs(30), LOGGED_BATCH).await?;
        anyhow::ensure!(claims.claimed.len() == LOGGED_BATCH, "a claim found {}", claims.claimed.len());
        let settled = queue.ack(claims.claimed.into_iter().map(|claimed| claimed.lease)).await?;
        anyhow::ensure!(settled.lost == 0, "{} leases were lost", settled.lost);
    }
    let log = std::fs::metadata(dir.join(format!("{name}-wal")))?.len();
    #[allow(clippy::cast_precision_loss, reason = "a size of a small file")]
    let per_message = log as f64 / messages as f64;
    Ok(per_message)
}

/// Which commit the baseline's acks are in.
#[derive(Clone, Copy, PartialEq)]
enum Acks {
    /// Their own: a worker's plain loop of claim, handle, acknowledge.
    Alone,
    /// The next claim's: the fewest fsyncs one connection can do with.
    WithNextClaim,
}

async fn drain_raw(dir: &Path, name: &str, (messages, payload): (usize, Payload), acks: Acks) -> anyhow::Result<f64> {
    let conn = raw::open(dir, name)?;
    fill_raw(&conn, messages, payload)?;
    let mut handled = 0;
    let rate = rate(messages, async {
        let mut claimed = Vec::new();
        loop {
            conn.execute_batch("BEGIN IMMEDIATE")?;
            for (seq, _, _) in &claimed {
                raw::ack(&conn, *seq)?;
            }
            handled += claimed.len();
            if acks == Acks::Alone && !claimed.is_empty() {
                conn.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
            }
            claimed = raw::claim(&conn, BATCH)?;
            conn.execute_batch("COMMIT")?;
            if claimed.is_empty() {
                return Ok(());
            }
        }
    })
    .await?;
    anyhow::ensure!(handled == messages, "the baseline drained {handled} of {messages}");
    Ok(rate)
}

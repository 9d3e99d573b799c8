//! (c) draining a backlog with a handler that does nothing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postroom::sqlite::SqliteStore;
use postroom::{Handlers, NewMessage, Outbox, Worker, WorkerOptions};
use tokio::sync::Notify;

use super::{open, raw};
use crate::measure::rate;
use crate::{Report, Sizes, payload};

const BATCH: usize = 500;

pub(crate) async fn run(dir: &Path, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let tuned = WorkerOptions::default().batch(BATCH);
    let (mut ours, mut default, mut raws, mut fused) = (0f64, 0f64, 0f64, 0f64);
    for round in 0..3 {
        ours = ours.max(drain(dir, &format!("c{round}.db"), sizes.messages, tuned.clone()).await?);
        let as_is = WorkerOptions::default();
        default = default.max(drain(dir, &format!("c{round}-default.db"), sizes.messages, as_is).await?);
        raws = raws.max(drain_raw(dir, &format!("c{round}-raw.db"), sizes.messages, Acks::Alone).await?);
        fused = fused.max(drain_raw(dir, &format!("c{round}-fused.db"), sizes.messages, Acks::WithNextClaim).await?);
    }
    report.rate("c: drain, batch 500", "messages/s", ours, raws);
    report.rate("c: drain, batch 500, raw acks share the next claim's commit", "messages/s", ours, fused);
    report.rate("c: drain, default settings", "messages/s", default, raws);
    report.rate("c: drain, default against batch 500", "messages/s", default, ours);
    Ok(())
}

async fn drain(dir: &Path, name: &str, messages: usize, options: WorkerOptions) -> anyhow::Result<f64> {
    let store = open(dir, name).await?;
    fill(&store, messages).await?;
    rate(messages, drain_store(store, messages, options)).await
}

pub(crate) async fn fill(store: &SqliteStore, messages: usize) -> anyhow::Result<()> {
    let outbox = Outbox::new(store.clone());
    let mut left = messages;
    while left > 0 {
        let step = left.min(50_000);
        outbox.enqueue_many((0..step).map(|_| NewMessage::new("bench", payload()))).await?;
        left -= step;
    }
    Ok(())
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
    // The worker drains before it returns, so the last acks are in the time.
    Worker::outbox(store.clone(), handlers).options(options).run(all_done.notified()).await?;
    let stats = Outbox::new(store).queue().stats().await?;
    anyhow::ensure!(stats.done == messages as u64, "not everything was drained: {stats:?}");
    Ok(())
}

/// Which commit the baseline's acks are in.
#[derive(Clone, Copy, PartialEq)]
enum Acks {
    /// Their own: a worker's plain loop of claim, handle, acknowledge.
    Alone,
    /// The next claim's: the fewest fsyncs one connection can do with.
    WithNextClaim,
}

async fn drain_raw(dir: &Path, name: &str, messages: usize, acks: Acks) -> anyhow::Result<f64> {
    let conn = raw::open(dir, name)?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    for _ in 0..messages {
        raw::insert(&conn, uuid::Uuid::now_v7(), &payload())?;
    }
    conn.execute_batch("COMMIT")?;
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

//! (d) from the enqueue's return to the handler's start, on an idle store.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use postroom::{Handlers, NewMessage, Outbox, Worker};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::raw;
use crate::{Report, Sizes, open, payload};

pub(crate) async fn run(dir: &Path, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let raws = raw_wakeup(dir, sizes.rounds)?;
    let standalone = ours(dir, "d.db", sizes.rounds, Way::Standalone).await?;
    let in_tx = ours(dir, "d-tx.db", sizes.rounds, Way::CallersTransaction).await?;
    for (name, percent) in [("p50", 50), ("p99", 99)] {
        let baseline = percentile(&raws, percent);
        report.cost(
            &format!("d: wake-up, standalone enqueue, {name}"),
            "µs",
            percentile(&standalone, percent),
            baseline,
        );
        report.cost(&format!("d: wake-up, caller's transaction, {name}"), "µs", percentile(&in_tx, percent), baseline);
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Way {
    Standalone,
    CallersTransaction,
}

/// Pauses between two messages, so that everybody has gone to sleep.
const QUIET: Duration = Duration::from_millis(3);

async fn ours(dir: &Path, name: &str, rounds: usize, way: Way) -> anyhow::Result<Vec<f64>> {
    let store = open(dir, name).await?;
    let outbox = Outbox::new(store.clone());
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let handlers = Handlers::new().on_topic_blocking("bench", move |_| {
        let _ = started.send(Instant::now());
        Ok(None)
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = Worker::outbox(store, handlers);
    let mut workers = tokio::task::JoinSet::new();
    workers.spawn(worker.run(async { drop(stopped.await) }));
    let mut conn = Connection::open(dir.join(name))?;
    conn.execute_batch("PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000")?;
    let mut latencies = Vec::new();
    for _ in 0..rounds {
        tokio::time::sleep_until(tokio::time::Instant::now() + QUIET).await;
        let message = NewMessage::new("bench", payload());
        match way {
            Way::Standalone => drop(outbox.enqueue(message).await?),
            Way::CallersTransaction => {
                let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
                let _wakes_workers = outbox.enqueue_in(&*tx, &message)?;
                tx.commit()?;
            }
        }
        let returned = Instant::now();
        let start = tokio::time::timeout(Duration::from_secs(10), starts.recv()).await?;
        let start = start.ok_or_else(|| anyhow::anyhow!("the worker is gone"))?;
        latencies.push(start.saturating_duration_since(returned).as_secs_f64() * 1e6);
    }
    let _ = stop.send(());
    workers.join_next().await.transpose()?.transpose()?;
    Ok(latencies)
}

/// A signal to a thread that then claims, durably.
fn raw_wakeup(dir: &Path, rounds: usize) -> anyhow::Result<Vec<f64>> {
    let producer = raw::open(dir, "d-raw.db")?;
    let worker = Connection::open(dir.join("d-raw.db"))?;
    worker.execute_batch("PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000")?;
    let (signal, signals) = mpsc::channel::<()>();
    let (started, starts) = mpsc::channel();
    std::thread::spawn(move || {
        while signals.recv().is_ok() {
            let claimed = claim_and_ack(&worker, &started);
            if let Err(error) = claimed {
                eprintln!("the raw worker failed: {error}");
            }
        }
    });
    let mut latencies = Vec::new();
    for _ in 0..rounds {
        std::thread::sleep(QUIET); // tidy: time itself is measured, on an idle store
        producer.execute_batch("BEGIN IMMEDIATE")?;
        raw::insert(&producer, uuid::Uuid::now_v7(), &payload())?;
        producer.execute_batch("COMMIT")?;
        let returned = Instant::now();
        signal.send(())?;
        let start = starts.recv_timeout(Duration::from_secs(10))?;
        latencies.push(start.saturating_duration_since(returned).as_secs_f64() * 1e6);
    }
    Ok(latencies)
}

fn claim_and_ack(conn: &Connection, started: &mpsc::Sender<Instant>) -> anyhow::Result<()> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let claimed = raw::claim(conn, 50)?;
    conn.execute_batch("COMMIT")?;
    started.send(Instant::now())?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    claimed.iter().try_for_each(|(seq, _, _)| raw::ack(conn, *seq))?;
    conn.execute_batch("COMMIT")?;
    Ok(())
}

fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

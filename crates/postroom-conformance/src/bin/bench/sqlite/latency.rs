//! (d) from the enqueue's return to the handler's start, on an idle store.

use std::path::Path;
use std::sync::mpsc;
use std::time::Instant;

use postroom::{Handlers, NewMessage, Outbox, Worker};
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::{open, raw};
use crate::measure::{PATIENCE, percentile, quiet};
use crate::{Report, Sizes, payload};

pub(crate) async fn run(dir: &Path, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let mut ours = Ours::start(dir, "d.db").await?;
    let mut raw = Raw::start(dir)?;
    let (mut standalone, mut in_tx, mut raws) = (Vec::new(), Vec::new(), Vec::new());
    // In turns, so that whatever else the machine does disturbs all three alike.
    for _ in 0..sizes.rounds {
        raws.push(raw.once().await?);
        standalone.push(ours.standalone().await?);
        in_tx.push(ours.in_callers_transaction().await?);
    }
    ours.stop().await?;
    for (name, percent) in [("p50", 50), ("p99", 99)] {
        let baseline = percentile(&raws, percent);
        let case = format!("d: wake-up, standalone enqueue, {name}");
        report.cost(&case, "µs", percentile(&standalone, percent), baseline);
        let case = format!("d: wake-up, caller's transaction, {name}");
        report.cost(&case, "µs", percentile(&in_tx, percent), baseline);
    }
    Ok(())
}

/// A worker on an idle store.
struct Ours {
    outbox: Outbox,
    conn: Connection,
    starts: UnboundedReceiver<Instant>,
    stop: oneshot::Sender<()>,
    worker: JoinSet<postroom::Result<()>>,
}

impl Ours {
    async fn start(dir: &Path, name: &str) -> anyhow::Result<Self> {
        let store = open(dir, name).await?;
        let (started, starts) = unbounded_channel();
        let handlers = Handlers::new().on_topic_blocking("bench", move |_| {
            let _ = started.send(Instant::now());
            Ok(None)
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let mut worker = JoinSet::new();
        worker.spawn(Worker::outbox(store.clone(), handlers).run(async { drop(stopped.await) }));
        let conn = Connection::open(dir.join(name))?;
        conn.execute_batch("PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000")?;
        Ok(Self { outbox: Outbox::new(store), conn, starts, stop, worker })
    }

    async fn standalone(&mut self) -> anyhow::Result<f64> {
        quiet().await;
        self.outbox.enqueue(NewMessage::new("bench", payload())).await?;
        self.started_after(Instant::now()).await
    }

    async fn in_callers_transaction(&mut self) -> anyhow::Result<f64> {
        quiet().await;
        let message = NewMessage::new("bench", payload());
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let wakes_workers = self.outbox.enqueue_in_blocking(&tx, &message)?;
        tx.commit()?;
        drop(wakes_workers);
        self.started_after(Instant::now()).await
    }

    async fn started_after(&mut self, returned: Instant) -> anyhow::Result<f64> {
        let start = tokio::time::timeout(PATIENCE, self.starts.recv()).await?;
        let start = start.ok_or_else(|| anyhow::anyhow!("the worker is gone"))?;
        Ok(start.saturating_duration_since(returned).as_secs_f64() * 1e6)
    }

    async fn stop(mut self) -> anyhow::Result<()> {
        let _ = self.stop.send(());
        self.worker.join_next().await.transpose()?.transpose()?;
        Ok(())
    }
}

/// A signal to a thread that then claims, durably.
struct Raw {
    producer: Connection,
    signal: mpsc::Sender<()>,
    starts: UnboundedReceiver<Instant>,
}

impl Raw {
    fn start(dir: &Path) -> anyhow::Result<Self> {
        let producer = raw::open(dir, "d-raw.db")?;
        let worker = Connection::open(dir.join("d-raw.db"))?;
        worker.execute_batch("PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000")?;
        let (signal, signals) = mpsc::channel::<()>();
        let (started, starts) = unbounded_channel();
        std::thread::spawn(move || {
            while signals.recv().is_ok() {
                let start = || {
                    let _ = started.send(Instant::now());
                };
                if let Err(error) = claim_and_ack(&worker, start) {
                    eprintln!("the raw worker failed: {error}");
                }
            }
        });
        Ok(Self { producer, signal, starts })
    }

    async fn once(&mut self) -> anyhow::Result<f64> {
        quiet().await;
        self.producer.execute_batch("BEGIN IMMEDIATE")?;
        raw::insert(&self.producer, uuid::Uuid::now_v7(), &payload())?;
        self.producer.execute_batch("COMMIT")?;
        let returned = Instant::now();
        self.signal.send(())?;
        let start = tokio::time::timeout(PATIENCE, self.starts.recv()).await?;
        let start = start.ok_or_else(|| anyhow::anyhow!("the raw worker is gone"))?;
        Ok(start.saturating_duration_since(returned).as_secs_f64() * 1e6)
    }
}

fn claim_and_ack(conn: &Connection, start: impl FnOnce()) -> rusqlite::Result<()> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let claimed = raw::claim(conn, 50)?;
    conn.execute_batch("COMMIT")?;
    start();
    conn.execute_batch("BEGIN IMMEDIATE")?;
    claimed.iter().try_for_each(|(seq, _, _)| raw::ack(conn, *seq))?;
    conn.execute_batch("COMMIT")
}

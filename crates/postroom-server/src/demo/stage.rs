//! Starts the processes, kills the worker, and waits until the queue is empty.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use postroom::Outbox;
use postroom::sqlite::SqliteStore;
use tokio::time::Instant;

use super::TABLES;
use super::child::Process;
use super::ledger::Ledger;
use super::progress::Progress;
use crate::open;
use crate::problem::Problem;
use crate::up::signals::Signals;

const TICK: Duration = Duration::from_millis(100);
/// How long a kill waits for a moment when the worker has messages in progress.
const AIM_TIME: Duration = Duration::from_millis(300);
/// How long the rest of the messages may take after the last order.
const REST_TIME: Duration = Duration::from_secs(60);

/// The settings of the demo.
pub(crate) struct Plan {
    pub(crate) orders: u64,
    pub(crate) kills: u64,
    pub(crate) time: Duration,
}

struct Stage {
    plan: Plan,
    db: PathBuf,
    store: SqliteStore,
    started: Instant,
    kills: u64,
    producing: bool,
}

/// Runs the demo in a temporary folder.
pub(crate) async fn run(plan: Plan) -> Result<Ledger> {
    let folder =
        tempfile::Builder::new().prefix("postroom-demo-").tempdir().context("cannot create a temporary folder")?;
    let db = folder.path().join("shop.db");
    let store = open::file_or_create(&db).await?;
    store.write(|tx| Ok(tx.execute_batch(TABLES)?)).await?;
    let mut signals = Signals::new()?;
    let mut stage = Stage { plan, db, store, started: Instant::now(), kills: 0, producing: true };
    tokio::select! {
        ledger = Box::pin(stage.play()) => ledger,
        name = signals.next() => bail!(Problem::new(format!("{name}: the demo was stopped"), "run it again")),
    }
}

impl Stage {
    async fn play(&mut self) -> Result<Ledger> {
        let mut progress = Progress::new(self.plan.orders)?;
        let mut producer = Process::start(&self.db, &self.producer_arguments())?;
        let mut worker = start_worker(&self.db).await?;
        let mut tick = tokio::time::interval(TICK);
        let mut kill_at = self.next_kill();
        let deadline = self.started + self.plan.time + REST_TIME;
        loop {
            tokio::select! {
                status = producer.wait(), if self.producing => {
                    self.producing = false;
                    if !status?.success() {
                        bail!("the process that places the orders failed");
                    }
                }
                () = tokio::time::sleep_until(kill_at), if self.kills < self.plan.kills => {
                    self.wait_until_busy().await?;
                    worker.kill().await?;
                    self.kills += 1;
                    worker = start_worker(&self.db).await?;
                    kill_at = self.next_kill();
                }
                _ = tick.tick() => {
                    if worker.has_ended()? {
                        bail!("the worker exited unexpectedly");
                    }
                    let ledger = self.ledger().await?;
                    progress.show(ledger.handled, self.kills);
                    let is_over = !self.producing && self.kills == self.plan.kills && ledger.left == 0;
                    if is_over || Instant::now() > deadline {
                        break;
                    }
                }
            }
        }
        worker.drain().await?;
        progress.end();
        self.ledger().await
    }

    async fn ledger(&self) -> Result<Ledger> {
        Ledger::read(&self.store, self.kills, self.started.elapsed()).await
    }

    fn producer_arguments(&self) -> Vec<String> {
        let (orders, millis) = (self.plan.orders, self.plan.time.as_millis());
        vec!["demo-producer".into(), "--orders".into(), orders.to_string(), "--over".into(), format!("{millis}ms")]
    }

    /// A random time in the next slice, so that kills hit every stage of the worker's cycle.
    fn next_kill(&self) -> Instant {
        let slice = self.plan.time / u32::try_from(self.plan.kills.max(1)).unwrap_or(u32::MAX);
        let slices = u32::try_from(self.kills).unwrap_or(u32::MAX);
        self.started + slice.saturating_mul(slices) + slice.mul_f64(fastrand::f64())
    }

    /// Killing an idle worker proves nothing, so this waits until it has messages in progress.
    async fn wait_until_busy(&self) -> Result<()> {
        let until = Instant::now() + AIM_TIME;
        let outbox = Outbox::new(self.store.clone());
        loop {
            if outbox.queue().stats().await?.leased > 0 || Instant::now() > until {
                return Ok(());
            }
        }
    }
}

async fn start_worker(db: &Path) -> Result<Process> {
    Process::start(db, &["demo-worker".into()])?.ready().await
}

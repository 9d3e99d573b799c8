//! PostgreSQL and MariaDB beside plain SQL through the same driver, on a throw-away server whose commits wait for the
//! disk.

mod claim;
mod drain;
mod enqueue;
mod handlers;
mod latency;
mod log;
mod mariadb;
mod postgres;
mod snapshot;
pub(crate) mod tenants;

use std::future::Future;
use std::sync::Arc;

use postroom::handler::Backend;
use postroom::{Ctx, HandlerError, NewMessage, Outbox};
use postroom_testbed::{Engine, Mode, Server};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::{Report, Sizes};

/// How much is enqueued at once.
const STEP_BYTES: usize = 8 << 20;

/// A database to measure on.
pub(crate) trait Bed: Backend {
    const NAME: &'static str;
    const ENGINE: Engine;
    /// Plain SQL through the same driver.
    type Raw: Raw;

    /// An empty store, apart from the others on the server.
    fn open(url: &str, name: &str) -> impl Future<Output = anyhow::Result<Self::Store>> + Send;

    /// Writes out what earlier cases left behind, so that it does not disturb the next.
    fn calm_down(url: &str) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// What a handler writes, in its transaction.
    fn effect(ctx: &mut Ctx<Self>) -> impl Future<Output = Result<(), HandlerError>> + Send;

    /// Makes every row of that store's outbox done, and tidies up behind it.
    fn finish_all(url: &str, name: &str) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The baseline: the best plain SQL for the job on a minimal table, each statement in its own commit.
pub(crate) trait Raw: Sized + Send + 'static {
    const STATEMENTS: &'static [&'static str];
    /// Whether the database has a way to tell other processes.
    const TELLS_OTHERS: bool;
    type News: Send + 'static;

    fn connect(url: &str) -> impl Future<Output = anyhow::Result<Self>> + Send;
    fn empty_table(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;
    fn insert(&mut self, id: Uuid, payload: &str) -> impl Future<Output = anyhow::Result<()>> + Send;
    /// Inserts, and tells a worker: in the same transaction where the database has a way, else by the signal.
    fn insert_and_tell(
        &mut self,
        id: Uuid,
        payload: &str,
        signal: &Notify,
    ) -> impl Future<Output = anyhow::Result<()>> + Send;
    /// Where a worker hears of it.
    fn news(url: &str, signal: Arc<Notify>) -> impl Future<Output = anyhow::Result<Self::News>> + Send;
    fn next(news: &mut Self::News) -> impl Future<Output = anyhow::Result<()>> + Send;
    fn insert_many(&mut self, rows: Vec<(Uuid, String)>) -> impl Future<Output = anyhow::Result<()>> + Send;
    /// Claims up to `batch` rows and reads what a handler would need.
    fn claim(&mut self, batch: i64) -> impl Future<Output = anyhow::Result<Vec<(i64, String)>>> + Send;
    fn ack(&mut self, rows: &[(i64, String)]) -> impl Future<Output = anyhow::Result<()>> + Send;
    /// Begins a transaction that sees everything as it is now, and keeps it open.
    fn hold_snapshot(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;
    /// How many bytes the server has written to its log.
    fn log_position(&mut self) -> impl Future<Output = anyhow::Result<i64>> + Send;
    /// An empty table for what handlers write.
    fn empty_effects(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;
    /// Handles one message: its effect and its ack in one transaction.
    fn handle(&mut self, seq: i64) -> impl Future<Output = anyhow::Result<()>> + Send;
}

pub(crate) async fn run<B: Bed>(
    sizes: Sizes,
    wants: &impl Fn(&str) -> bool,
    report: &mut Report,
) -> anyhow::Result<()> {
    report.backend = B::NAME;
    let server = Server::start(B::ENGINE, Mode::Durable)?;
    let url = server.url();
    println!("The baseline on {} is sqlx with these statements, all prepared once:\n", B::NAME);
    B::Raw::STATEMENTS.iter().for_each(|text| println!("{text}\n"));
    if wants("a") {
        enqueue::producers::<B>(&url, sizes, report).await?;
    }
    if wants("b") {
        enqueue::batch::<B>(&url, sizes, report).await?;
    }
    if wants("c") {
        drain::run::<B>(&url, sizes, report).await?;
    }
    if wants("d") {
        latency::run::<B>(&url, sizes, report).await?;
    }
    if wants("e") {
        claim::run::<B>(&url, sizes, report).await?;
    }
    if wants("h") {
        handlers::run::<B>(&url, sizes, report).await?;
    }
    if wants("n") {
        crate::beside::run::<B>(async |name: &str| B::open(&url, name).await, sizes, report).await?;
    }
    if wants("l") {
        let amounts = crate::lanes::Amounts { lanes: sizes.messages, deep: sizes.messages / 10 };
        crate::lanes::run::<B>(async |name: &str| B::open(&url, name).await, amounts, sizes, report).await?;
    }
    if wants("g") {
        log::run::<B>(&url, report).await?;
    }
    if wants("f") {
        snapshot::run::<B>(&url, sizes, report).await?;
    }
    if wants("t") && B::ENGINE == Engine::Postgres {
        let pid = server.pid().map(|pid| pid.as_raw_nonzero().get()).unwrap_or_default();
        let mut databases = tenants::Databases { url: url.clone(), server: pid };
        crate::tenants::run(&mut databases, sizes.idle_databases, sizes, report)?;
    }
    Ok(())
}

/// Enqueues messages with payloads of that size.
async fn fill<B: Bed>(store: &B::Store, messages: usize, bytes: usize) -> anyhow::Result<()> {
    let (outbox, payload) = (Outbox::new(store.clone()), "x".repeat(bytes));
    let (mut left, most) = (messages, (STEP_BYTES / bytes).clamp(1, 20_000));
    while left > 0 {
        let step = left.min(most);
        outbox.enqueue_many((0..step).map(|_| NewMessage::new("bench", payload.as_str()))).await?;
        left -= step;
    }
    Ok(())
}

fn raw_rows(rows: usize, bytes: usize) -> Vec<(Uuid, String)> {
    (0..rows).map(|_| (Uuid::now_v7(), "x".repeat(bytes))).collect()
}

//! (q) new work right after a worker was killed with two hundred messages in progress, against a queue without them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom::sqlite::Sqlite;
use postroom::{Ctx, HandlerResult, Handlers, Message, NewMessage, Outbox, Worker, WorkerOptions};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::open;
use crate::services::Other;
use crate::{Report, Sizes, payload};

/// How many messages are in progress when the worker is killed.
const IN_HAND: usize = 200;
/// How many messages are enqueued afterwards.
const NEW: usize = 160;
const TAKES: Duration = Duration::from_millis(100);
const LEASE: Duration = Duration::from_secs(1);
const FILE: &str = "q.db";

async fn work(ctx: &mut Ctx<Sqlite>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    tokio::time::sleep(TAKES).await; // tidy: time itself: a slow place, a lease
    if message.topic == "new" {
        let _ = ctx.state::<UnboundedSender<()>>()?.send(());
    }
    Ok(None)
}

async fn never(ctx: &mut Ctx<Sqlite>, _: Arc<Message>) -> HandlerResult<Option<String>> {
    let _ = ctx.state::<UnboundedSender<()>>()?.send(());
    std::future::pending().await
}

/// The other process: it holds its messages until it is killed.
pub(crate) async fn hold(dir: &Path) -> anyhow::Result<()> {
    let store = open(dir, FILE).await?;
    let (begun, mut beginning) = unbounded_channel::<()>();
    let handlers = Handlers::new().state(begun).on_topic("old", never);
    let options = WorkerOptions::default().batch(IN_HAND).concurrency(IN_HAND).lease(LEASE);
    let mut worker = JoinSet::new();
    worker.spawn(Worker::<Sqlite>::outbox(store, handlers).options(options).run(std::future::pending()));
    for _ in 0..IN_HAND {
        beginning.recv().await;
    }
    println!("{IN_HAND}");
    std::future::pending().await
}

pub(crate) async fn run(dir: &Path, _: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let crashed = open(dir, FILE).await?;
    let outbox = Outbox::new(crashed.clone());
    outbox.enqueue_many((0..IN_HAND).map(|_| NewMessage::new("old", payload()))).await?;
    let other = Other::start("hold", Some(dir))?;
    anyhow::ensure!(usize::from(other.port) == IN_HAND, "it holds {} messages", other.port);
    // Killed, not asked to end.
    drop(other);
    // Leases run out, and what they were on may be tried again two seconds later.
    tokio::time::sleep(LEASE + Duration::from_secs(3)).await; // tidy: time itself: a slow place, a lease
    let with = drained(crashed).await?;
    let without = drained(open(dir, "q_alone.db").await?).await?;
    let stats = outbox.queue().stats().await?;
    anyhow::ensure!(stats.dead == 0, "{} messages are dead", stats.dead);
    report.cost("q: 160 new messages of 100 ms after a crash with 200 in hand", "ms", with, without);
    Ok(())
}

/// How long new work takes, from its enqueue to the last of it.
async fn drained(store: postroom::sqlite::SqliteStore) -> anyhow::Result<f64> {
    let (done, mut doing) = unbounded_channel::<()>();
    let handlers = Handlers::new().state(done).on_topic("new", work).on_topic("old", work);
    let (stop, stopped) = oneshot::channel::<()>();
    let mut worker = JoinSet::new();
    worker.spawn(Worker::<Sqlite>::outbox(store.clone(), handlers).run(async { drop(stopped.await) }));
    let enqueued = Instant::now();
    Outbox::new(store).enqueue_many((0..NEW).map(|_| NewMessage::new("new", payload()))).await?;
    for _ in 0..NEW {
        tokio::time::timeout(Duration::from_secs(60), doing.recv()).await?;
    }
    let took = enqueued.elapsed().as_secs_f64() * 1e3;
    drop(stop);
    while let Some(ended) = worker.join_next().await {
        ended??;
    }
    Ok(took)
}

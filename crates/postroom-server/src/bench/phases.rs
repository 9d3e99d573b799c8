//! The phases of the benchmark.

#![allow(clippy::disallowed_methods, reason = "durations are measured with the real clock")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use postroom::handler::Backend;
use postroom::{Ctx, HandlerError, Handlers, Message, NewMessage, Outbox, Worker, WorkerOptions};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::tally::Measured;

/// The settings of the benchmark.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// How long each phase may take.
    pub(crate) part: Duration,
    pub(crate) callers: usize,
    pub(crate) payload: usize,
}

const TOPIC: &str = "postroom.bench";

/// Runs the phases: one caller, many callers, a worker that handles the backlog, and end-to-end latency.
pub(crate) async fn measure<B: Backend>(store: B::Store, plan: Plan, told: impl Fn(&str)) -> Result<Vec<Measured>> {
    let outbox = Outbox::new(store.clone());
    told("enqueueing with one caller");
    let alone = enqueue(&outbox, plan, 1).await?;
    told("enqueueing with many callers");
    let together = enqueue(&outbox, plan, plan.callers).await?;
    told("handling the backlog");
    let drained = drain::<B>(store.clone(), plan, alone.messages + together.messages).await?;
    told("measuring end-to-end latency");
    let through = pass_through::<B>(store, &outbox, plan).await?;
    Ok(vec![alone, together, drained, through])
}

fn message(plan: Plan) -> NewMessage {
    NewMessage::new(TOPIC, format!("\"{}\"", "x".repeat(plan.payload.saturating_sub(2))))
}

/// Each caller waits until its message is stored before it sends the next.
async fn enqueue(outbox: &Outbox, plan: Plan, callers: usize) -> Result<Measured> {
    let (begin, mut running) = (Instant::now(), JoinSet::new());
    for _ in 0..callers {
        let outbox = outbox.clone();
        running.spawn(async move {
            let mut took = Vec::new();
            while begin.elapsed() < plan.part {
                let asked = Instant::now();
                outbox.enqueue(message(plan)).await?;
                took.push(asked.elapsed());
            }
            Ok::<_, postroom::Error>(took)
        });
    }
    let mut all = Vec::new();
    while let Some(ended) = running.join_next().await {
        all.extend(ended??);
    }
    let what = if callers == 1 { "enqueue, one caller".into() } else { format!("enqueue, {callers} callers") };
    Ok(Measured::new(what, all.len() as u64).over(begin.elapsed()).each(all))
}

/// A database that is busy with something else gets this much time at least.
const PATIENCE: Duration = Duration::from_secs(10);

/// Counts handled messages and notifies a waiter.
struct Handled {
    count: AtomicU64,
    each: mpsc::UnboundedSender<()>,
}

async fn handle<B: Backend>(ctx: &mut Ctx<B>, _: Arc<Message>) -> Result<Option<String>, HandlerError> {
    let handled = ctx.state::<Arc<Handled>>()?;
    handled.count.fetch_add(1, Ordering::Relaxed);
    // At the end, the receiver may be gone.
    let _ = handled.each.send(());
    Ok(None)
}

/// Runs a worker while `meanwhile` runs, and finishes the messages in progress.
async fn work<B: Backend, T>(
    store: B::Store,
    handled: Arc<Handled>,
    meanwhile: impl Future<Output = Result<T>>,
) -> Result<T> {
    let (stop, mut stopped) = watch::channel(false);
    let handlers = Handlers::new().state(handled).fallback(handle::<B>);
    let options = WorkerOptions::default().batch(200);
    let worker = Worker::<B>::outbox(store, handlers).options(options);
    let mut worker = std::pin::pin!(worker.run(async move { _ = stopped.wait_for(|asked| *asked).await }));
    let result = tokio::select! {
        // Without the worker, `meanwhile` would wait forever.
        worked = &mut worker => {
            worked?;
            bail!("the worker stopped too early");
        }
        result = meanwhile => result,
    };
    stop.send_replace(true);
    worker.await?;
    result
}

/// Waits for this many messages until the deadline. Returns whether all were handled.
async fn hear(news: &mut mpsc::UnboundedReceiver<()>, messages: u64, until: Instant) -> bool {
    for _ in 0..messages {
        if !matches!(tokio::time::timeout_at(until.into(), news.recv()).await, Ok(Some(()))) {
            return false;
        }
    }
    true
}

/// Handles the backlog of the callers, as far as time allows.
async fn drain<B: Backend>(store: B::Store, plan: Plan, waiting: u64) -> Result<Measured> {
    let (each, mut news) = mpsc::unbounded_channel();
    let handled = Arc::new(Handled { count: AtomicU64::new(0), each });
    let begin = Instant::now();
    let all = async {
        hear(&mut news, waiting, begin + plan.part).await;
        Ok(())
    };
    work::<B, _>(store, handled.clone(), all).await?;
    Ok(Measured::new("claim, handle, acknowledge", handled.count.load(Ordering::Relaxed)).over(begin.elapsed()))
}

/// One message at a time, with no other load.
async fn pass_through<B: Backend>(store: B::Store, outbox: &Outbox, plan: Plan) -> Result<Measured> {
    let (each, mut news) = mpsc::unbounded_channel();
    let handled = Arc::new(Handled { count: AtomicU64::new(0), each });
    let left = outbox.queue().stats().await?.ready;
    let ends = async {
        // First finish the backlog of the previous phase.
        let mut took = Vec::new();
        if !hear(&mut news, left, Instant::now() + plan.part.max(PATIENCE)).await {
            return Ok(took);
        }
        let until = Instant::now() + plan.part;
        // However short the time is, one message goes through.
        while took.is_empty() || Instant::now() < until {
            let sent = Instant::now();
            outbox.enqueue(message(plan)).await?;
            if !hear(&mut news, 1, until.max(sent + PATIENCE)).await {
                break;
            }
            took.push(sent.elapsed());
        }
        Ok(took)
    };
    let took = work::<B, _>(store, handled, ends).await?;
    Ok(Measured::new("from enqueue to handler", took.len() as u64).each(took))
}

//! What is measured, one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use postroom::{Backend, Ctx, HandlerError, Handlers, Message, NewMessage, Outbox, Worker, WorkerOptions};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::tally::Measured;

/// What is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// How long each part may take.
    pub(crate) part: Duration,
    pub(crate) callers: usize,
    pub(crate) payload: usize,
}

const TOPIC: &str = "postroom.bench";

/// One caller, many callers, a worker that finishes what they left, and the way from one end to the other.
pub(crate) async fn measure<B: Backend>(store: B::Store, plan: Plan, told: impl Fn(&str)) -> Result<Vec<Measured>> {
    let outbox = Outbox::new(store.clone());
    told("enqueueing, one after the other");
    let alone = enqueue(&outbox, plan, 1).await?;
    told("enqueueing, many at once");
    let together = enqueue(&outbox, plan, plan.callers).await?;
    told("handling what is there");
    let drained = drain::<B>(store.clone(), plan, alone.messages + together.messages).await?;
    told("from one end to the other");
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

/// Told of every message that was handled.
struct Handled {
    count: AtomicU64,
    each: mpsc::UnboundedSender<()>,
}

async fn handle<B: Backend>(ctx: &mut Ctx<B>, _: Arc<Message>) -> Result<Option<String>, HandlerError> {
    let handled = ctx.state::<Arc<Handled>>()?;
    handled.count.fetch_add(1, Ordering::Relaxed);
    // Nobody listens any more at the end.
    let _ = handled.each.send(());
    Ok(None)
}

/// Works while `meanwhile` runs, and finishes what is in hand.
async fn work<B: Backend, T>(
    store: B::Store,
    handled: Arc<Handled>,
    meanwhile: impl Future<Output = Result<T>>,
) -> Result<T> {
    let (stop, mut stopped) = watch::channel(false);
    let handlers = Handlers::new().state(handled).fallback(handle::<B>);
    let options = WorkerOptions::default().batch(200);
    let worker = Worker::<B>::outbox(store, handlers).options(options);
    let worker = worker.run(async move { _ = stopped.wait_for(|asked| *asked).await });
    let meanwhile = async {
        let result = meanwhile.await;
        stop.send_replace(true);
        result
    };
    let (worked, result) = tokio::join!(worker, meanwhile);
    worked?;
    result
}

/// What the callers left, as far as there is time.
async fn drain<B: Backend>(store: B::Store, plan: Plan, waiting: u64) -> Result<Measured> {
    let (each, mut news) = mpsc::unbounded_channel();
    let handled = Arc::new(Handled { count: AtomicU64::new(0), each });
    let begin = Instant::now();
    let all = async {
        for _ in 0..waiting {
            if tokio::time::timeout(plan.part.saturating_sub(begin.elapsed()), news.recv()).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    work::<B, _>(store, handled.clone(), all).await?;
    Ok(Measured::new("claim, handle, acknowledge", handled.count.load(Ordering::Relaxed)).over(begin.elapsed()))
}

/// One message at a time, with nothing else going on.
async fn pass_through<B: Backend>(store: B::Store, outbox: &Outbox, plan: Plan) -> Result<Measured> {
    let (each, mut news) = mpsc::unbounded_channel();
    let handled = Arc::new(Handled { count: AtomicU64::new(0), each });
    let left = outbox.queue().stats().await?.ready;
    let ends = async {
        // What was too much for the last part comes first.
        for _ in 0..left {
            news.recv().await;
        }
        let (begin, mut took) = (Instant::now(), Vec::new());
        while begin.elapsed() < plan.part {
            let sent = Instant::now();
            outbox.enqueue(message(plan)).await?;
            news.recv().await;
            took.push(sent.elapsed());
        }
        Ok(took)
    };
    let took = work::<B, _>(store, handled, ends).await?;
    Ok(Measured::new("from enqueue to handler", took.len() as u64).each(took))
}

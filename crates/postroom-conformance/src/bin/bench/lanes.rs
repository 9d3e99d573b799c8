//! (l) what lanes cost: enqueuing into them, many lanes with one message each, and one lane with many messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postroom::handler::Backend;
use postroom::{Ctx, HandlerResult, Handlers, Message, NewMessage, Outbox, Worker, WorkerOptions};
use tokio_util::sync::CancellationToken;

use crate::measure::{best, per_second, rate};
use crate::{Report, Sizes, payload};

const ROUNDS: usize = 3;
/// Producers use this many lanes.
const LANES: usize = 1000;
const SHORT: usize = 1000;
/// How much is enqueued at once.
const STEP: usize = 10_000;

/// How many lanes have one message each, and how many messages one lane has.
#[derive(Clone, Copy)]
pub(crate) struct Amounts {
    pub(crate) lanes: usize,
    pub(crate) deep: usize,
}

struct Left {
    messages: AtomicUsize,
    all_done: CancellationToken,
}

async fn handle<B: Backend>(ctx: &mut Ctx<B>, _: Arc<Message>) -> HandlerResult<Option<String>> {
    let left = ctx.state::<Arc<Left>>()?;
    if left.messages.fetch_sub(1, Ordering::Relaxed) == 1 {
        left.all_done.cancel();
    }
    Ok(None)
}

/// Enqueues messages with the lanes that `lane` names, and returns how many a worker handles in a second.
async fn drain<B: Backend>(
    store: B::Store,
    messages: usize,
    lane: impl Fn(usize) -> Option<String>,
) -> anyhow::Result<f64> {
    let outbox = Outbox::new(store.clone());
    let message = |at: usize| NewMessage::new("bench", payload()).lane(lane(at).unwrap_or_default());
    for first in (0..messages).step_by(STEP) {
        outbox.enqueue_many((first..messages.min(first + STEP)).map(message)).await?;
    }
    let left = Arc::new(Left { messages: AtomicUsize::new(messages), all_done: CancellationToken::new() });
    let handlers = Handlers::<B>::new().state(left.clone()).on_topic("bench", handle::<B>);
    let worker = Worker::<B>::outbox(store, handlers).options(WorkerOptions::default());
    let rate = rate(messages, async { Ok(worker.run(left.all_done.clone().cancelled_owned()).await?) }).await?;
    let stats = outbox.queue().stats().await?;
    anyhow::ensure!(stats.done == messages as u64, "not everything was drained: {stats:?}");
    Ok(rate)
}

/// Opens empty stores by their names.
pub(crate) async fn run<B: Backend>(
    open: impl AsyncFn(&str) -> anyhow::Result<B::Store>,
    amounts: Amounts,
    sizes: Sizes,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (mut laned, mut plain) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for (rates, name, has_lane) in [(&mut laned, "laned", true), (&mut plain, "plain", false)] {
            let outbox = Outbox::new(open(&format!("l_{name}_{round}")).await?);
            let next = Arc::new(AtomicUsize::new(0));
            let enqueue = move || {
                let (outbox, next) = (outbox.clone(), next.clone());
                async move {
                    let lane = format!("lane-{}", next.fetch_add(1, Ordering::Relaxed) % LANES);
                    let message = NewMessage::new("bench", payload());
                    outbox.enqueue(if has_lane { message.lane(lane) } else { message }).await?;
                    Ok(())
                }
            };
            rates.push(per_second(sizes.seconds / 2.0, enqueue).await?);
        }
    }
    report.rate("l: 16 producers into 1000 lanes, against none", "messages/s", best(&laned), best(&plain));
    let one_each = drain::<B>(open("l_one_each").await?, amounts.lanes, |at| Some(format!("lane-{at}"))).await?;
    let none = drain::<B>(open("l_none").await?, amounts.lanes, |_| None).await?;
    let case = format!("l: drain of {} lanes with one message, against none", amounts.lanes);
    report.rate(&case, "messages/s", one_each, none);
    let deep = drain::<B>(open("l_deep").await?, amounts.deep, |_| Some("lane".to_owned())).await?;
    let short = drain::<B>(open("l_short").await?, SHORT, |_| Some("lane".to_owned())).await?;
    report.rate(&format!("l: one lane with {} messages, against {SHORT}", amounts.deep), "messages/s", deep, short);
    Ok(())
}

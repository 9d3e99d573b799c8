//! (h) draining a backlog with a handler that writes a row of its own: effect and ack in one transaction, or neither.
//! The baseline handles each message in a transaction too, on as many connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postroom::{Ctx, HandlerError, Handlers, Message, Outbox, Worker, WorkerOptions};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Bed, Raw, fill, raw_rows};
use crate::measure::rate;
use crate::{PAYLOAD_BYTES, Report, Sizes};

/// As many as a worker uses by default.
const AT_ONCE: usize = 16;
const BATCH: i64 = 500;

pub(crate) async fn run<B: Bed>(url: &str, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let messages = sizes.messages / 5;
    let (mut ours, mut raws) = (0f64, 0f64);
    for round in 0..3 {
        B::calm_down(url).await?;
        ours = ours.max(handled::<B>(url, &format!("h{round}"), messages).await?);
        B::calm_down(url).await?;
        raws = raws.max(handled_raw::<B>(url, messages).await?);
    }
    report.rate("h: handlers with their own transaction, default settings", "messages/s", ours, raws);
    Ok(())
}

struct Left {
    messages: AtomicUsize,
    all_done: CancellationToken,
}

async fn handle<B: Bed>(ctx: &mut Ctx<B>, _: Arc<Message>) -> Result<Option<String>, HandlerError> {
    let left = ctx.state::<Arc<Left>>()?.clone();
    B::effect(ctx).await?;
    if left.messages.fetch_sub(1, Ordering::Relaxed) == 1 {
        left.all_done.cancel();
    }
    Ok(None)
}

async fn handled<B: Bed>(url: &str, name: &str, messages: usize) -> anyhow::Result<f64> {
    let store = B::open(url, name).await?;
    B::Raw::connect(url).await?.empty_effects().await?;
    fill::<B>(&store, messages, PAYLOAD_BYTES).await?;
    let left = Arc::new(Left { messages: AtomicUsize::new(messages), all_done: CancellationToken::new() });
    let handlers = Handlers::<B>::new().state(left.clone()).on_topic("bench", handle::<B>);
    let worker = Worker::outbox(store.clone(), handlers).options(WorkerOptions::default().concurrency(AT_ONCE));
    let rate = rate(messages, async { Ok(worker.run(left.all_done.clone().cancelled_owned()).await?) }).await?;
    let stats = Outbox::new(store).queue().stats().await?;
    anyhow::ensure!(stats.done == messages as u64, "not everything was handled: {stats:?}");
    Ok(rate)
}

async fn handled_raw<B: Bed>(url: &str, messages: usize) -> anyhow::Result<f64> {
    let mut claimer = B::Raw::connect(url).await?;
    claimer.empty_table().await?;
    claimer.empty_effects().await?;
    claimer.insert_many(raw_rows(messages, PAYLOAD_BYTES)).await?;
    let claimer = Arc::new(Mutex::new(Claimer { raw: claimer, claimed: Vec::new() }));
    let mut raws = Vec::new();
    for _ in 0..AT_ONCE {
        raws.push(B::Raw::connect(url).await?);
    }
    rate(messages, async {
        let mut running = JoinSet::new();
        for mut raw in raws {
            let claimer = claimer.clone();
            running.spawn(async move {
                loop {
                    let next = claimer.lock().await.next().await?;
                    let Some(seq) = next else { return anyhow::Ok(()) };
                    raw.handle(seq).await?;
                }
            });
        }
        while let Some(worker) = running.join_next().await {
            worker??;
        }
        Ok(())
    })
    .await
}

struct Claimer<R> {
    raw: R,
    claimed: Vec<(i64, String)>,
}

impl<R: Raw> Claimer<R> {
    /// The next message of a batch; the next batch when there is none.
    async fn next(&mut self) -> anyhow::Result<Option<i64>> {
        if self.claimed.is_empty() {
            self.claimed = self.raw.claim(BATCH).await?;
        }
        Ok(self.claimed.pop().map(|(seq, _)| seq))
    }
}

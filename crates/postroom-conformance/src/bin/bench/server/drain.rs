//! (c) draining a backlog with a handler that does nothing, against four raw workers that claim and acknowledge.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postroom::{Ctx, HandlerError, Handlers, Message, Outbox, Worker, WorkerOptions};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Bed, Raw, STEP_BYTES, fill, raw_rows};
use crate::measure::rate;
use crate::{PAYLOAD_BYTES, Report, Sizes};

const BATCH: usize = 500;
const WORKERS: usize = 4;

pub(crate) async fn run<B: Bed>(url: &str, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let tuned = WorkerOptions::default().batch(BATCH);
    let usual = (sizes.messages, PAYLOAD_BYTES);
    let (mut ours, mut default, mut raws) = (0f64, 0f64, 0f64);
    for round in 0..3 {
        ours = ours.max(drain::<B>(url, &format!("c{round}"), usual, WORKERS, tuned.clone()).await?);
        let as_is = WorkerOptions::default();
        default = default.max(drain::<B>(url, &format!("c{round}_default"), usual, 1, as_is).await?);
        raws = raws.max(drain_raw::<B>(url, usual).await?);
    }
    report.rate("c: drain, four workers, batch 500, against four raw", "messages/s", ours, raws);
    report.rate("c: drain, one worker, default settings, against four raw", "messages/s", default, raws);
    for (name, bytes, messages) in [("4 kB", 4_000, sizes.messages / 5), ("100 kB", 100_000, sizes.messages / 100)] {
        let (mut ours, mut raws) = (0f64, 0f64);
        for round in 0..2 {
            B::calm_down(url).await?;
            let place = format!("c{round}_{bytes}");
            ours = ours.max(drain::<B>(url, &place, (messages, bytes), WORKERS, tuned.clone()).await?);
            B::calm_down(url).await?;
            raws = raws.max(drain_raw::<B>(url, (messages, bytes)).await?);
        }
        report.rate(&format!("c: drain, four workers, batch 500, payloads of {name}"), "messages/s", ours, raws);
    }
    Ok(())
}

struct Left {
    messages: AtomicUsize,
    all_done: CancellationToken,
}

async fn handle<B: Bed>(ctx: &mut Ctx<B>, _: Arc<Message>) -> Result<Option<String>, HandlerError> {
    let left = ctx.state::<Arc<Left>>()?;
    if left.messages.fetch_sub(1, Ordering::Relaxed) == 1 {
        left.all_done.cancel();
    }
    Ok(None)
}

async fn drain<B: Bed>(
    url: &str,
    name: &str,
    (messages, bytes): (usize, usize),
    workers: usize,
    options: WorkerOptions,
) -> anyhow::Result<f64> {
    let store = B::open(url, name).await?;
    fill::<B>(&store, messages, bytes).await?;
    let left = Arc::new(Left { messages: AtomicUsize::new(messages), all_done: CancellationToken::new() });
    let work = async {
        let mut running = JoinSet::new();
        for _ in 0..workers {
            let handlers = Handlers::<B>::new().state(left.clone()).on_topic("bench", handle::<B>);
            let worker = Worker::outbox(store.clone(), handlers).options(options.clone());
            let done = left.all_done.clone();
            running.spawn(worker.run(async move { done.cancelled().await }));
        }
        while let Some(worker) = running.join_next().await {
            worker??;
        }
        Ok(())
    };
    let rate = rate(messages, work).await?;
    let stats = Outbox::new(store).queue().stats().await?;
    anyhow::ensure!(stats.done == messages as u64, "not everything was drained: {stats:?}");
    Ok(rate)
}

async fn drain_raw<B: Bed>(url: &str, (messages, bytes): (usize, usize)) -> anyhow::Result<f64> {
    let mut filler = B::Raw::connect(url).await?;
    filler.empty_table().await?;
    for step in raw_rows(messages, bytes).chunks((STEP_BYTES / bytes).clamp(1, 100_000)) {
        filler.insert_many(step.to_vec()).await?;
    }
    let handled = Arc::new(AtomicUsize::new(0));
    let mut raws = Vec::new();
    for _ in 0..WORKERS {
        raws.push(B::Raw::connect(url).await?);
    }
    let work = async {
        let mut running = JoinSet::new();
        for mut raw in raws {
            let handled = handled.clone();
            running.spawn(async move {
                loop {
                    let claimed = raw.claim(i64::try_from(BATCH)?).await?;
                    if claimed.is_empty() {
                        return anyhow::Ok(());
                    }
                    raw.ack(&claimed).await?;
                    handled.fetch_add(claimed.len(), Ordering::Relaxed);
                }
            });
        }
        while let Some(worker) = running.join_next().await {
            worker??;
        }
        Ok(())
    };
    let rate = rate(messages, work).await?;
    let handled = handled.load(Ordering::Relaxed);
    anyhow::ensure!(handled == messages, "the baseline drained {handled} of {messages}");
    Ok(rate)
}

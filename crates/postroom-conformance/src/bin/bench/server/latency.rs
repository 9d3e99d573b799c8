//! (d) from the enqueue's return to the handler's start, on an idle store.

use std::sync::Arc;
use std::time::Instant;

use postroom::{Ctx, HandlerError, Handlers, Message, NewMessage, Outbox, Worker};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::{Bed, Raw};
use crate::measure::{PATIENCE, percentile, quiet};
use crate::{Report, Sizes, payload};

pub(crate) async fn run<B: Bed>(url: &str, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let mut here = Ours::<B>::start(url, "d").await?;
    let mut apart = Ours::<B>::start(url, "d_apart").await?;
    // As far as that worker knows, the one who enqueues is another process.
    apart.outbox = Outbox::new(B::open(url, "d_apart").await?);
    let mut raw = RawPair::<B::Raw>::start(url).await?;
    B::calm_down(url).await?;
    let (mut here_took, mut apart_took, mut raw_took) = (Vec::new(), Vec::new(), Vec::new());
    // In turns, so that whatever else the machine does disturbs all alike.
    for _ in 0..sizes.rounds {
        raw_took.push(raw.once().await?);
        here_took.push(here.once().await?);
        if B::Raw::TELLS_OTHERS {
            apart_took.push(apart.once().await?);
        }
    }
    let baseline = if B::Raw::TELLS_OTHERS { "raw LISTEN/NOTIFY" } else { "a raw signal" };
    for (name, percent) in [("p50", 50), ("p99", 99)] {
        let raw = percentile(&raw_took, percent);
        let case = format!("d: wake-up in one process, against {baseline}, {name}");
        report.cost(&case, "µs", percentile(&here_took, percent), raw);
        if B::Raw::TELLS_OTHERS {
            let case = format!("d: wake-up between processes, against {baseline}, {name}");
            report.cost(&case, "µs", percentile(&apart_took, percent), raw);
        }
    }
    Ok(())
}

async fn started_after(starts: &mut UnboundedReceiver<Instant>, returned: Instant) -> anyhow::Result<f64> {
    let start = tokio::time::timeout(PATIENCE, starts.recv()).await?;
    let start = start.ok_or_else(|| anyhow::anyhow!("the worker is gone"))?;
    Ok(start.saturating_duration_since(returned).as_secs_f64() * 1e6)
}

/// A worker on an idle store.
struct Ours<B: Bed> {
    outbox: Outbox,
    starts: UnboundedReceiver<Instant>,
    _worker: JoinSet<postroom::Result<()>>,
    _backend: std::marker::PhantomData<B>,
}

async fn handle<B: Bed>(ctx: &mut Ctx<B>, _: Arc<Message>) -> Result<Option<String>, HandlerError> {
    ctx.state::<UnboundedSender<Instant>>()?.send(Instant::now()).ok();
    Ok(None)
}

impl<B: Bed> Ours<B> {
    async fn start(url: &str, name: &str) -> anyhow::Result<Self> {
        let store = B::open(url, name).await?;
        let (started, starts) = unbounded_channel();
        let handlers = Handlers::<B>::new().state(started).on_topic("bench", handle::<B>);
        let mut worker = JoinSet::new();
        worker.spawn(Worker::outbox(store.clone(), handlers).run(std::future::pending()));
        let mut ours = Self { outbox: Outbox::new(store), starts, _worker: worker, _backend: std::marker::PhantomData };
        // The first one opens connections and prepares statements.
        for _ in 0..20 {
            ours.once().await?;
        }
        Ok(ours)
    }

    async fn once(&mut self) -> anyhow::Result<f64> {
        quiet().await;
        self.outbox.enqueue(NewMessage::new("bench", payload())).await?;
        started_after(&mut self.starts, Instant::now()).await
    }
}

/// A producer, and a worker that claims when it is notified, by the database where possible.
struct RawPair<R: Raw> {
    producer: R,
    signal: Arc<Notify>,
    starts: UnboundedReceiver<Instant>,
    _worker: JoinSet<anyhow::Result<()>>,
}

impl<R: Raw> RawPair<R> {
    async fn start(url: &str) -> anyhow::Result<Self> {
        let mut producer = R::connect(url).await?;
        producer.empty_table().await?;
        let mut worker = R::connect(url).await?;
        let (started, starts) = unbounded_channel();
        let signal = Arc::new(Notify::new());
        let mut news = R::news(url, signal.clone()).await?;
        let mut running = JoinSet::new();
        running.spawn(async move {
            loop {
                R::next(&mut news).await?;
                let claimed = worker.claim(50).await?;
                if !claimed.is_empty() {
                    started.send(Instant::now())?;
                    worker.ack(&claimed).await?;
                }
            }
        });
        let mut pair = Self { producer, signal, starts, _worker: running };
        for _ in 0..20 {
            pair.once().await?;
        }
        Ok(pair)
    }

    async fn once(&mut self) -> anyhow::Result<f64> {
        quiet().await;
        self.producer.insert_and_tell(uuid::Uuid::now_v7(), &payload(), &self.signal).await?;
        started_after(&mut self.starts, Instant::now()).await
    }
}

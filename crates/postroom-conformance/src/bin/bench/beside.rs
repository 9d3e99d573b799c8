//! (n) from enqueue to arrival at a healthy place, beside one that is in trouble and has thousands of messages waiting:
//! against the same without the other.

use std::time::{Duration, Instant};

use postroom::handler::Backend;
use postroom::store::BoxFuture;
use postroom::worker::{Delivery, Transport};
use postroom::{Ctx, HandlerResult, Handlers, Message, NewMessage, Outbox, Worker};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::measure::{percentile, quiet};
use crate::{Report, Sizes, payload};

/// How many messages wait for the failing place.
const WAITING: usize = 30_000;
const SLOW: Duration = Duration::from_secs(5);
/// How long to wait for a destination that hangs.
const GIVEN_UP: Duration = Duration::from_secs(30);
/// How many messages at the start are not counted.
const WARM_UP: usize = 50;
const PATIENCE: Duration = Duration::from_secs(120);

/// What is wrong with the other place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Other {
    Nothing,
    /// It answers after five seconds.
    Slow,
    /// It does not answer at all.
    Hangs,
}

/// Takes messages to two services, of which one may be in trouble.
struct Roads {
    other: Other,
    arrived: UnboundedSender<Instant>,
}

impl Transport for Roads {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        Box::pin(async move {
            if message.destination() == Some("healthy") {
                let _ = self.arrived.send(Instant::now());
                return Delivery::Accepted { response: None };
            }
            match self.other {
                Other::Hangs => {
                    tokio::time::sleep(GIVEN_UP).await; // tidy: time itself: a slow place, a lease
                    Delivery::unreachable("no answer")
                }
                _ => {
                    tokio::time::sleep(SLOW).await; // tidy: time itself: a slow place, a lease
                    Delivery::Accepted { response: None }
                }
            }
        })
    }
}

async fn healthy<B: Backend>(ctx: &mut Ctx<B>, _: std::sync::Arc<Message>) -> HandlerResult<Option<String>> {
    let _ = ctx.state::<UnboundedSender<Instant>>()?.send(Instant::now());
    Ok(None)
}

async fn slow<B: Backend>(_: &mut Ctx<B>, _: std::sync::Arc<Message>) -> HandlerResult<Option<String>> {
    tokio::time::sleep(SLOW).await; // tidy: time itself: a slow place, a lease
    Ok(None)
}

/// Whether messages go to other services, or are handled here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Sent,
    Handled,
}

struct Bed {
    outbox: Outbox,
    arrivals: UnboundedReceiver<Instant>,
    stop: oneshot::Sender<()>,
    worker: JoinSet<postroom::Result<()>>,
    way: Way,
}

fn message(way: Way, to: &str) -> NewMessage {
    match way {
        Way::Sent => NewMessage::new("bench", payload()).to(to),
        Way::Handled => NewMessage::new(to, payload()),
    }
}

impl Bed {
    async fn start<B: Backend>(store: B::Store, way: Way, other: Other) -> anyhow::Result<Self> {
        let outbox = Outbox::new(store.clone());
        if other != Other::Nothing {
            for _ in 0..WAITING / 10_000 {
                outbox.enqueue_many((0..10_000).map(|_| message(way, "other"))).await?;
            }
        }
        let (arrived, arrivals) = unbounded_channel();
        let handlers = Handlers::new().state(arrived.clone());
        let handlers = handlers.on_topic("healthy", healthy::<B>).on_topic("other", slow::<B>);
        let worker = Worker::<B>::outbox(store, handlers).transport(Roads { other, arrived });
        let (stop, stopped) = oneshot::channel::<()>();
        let mut workers = JoinSet::new();
        workers.spawn(worker.run(async { drop(stopped.await) }));
        Ok(Self { outbox, arrivals, stop, worker: workers, way })
    }

    async fn once(&mut self) -> anyhow::Result<f64> {
        quiet().await;
        self.outbox.enqueue(message(self.way, "healthy")).await?;
        let enqueued = Instant::now();
        let arrived = tokio::time::timeout(PATIENCE, self.arrivals.recv()).await?;
        let arrived = arrived.ok_or_else(|| anyhow::anyhow!("the worker is gone"))?;
        Ok(arrived.saturating_duration_since(enqueued).as_secs_f64() * 1e6)
    }

    async fn stop(mut self) {
        drop(self.stop);
        // What the slow place has is not waited for.
        self.worker.abort_all();
        while self.worker.join_next().await.is_some() {}
    }
}

/// Opens empty stores by their names.
pub(crate) async fn run<B: Backend>(
    open: impl AsyncFn(&str) -> anyhow::Result<B::Store>,
    sizes: Sizes,
    report: &mut Report,
) -> anyhow::Result<()> {
    let cases = [
        ("a destination that takes 5 s", Way::Sent, Other::Slow),
        ("a destination that hangs", Way::Sent, Other::Hangs),
        ("a topic that takes 5 s", Way::Handled, Other::Slow),
    ];
    for (number, (what, way, other)) in cases.into_iter().enumerate() {
        let mut beside = Bed::start::<B>(open(&format!("n_beside_{number}")).await?, way, other).await?;
        let mut alone = Bed::start::<B>(open(&format!("n_alone_{number}")).await?, way, Other::Nothing).await?;
        let (mut with, mut without) = (Vec::new(), Vec::new());
        // The thirty thousand have only just been written: what the database still does about that is not counted.
        for _ in 0..WARM_UP {
            beside.once().await?;
            alone.once().await?;
        }
        // In turns, so that whatever else the machine does disturbs both alike.
        for _ in 0..sizes.rounds {
            with.push(beside.once().await?);
            without.push(alone.once().await?);
        }
        beside.stop().await;
        alone.stop().await;
        for (name, percent) in [("p50", 50), ("p99", 99)] {
            let case = format!("n: enqueue to arrival beside {what}, {name}");
            report.cost(&case, "µs", percentile(&with, percent), percentile(&without, percent));
        }
    }
    Ok(())
}

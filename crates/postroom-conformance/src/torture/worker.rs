//! A worker process: an outbox worker that takes orders to the ledger's inbox, and an inbox worker that applies them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use postroom::clock::Clock;
use postroom::store::BoxFuture;
use postroom::testing::{Point, Probe};
use postroom::worker::{Delivery, Transport};
use postroom::{Handlers, Inbox, InboxKey, Incoming, Message, RetryPolicy, Worker, WorkerOptions};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::gate::Gate;
use super::ground::{Base, Ground};
use super::pace;
use super::place::{Place, SOURCE};
use super::wire::{Stop, Word, say};

const BATCH: usize = 20;

/// Works until `end` says that the grants are over.
pub(crate) async fn run<G: Ground>(place: &Place, gate: &Arc<Gate>, end: watch::Receiver<Option<u64>>) -> Result<()> {
    let (orders, ledger) = (G::open(place, Base::Orders, false).await?, G::open(place, Base::Ledger, false).await?);
    let stops = Stops::<G>::open(place, gate).await?;
    let courier = Courier { inbox: Inbox::new(ledger.clone()), gate: gate.clone() };
    let sending = Worker::<G>::outbox(orders, Handlers::new()).transport(courier).options(options(
        place,
        gate,
        Stop::ClaimedOutbox,
    )?);
    let handling = Worker::inbox(ledger, G::handlers(&stops)).options(options(place, gate, Stop::ClaimedInbox)?);
    say(&Word::Ready);
    let mut tasks = JoinSet::new();
    tasks.spawn(sending.run(over(end.clone())));
    tasks.spawn(handling.run(over(end)));
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

pub(crate) async fn over(mut end: watch::Receiver<Option<u64>>) {
    let _ = end.wait_for(Option::is_none).await;
}

pub(crate) fn options(place: &Place, gate: &Arc<Gate>, claimed: Stop) -> Result<WorkerOptions> {
    let gate = gate.clone();
    let probe = Probe(Arc::new(move |point| match point {
        Point::AfterClaim => gate.pass(claimed, ""),
        Point::AfterCommit => {
            say(&Word::Handled);
            gate.pass(Stop::Committed, "");
        }
        Point::LeaseLost => say(&Word::Refused),
    }));
    // A database that is away must not cost a handled message its attempts, and it has no more of them than by default.
    // The courier's own failures are not under test.
    let retry = |attempts| {
        RetryPolicy::exponential(Duration::from_millis(100), Duration::from_secs(1), Duration::ZERO, attempts)
    };
    Ok(WorkerOptions::default()
        .batch(BATCH)
        .lease(place.database.lease())
        .poll(Duration::from_millis(20))
        .poll_max(Duration::from_millis(100))
        .retry(retry(10)?)
        .retry_services(retry(1000)?)
        .grace(Duration::from_secs(2))
        .maintenance(Duration::from_secs(1))
        .probe(probe))
}

/// Takes messages to the other service: its inbox is in another database.
struct Courier {
    inbox: Inbox,
    gate: Arc<Gate>,
}

impl Courier {
    async fn deliver(&self, message: &Message) -> postroom::Result<()> {
        let id = message.id();
        self.gate.pass(Stop::Sending, &id);
        let key = InboxKey::new(SOURCE, &id)?;
        let incoming = Incoming::new(key, &message.topic, &message.payload);
        self.inbox.accept(incoming.lane(message.lane.as_deref().unwrap_or_default())).await?;
        // It blocks instead of waiting: when it goes on, the ack follows, however stale it is by then.
        self.gate.pass(Stop::Sent, &id);
        Ok(())
    }
}

impl Transport for Courier {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        Box::pin(async move {
            match self.deliver(message).await {
                Ok(()) => Delivery::Accepted { response: None },
                Err(error) => {
                    say(&Word::Trouble(format!("not sent: {error}")));
                    Delivery::unreachable(error.to_string())
                }
            }
        })
    }
}

/// What a handler writes for a message.
pub(crate) struct Effect(pub(crate) String);

impl Effect {
    pub(crate) fn of(message: &Message) -> Self {
        let (id, worker, at) = (message.id(), std::process::id(), Clock::Database.now().as_micros());
        Self(format!("INSERT INTO effects (message_id, worker, at) VALUES ('{id}', {worker}, {at})"))
    }
}

/// Where a handler stops on request.
pub(crate) struct Stops<G: Ground> {
    gate: Arc<Gate>,
    /// Sees, on a separate connection, when an effect is committed.
    eye: Arc<tokio::sync::Mutex<G::Own>>,
    runtime: Handle,
}

impl<G: Ground> Clone for Stops<G> {
    fn clone(&self) -> Self {
        Self { gate: self.gate.clone(), eye: self.eye.clone(), runtime: self.runtime.clone() }
    }
}

impl<G: Ground> Stops<G> {
    pub(crate) async fn open(place: &Place, gate: &Arc<Gate>) -> Result<Self> {
        let eye = Arc::new(tokio::sync::Mutex::new(G::connect(place, Base::Ledger).await?));
        Ok(Self { gate: gate.clone(), eye, runtime: Handle::current() })
    }

    /// The handler was called with this message.
    pub(crate) fn enter(&self, message: &str) {
        self.gate.pass(Stop::Called, message);
    }

    /// The effect of this message is written, and not committed.
    pub(crate) fn pass(&self, message: &str) {
        self.gate.pass(Stop::Handling, message);
        if self.gate.is_hit(Stop::Visible, message) {
            self.watch(message.to_owned());
        }
    }

    /// Reports the moment this message's effect can be seen. Nothing stops for it.
    fn watch(&self, message: String) {
        let (eye, runtime) = (self.eye.clone(), self.runtime.clone());
        std::thread::spawn(move || {
            let sql = format!("SELECT 1 FROM effects WHERE message_id = '{message}'");
            let sees = || runtime.block_on(async { G::ask(&mut *eye.lock().await, &sql).await });
            // A connection that broke sees nothing any more; then nobody is killed at this place.
            while sees().is_ok_and(|lines| lines.is_empty()) {
                pace::wait(Duration::from_micros(100));
            }
            say(&Word::At(Stop::Visible, message));
        });
    }
}

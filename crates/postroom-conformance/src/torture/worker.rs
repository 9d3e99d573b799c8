//! A worker process: an outbox worker that takes orders to the ledger's inbox, and an inbox worker that applies them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use postroom::testing::{Point, Probe};
use postroom::{
    BlockingCtx, BoxFuture, Clock, Ctx, Delivery, HandlerResult, Handlers, Inbox, InboxKey, Incoming, Message,
    RetryPolicy, Sqlite, Transport, Worker, WorkerOptions,
};
use rusqlite::Connection;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::gate::Gate;
use super::place::{Place, SOURCE, TOPIC_ASYNC, TOPIC_BLOCKING, connect};
use super::wire::{Stop, Word, say};
use super::{LEASE, pace};

const BATCH: usize = 20;

/// Works until `end` says that the grants are over.
pub(crate) async fn run(place: &Place, gate: &Arc<Gate>, end: watch::Receiver<Option<u64>>) -> Result<()> {
    let (orders, ledger) = (place.orders().await?, place.ledger().await?);
    let eye = Arc::new(Eye(Mutex::new(connect(&place.ledger_path())?)));
    let courier = Courier { inbox: Inbox::new(ledger.clone()), gate: gate.clone() };
    let sending = Worker::<Sqlite>::outbox(orders, Handlers::new())
        .transport(courier)
        .options(options(gate, Stop::ClaimedOutbox)?);
    let handling = Worker::inbox(ledger, handlers(gate, &eye)).options(options(gate, Stop::ClaimedInbox)?);
    say(&Word::Ready);
    let mut tasks = JoinSet::new();
    tasks.spawn(sending.run(over(end.clone())));
    tasks.spawn(handling.run(over(end)));
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

async fn over(mut end: watch::Receiver<Option<u64>>) {
    let _ = end.wait_for(Option::is_none).await;
}

fn options(gate: &Arc<Gate>, claimed: Stop) -> Result<WorkerOptions> {
    let gate = gate.clone();
    let probe = Probe(Arc::new(move |point| match point {
        Point::AfterClaim => gate.pass(claimed, ""),
        Point::AfterCommit => {
            say(&Word::Handled);
            gate.pass(Stop::Committed, "");
        }
        Point::LeaseLost => say(&Word::Refused),
    }));
    // A database that is busy for a moment must not cost a message its attempts: only crashes are under test.
    let retry = RetryPolicy::exponential(Duration::from_millis(100), Duration::from_secs(1), Duration::ZERO, 1000)?;
    Ok(WorkerOptions::default()
        .batch(BATCH)
        .lease(LEASE)
        .poll(Duration::from_millis(20))
        .poll_max(Duration::from_millis(100))
        .retry(retry.clone())
        .retry_services(retry)
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
        let arrival = self.inbox.accept(Incoming::new(key, &message.topic, &message.payload)).await?;
        if arrival.is_duplicate() {
            say(&Word::Duplicate);
        }
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
                    Delivery::Failed { why: error.to_string() }
                }
            }
        })
    }
}

const APPLY: &str = "INSERT INTO effects (message_id, worker, at) VALUES (?1, ?2, ?3)";

fn effect(message: &Message) -> (String, u32, i64) {
    (message.id(), std::process::id(), Clock::Database.now().as_micros())
}

fn handlers(gate: &Arc<Gate>, eye: &Arc<Eye>) -> Handlers<Sqlite> {
    let (own_gate, own_eye) = (gate.clone(), eye.clone());
    let apply = move |ctx: &mut BlockingCtx<'_>| {
        let effect = effect(ctx.message());
        ctx.tx().execute(APPLY, (&effect.0, effect.1, effect.2))?;
        own_gate.pass(Stop::Handling, &effect.0);
        own_eye.watch(&own_gate, effect.0);
        Ok(None)
    };
    Handlers::new()
        .on_topic_blocking(TOPIC_BLOCKING, apply)
        .on_topic(TOPIC_ASYNC, audit)
        .state(gate.clone())
        .state(eye.clone())
}

async fn audit(ctx: &mut Ctx<Sqlite>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let effect = effect(&message);
    ctx.tx().await?.run(move |conn| conn.execute(APPLY, (&effect.0, effect.1, effect.2))).await?;
    let gate = ctx.state::<Arc<Gate>>()?;
    gate.pass(Stop::Handling, &message.id());
    ctx.state::<Arc<Eye>>()?.watch(gate, message.id());
    Ok(None)
}

/// Sees, on a connection of its own, when an effect is committed.
struct Eye(Mutex<Connection>);

impl Eye {
    /// If told to, reports the moment this message's effect can be seen. Nothing stops for it.
    fn watch(self: &Arc<Self>, gate: &Gate, message: String) {
        if gate.is_hit(Stop::Visible, &message) {
            let eye = self.clone();
            std::thread::spawn(move || {
                while !eye.sees(&message) {
                    pace::wait(Duration::from_micros(100));
                }
                say(&Word::At(Stop::Visible, message));
            });
        }
    }

    fn sees(&self, message: &str) -> bool {
        let conn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let statement = conn.prepare_cached("SELECT 1 FROM effects WHERE message_id = ?1");
        statement.and_then(|mut statement| statement.exists([message])).unwrap_or(false)
    }
}

//! Postroom from service to service: the outbox of one, the receiver of the other.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use anyhow::{Context, Result};
use postroom::services::{
    Courier, Key, ListenOptions, Listener, Neighbours, Receiver, Secret, Service, Services, Source,
};
use postroom::sqlite::{BlockingCtx, Sqlite, SqliteOptions};
use postroom::store::BoxFuture;
use postroom::worker::{Delivery, Transport};
use postroom::{Handlers, Message, NewMessage, Outbox, Worker, WorkerOptions};
use tokio::sync::Notify;

use super::{IN_FLIGHT, Other};
use crate::measure;

fn key() -> Result<Key> {
    Ok(Key::new("bench", Secret::parse("known to both services of the benchmark")?)?)
}

async fn receiver(dir: &Path) -> Result<Receiver<Sqlite>> {
    let store = SqliteOptions::new(dir.join("wire-receiver.db")).deploy_schema(true).open().await?;
    store.write(|tx| Ok(tx.execute_batch("CREATE TABLE IF NOT EXISTS effects (message TEXT NOT NULL)")?)).await?;
    let handlers = Handlers::new().on_topic_blocking("bench", |ctx: &mut BlockingCtx<'_>| {
        ctx.tx().prepare_cached("INSERT INTO effects (message) VALUES (?1)")?.execute([ctx.message().id()])?;
        Ok(Some("\"done\"".to_owned()))
    });
    Ok(Receiver::new("ledger", store, handlers, [Source::new("orders", key()?)])?)
}

/// The other process.
pub(super) async fn receive(dir: &Path) -> Result<()> {
    let receiver = receiver(dir).await?;
    let listener = Listener::bind("http://127.0.0.1:0", ListenOptions::default()).await?;
    println!("{}", listener.tcp_address().map_or(0, |address| address.port()));
    receiver.serve(listener, std::future::pending()).await;
    Ok(())
}

pub(super) async fn over_http(dir: &Path, messages: usize) -> Result<f64> {
    let dir = tempfile::tempdir_in(dir)?;
    let other = Other::start("receiver", Some(dir.path()))?;
    let service = Service::new("ledger", format!("http://127.0.0.1:{}", other.port)).keys(key()?);
    let courier = Courier::new(Services::new("orders").service(service.concurrency(IN_FLIGHT)))?;
    drain(dir.path(), courier, messages).await
}

/// Everything but the databases: signed messages for which there is no handler, so that nothing is stored.
pub(super) async fn signed_only(dir: &Path, messages: usize) -> Result<f64> {
    let dir = tempfile::tempdir_in(dir)?;
    let other = Other::start("receiver", Some(dir.path()))?;
    let service = Service::new("ledger", format!("http://127.0.0.1:{}", other.port)).keys(key()?);
    let courier = Courier::new(Services::new("orders").service(service.concurrency(IN_FLIGHT)))?;
    let store = SqliteOptions::new(dir.path().join("wire-sender.db")).deploy_schema(true).open().await?;
    let outbox = Outbox::new(store);
    outbox.enqueue(NewMessage::new("unknown", serde_json::to_string(&crate::payload())?).to("ledger")).await?;
    let record = outbox.queue().list(postroom::operator::Filter::all()).await?.pop().context("nothing was enqueued")?;
    let message = record.message().map_err(|error| anyhow::anyhow!("{error}"))?.clone();
    measure::rate(messages, async {
        let mut senders = tokio::task::JoinSet::new();
        for _ in 0..IN_FLIGHT {
            let (courier, message) = (courier.clone(), message.clone());
            senders.spawn(async move {
                for _ in 0..messages / IN_FLIGHT {
                    courier.send(&message).await;
                }
            });
        }
        while let Some(sender) = senders.join_next().await {
            sender?;
        }
        Ok(())
    })
    .await
}

pub(super) async fn in_process(dir: &Path, messages: usize) -> Result<f64> {
    let dir = tempfile::tempdir_in(dir)?;
    let neighbours = Neighbours::default();
    neighbours.add(receiver(dir.path()).await?);
    let service = Service::new("ledger", "in-process").concurrency(IN_FLIGHT);
    let courier = Courier::with_neighbours(Services::new("orders").service(service), neighbours)?;
    drain(dir.path(), courier, messages).await
}

/// Counts the messages that were sent, and rings when it was the last one.
#[derive(Clone)]
struct Counted {
    courier: Courier,
    left: Arc<AtomicUsize>,
    all_sent: Arc<Notify>,
}

impl Transport for Counted {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        Box::pin(async move {
            let delivery = self.courier.send(message).await;
            if matches!(delivery, Delivery::Accepted { .. }) && self.left.fetch_sub(1, SeqCst) == 1 {
                self.all_sent.notify_one();
            }
            delivery
        })
    }
}

/// Sends what is in the outbox, and says how fast. The time ends when the last one is acknowledged.
async fn drain(dir: &Path, courier: Courier, messages: usize) -> Result<f64> {
    let store = SqliteOptions::new(dir.join("wire-sender.db")).deploy_schema(true).open().await?;
    let outbox = Outbox::new(store.clone());
    let payload = serde_json::to_string(&crate::payload())?;
    let messages = messages / 1000 * 1000;
    for _ in 0..messages / 1000 {
        let batch = (0..1000).map(|_| NewMessage::new("bench", &payload).to("ledger"));
        outbox.enqueue_many(batch).await?;
    }
    let options = WorkerOptions::default().concurrency(IN_FLIGHT).batch(IN_FLIGHT);
    let (left, all_sent) = (Arc::new(AtomicUsize::new(messages)), Arc::new(Notify::new()));
    let transport = Counted { courier, left, all_sent: all_sent.clone() };
    let worker = Worker::<Sqlite>::outbox(store.clone(), Handlers::new()).transport(transport).options(options);
    let rate = measure::rate(messages, async {
        // It ends when what it has in progress is acknowledged.
        let worker = crate::spawn(worker.run(async move { all_sent.notified().await }));
        Ok(worker.await??)
    });
    let rate = rate.await?;
    let stats = outbox.queue().stats().await?;
    anyhow::ensure!(stats.done == messages as u64, "{} of {messages} are done", stats.done);
    Ok(rate)
}

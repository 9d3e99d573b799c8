//! A program on a database of its own: a store, workers on it, and a handler whose effect is a row.

use std::time::Duration;

use anyhow::Context;
use postroom::sqlite::{SqliteOptions, SqliteStore};
use postroom::store::BoxFuture;
use postroom::worker::{Delivery, Transport};
use postroom::{HandlerError, Handlers, Inbox, Message, Outbox, RetryPolicy, Worker, WorkerOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub(crate) struct Shop {
    pub(crate) store: SqliteStore,
    pub(crate) outbox: Outbox,
    pub(crate) inbox: Inbox,
    pub(crate) path: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl Shop {
    pub(crate) async fn open() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("shop.db");
        let store = SqliteOptions::new(&path).deploy_schema(true).open().await?;
        store.write(|tx| Ok(tx.execute_batch("CREATE TABLE placed (message TEXT)")?)).await?;
        let (outbox, inbox) = (Outbox::new(store.clone()), Inbox::new(store.clone()));
        Ok(Self { store, outbox, inbox, path, _folder: folder })
    }

    /// A worker on the inbox; each message it handles is told.
    pub(crate) fn inbox_worker(&self) -> (Worker<postroom::sqlite::Sqlite>, UnboundedReceiver<Message>) {
        let (tell, told) = unbounded_channel();
        let handlers = Handlers::new().on_topic_blocking("order.placed", move |ctx| {
            let id = ctx.message().id();
            ctx.tx().execute("INSERT INTO placed (message) VALUES (?1)", [id])?;
            let _ = tell.send(ctx.message().clone());
            Ok::<_, HandlerError>(None)
        });
        (Worker::inbox(self.store.clone(), handlers), told)
    }

    /// A worker on the outbox that sends; what became of each message is told, with its topic.
    pub(crate) fn outbox_worker(
        &self,
        transport: impl Transport,
    ) -> (Worker<postroom::sqlite::Sqlite>, UnboundedReceiver<(String, Delivery)>) {
        let (tell, told) = unbounded_channel();
        let soon = Duration::from_millis(20);
        let retry = RetryPolicy::exponential(soon, soon, Duration::ZERO, 6).expect("a policy");
        let worker = Worker::outbox(self.store.clone(), Handlers::new()).transport(Told { transport, tell });
        let options = WorkerOptions::default().batch(200).concurrency(200);
        (worker.options(options.retry(retry.clone()).retry_services(retry)), told)
    }

    /// The ids whose effects are there, in order.
    pub(crate) async fn placed(&self) -> anyhow::Result<Vec<String>> {
        let ids = |conn: &rusqlite::Connection| {
            let mut rows = conn.prepare("SELECT message FROM placed ORDER BY message")?;
            let ids = rows.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
            Ok(ids)
        };
        Ok(self.store.read(ids).await?)
    }
}

/// Tells what another transport did.
struct Told<T> {
    transport: T,
    tell: UnboundedSender<(String, Delivery)>,
}

impl<T: Transport> Transport for Told<T> {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        Box::pin(async move {
            let delivery = self.transport.send(message).await;
            let _ = self.tell.send((message.topic.clone(), delivery.clone()));
            delivery
        })
    }
}

/// The next one, of workers that run meanwhile.
pub(crate) async fn next<T>(told: &mut UnboundedReceiver<T>) -> anyhow::Result<T> {
    told.recv().await.context("the worker is gone")
}

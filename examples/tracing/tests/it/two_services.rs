//! From one service to another: the span that handles is linked to the span that sent, over every wire.

use anyhow::Context;
use opentelemetry::trace::SpanKind;
use postroom::services::{
    Courier, Key, ListenOptions, Listener, Neighbours, Receiver, ReceiverOptions, Secret, Service, Services, Source,
};
use postroom::sqlite::{Sqlite, SqliteStore};
use postroom::{Handlers, Outbox, Worker};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::oneshot;
use tracing::Instrument;

use crate::recorder::{check_link, context_of, handled, sending};
use crate::{blocking, order, run_until, store, waiting};

fn key() -> Key {
    Key::new("test", Secret::parse("an example secret that both of them know").unwrap()).unwrap()
}

fn receiver(store: SqliteStore, handlers: Handlers<Sqlite>, options: ReceiverOptions) -> Receiver<Sqlite> {
    Receiver::with("inventory", store, handlers, [Source::new("orders", key())], options).unwrap()
}

/// Nobody listens to what they tell.
fn handlers_on_the_writer() -> Handlers<Sqlite> {
    blocking(Handlers::new(), "order.placed", unbounded_channel().0)
}

fn async_handlers() -> Handlers<Sqlite> {
    Handlers::new().state(unbounded_channel::<()>().0).on_topic("order.placed", waiting)
}

/// Sends one message until it is acknowledged; the spans of both sides are linked to the one it was sent in.
async fn send_and_check(courier: Courier) -> anyhow::Result<()> {
    let (span, (store, _folder)) = (sending(), store().await?);
    let message = order().to("inventory");
    let id = message.message_id();
    let outbox = Outbox::new(store.clone());
    outbox.enqueue(message).instrument(span.clone()).await?;
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = Worker::<Sqlite>::outbox(store, Handlers::new()).transport(courier);
    let answering = async {
        let answer = outbox.requested::<Option<String>>(id, "inventory").answer().await;
        drop(stop);
        answer
    };
    let working = async { tokio::join!(worker.run(async { drop(stopped.await) }), answering) };
    let (worked, answered) = tokio::time::timeout(crate::PATIENCE, working).await.context("in vain")?;
    worked?;
    answered?;
    check_link(&handled(id, SpanKind::Producer)?, &context_of(&span))?;
    check_link(&handled(id, SpanKind::Consumer)?, &context_of(&span))
}

async fn over_the_net(scheme: &str, handlers: Handlers<Sqlite>) -> anyhow::Result<()> {
    let (inventory, _folder) = store().await?;
    let listener = Listener::bind(&format!("{scheme}://127.0.0.1:0"), ListenOptions::default()).await?;
    let address = format!("{scheme}://{}", listener.tcp_address().context("no address")?);
    let services = Services::new("orders").service(Service::new("inventory", address).keys(key()));
    let (stop, stopped) = oneshot::channel::<()>();
    let receiver = receiver(inventory, handlers, ReceiverOptions::default());
    let sending = async {
        let sent = send_and_check(Courier::new(services)?).await;
        drop(stop);
        sent
    };
    let ((), sent) = tokio::join!(receiver.serve(listener, async { drop(stopped.await) }), sending);
    sent
}

#[tokio::test]
async fn over_http_to_a_blocking_handler() -> anyhow::Result<()> {
    over_the_net("http", handlers_on_the_writer()).await
}

#[tokio::test]
async fn over_http_to_an_async_handler() -> anyhow::Result<()> {
    over_the_net("http", async_handlers()).await
}

#[tokio::test]
async fn over_grpc() -> anyhow::Result<()> {
    over_the_net("grpc", handlers_on_the_writer()).await
}

#[tokio::test]
async fn in_one_process() -> anyhow::Result<()> {
    let (inventory, _folder) = store().await?;
    let neighbours = Neighbours::default();
    neighbours.add(receiver(inventory, async_handlers(), ReceiverOptions::default()));
    let services = Services::new("orders").service(Service::new("inventory", "in-process"));
    send_and_check(Courier::with_neighbours(services, neighbours)?).await
}

/// Taken in now and handled later: the link waits with the message.
#[tokio::test]
async fn by_way_of_the_inbox() -> anyhow::Result<()> {
    let (span, (orders, _orders), (inventory, _inventory)) = (sending(), store().await?, store().await?);
    let message = order().to("inventory");
    let id = message.message_id();
    Outbox::new(orders.clone()).enqueue(message).instrument(span.clone()).await?;
    let neighbours = Neighbours::default();
    let (tell, told) = unbounded_channel();
    let options = ReceiverOptions::default().queued().without_answers();
    neighbours.add(receiver(inventory.clone(), Handlers::new(), options));
    let services = Services::new("orders").service(Service::new("inventory", "in-process"));
    let courier = Courier::with_neighbours(services, neighbours)?;
    let (stop, stopped) = oneshot::channel::<()>();
    let sending = Worker::<Sqlite>::outbox(orders, Handlers::new()).transport(courier);
    let handling = async {
        let worker = Worker::inbox(inventory, blocking(Handlers::new(), "order.placed", tell));
        let handled = run_until(worker, told, 1).await;
        drop(stop);
        handled
    };
    let (sent, worked) = tokio::join!(sending.run(async { drop(stopped.await) }), handling);
    sent?;
    worked?;
    check_link(&handled(id, SpanKind::Consumer)?, &context_of(&span))
}

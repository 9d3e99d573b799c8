//! Sends an order through RabbitMQ and takes it from there, until Ctrl-C:
//! `cargo run -p postroom-brokers --example rabbitmq -- amqp://guest:guest@127.0.0.1:5672/%2f`

use anyhow::Result;
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties, ExchangeKind};
use postroom::sqlite::{Sqlite, SqliteOptions};
use postroom::{Handlers, Inbox, NewMessage, Outbox, Worker};
use postroom_brokers::rabbitmq::{FromRabbitMq, ToRabbitMq};

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).init();
    let url = std::env::args().nth(1).unwrap_or_else(|| "amqp://guest:guest@127.0.0.1:5672/%2f".into());
    declare(&url).await?;
    let store = SqliteOptions::new("brokers.db").deploy_schema(true).open().await?;
    let (outbox, inbox) = (Outbox::new(store.clone()), Inbox::new(store.clone()));

    outbox.enqueue(NewMessage::new("order.placed", r#"{"order":7}"#).to("shop")).await?;
    let sending = Worker::outbox(store.clone(), Handlers::<Sqlite>::new()).transport(ToRabbitMq::new(&url));

    let from = FromRabbitMq { url, queue: "billing".into(), source: "rabbitmq/billing".into(), prefetch: 32 };
    let handlers = Handlers::new().on_topic_blocking("order.placed", |ctx| {
        println!("{} is handled: {}", ctx.message().id(), ctx.message().payload);
        Ok(None)
    });
    let handling = Worker::inbox(store, handlers);
    let (sent, (), handled) =
        tokio::join!(sending.run(shutdown()), from.run(&inbox, shutdown()), handling.run(shutdown()));
    sent?;
    Ok(handled?)
}

/// What operators usually do: an exchange, a queue, and a place for what is put aside.
async fn declare(url: &str) -> Result<()> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let exchange = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    channel.exchange_declare("shop".into(), ExchangeKind::Topic, exchange, FieldTable::default()).await?;
    channel.queue_declare("billing-dead".into(), durable, FieldTable::default()).await?;
    let mut dead_letters = FieldTable::default();
    dead_letters.insert("x-dead-letter-exchange".into(), AMQPValue::LongString("".into()));
    dead_letters.insert("x-dead-letter-routing-key".into(), AMQPValue::LongString("billing-dead".into()));
    channel.queue_declare("billing".into(), durable, dead_letters).await?;
    let (queue, exchange, topics, options) =
        ("billing".into(), "shop".into(), "order.*".into(), QueueBindOptions::default());
    channel.queue_bind(queue, exchange, topics, options, FieldTable::default()).await?;
    Ok(connection.close(200, "declared".into()).await?)
}

async fn shutdown() {
    tokio::signal::ctrl_c().await.ok();
}

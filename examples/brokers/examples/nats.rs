//! Sends an order through NATS JetStream and takes it from there, until Ctrl-C:
//! `cargo run -p postroom-brokers --example nats -- nats://127.0.0.1:4222`

use anyhow::Result;
use async_nats::ConnectOptions;
use async_nats::jetstream::{self, stream};
use postroom::sqlite::{Sqlite, SqliteOptions};
use postroom::{Handlers, Inbox, NewMessage, Outbox, Worker};
use postroom_brokers::nats::{FromNats, ToNats};

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).init();
    let url = std::env::args().nth(1).unwrap_or_else(|| "nats://127.0.0.1:4222".into());
    let client = ConnectOptions::new().retry_on_initial_connect().connect(url).await?;
    let (name, subjects) = ("SHOP".to_owned(), vec!["shop.>".to_owned()]);
    let config = stream::Config { name: name.clone(), subjects, ..stream::Config::default() };
    jetstream::new(client.clone()).get_or_create_stream(config).await?;
    let store = SqliteOptions::new("brokers.db").deploy_schema(true).open().await?;
    let (outbox, inbox) = (Outbox::new(store.clone()), Inbox::new(store.clone()));

    outbox.enqueue(NewMessage::new("order.placed", r#"{"order":7}"#).to("shop")).await?;
    let sending = Worker::outbox(store.clone(), Handlers::<Sqlite>::new()).transport(ToNats::new(client.clone()));

    let (consumer, source) = ("billing".to_owned(), "nats/SHOP".to_owned());
    let from = FromNats { client, stream: name, consumer, source, prefetch: 32 };
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

async fn shutdown() {
    tokio::signal::ctrl_c().await.ok();
}

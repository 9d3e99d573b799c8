//! The sending service: an order and the message about it are one transaction, and the answer comes back.
//!
//! `cargo run -p postroom --features sqlite,http --example orders -- 7 teapot`, before or after `inventory` is started.

use postroom::message::Kind;
use postroom::services::{Courier, Key, Secret, Service, Services};
use postroom::sqlite::{Sqlite, SqliteOptions, SqliteStore};
use postroom::{Handlers, NewMessage, Outbox, Payload, Worker};
use serde::{Deserialize, Serialize};

/// What `inventory` is asked for.
#[derive(Serialize, Deserialize)]
struct Reserve {
    order: i64,
    item: String,
}

impl Payload for Reserve {
    const TOPIC: &'static str = "stock.reserve";
    const KIND: Kind = Kind::Command;
    type Reply = Reserved;
}

/// What it says.
#[derive(Serialize, Deserialize)]
struct Reserved {
    shelf: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let order = args.next().unwrap_or_else(|| "1".into()).parse()?;
    let item = args.next().unwrap_or_else(|| "teapot".into());

    let store = SqliteOptions::new("orders.db").deploy_schema(true).open().await?;
    store.write(|tx| Ok(tx.execute_batch("CREATE TABLE IF NOT EXISTS orders (id INTEGER)")?)).await?;

    // In earnest: Secret::from_file or Secret::from_env.
    let key = Key::new("demo", Secret::parse("an example secret that both of them know")?)?;
    let services = Services::new("orders").service(Service::new("inventory", "http://127.0.0.1:7002").keys(key));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = Worker::<Sqlite>::outbox(store.clone(), Handlers::new()).transport(Courier::new(services)?);
    let placing = async {
        let placed = place(store, order, item).await;
        drop(stop);
        placed
    };
    let (worked, placed) = tokio::join!(worker.run(async { stopped.await.unwrap_or_default() }), placing);
    Ok(placed.and(worked)?)
}

async fn place(store: SqliteStore, order: i64, item: String) -> postroom::Result<()> {
    // The order and the message about it: one transaction.
    let message = NewMessage::of(&Reserve { order, item })?.to("inventory");
    let id = message.message_id();
    let placing = store.write(move |tx| {
        tx.execute("INSERT INTO orders (id) VALUES (?1)", [order])?;
        tx.enqueue(&message)
    });
    placing.await?;
    println!("order {order} is placed; waiting for inventory");

    let reserved = Outbox::new(store).requested::<Reserved>(id, "inventory").answer().await?;
    println!("order {order} is on {}", reserved.shelf);
    Ok(())
}

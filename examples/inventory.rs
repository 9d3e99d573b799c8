//! The receiving service: reserves stock, once for each message, whatever happens on the way.
//!
//! `cargo run -p postroom --features sqlite,http --example inventory`, then `orders` beside it.

use postroom::message::Kind;
use postroom::services::{Key, ListenOptions, Listener, Receiver, Secret, Source};
use postroom::sqlite::{BlockingCtx, SqliteOptions};
use postroom::{HandlerError, Handlers, Payload};
use serde::{Deserialize, Serialize};

/// What `orders` asks for.
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

/// What it is told.
#[derive(Serialize, Deserialize)]
struct Reserved {
    shelf: String,
}

/// Runs in the transaction in which the message is remembered and its answer is kept: all of it is stored, or nothing.
fn reserve(ctx: &mut BlockingCtx<'_>, wanted: Reserve) -> Result<Reserved, HandlerError> {
    if wanted.item.is_empty() {
        return Err(HandlerError::terminal("nothing to reserve"));
    }
    ctx.tx().execute("INSERT INTO reserved (order_id, item) VALUES (?1, ?2)", (wanted.order, &wanted.item))?;
    println!("reserved {} for order {}", wanted.item, wanted.order);
    Ok(Reserved { shelf: format!("shelf {}", wanted.order % 10) })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = SqliteOptions::new("inventory.db").deploy_schema(true).open().await?;
    store
        .write(|tx| Ok(tx.execute_batch("CREATE TABLE IF NOT EXISTS reserved (order_id INTEGER, item TEXT)")?))
        .await?;

    // In earnest: Secret::from_file or Secret::from_env.
    let key = Key::new("demo", Secret::parse("an example secret that both of them know")?)?;
    let handlers = Handlers::new().on_blocking(reserve);
    let receiver = Receiver::new("inventory", store, handlers, [Source::new("orders", key)])?;

    let listener = Listener::bind("http://127.0.0.1:7002", ListenOptions::default()).await?;
    println!("inventory listens at 127.0.0.1:7002; stop it with Ctrl-C");
    receiver.serve(listener, async { tokio::signal::ctrl_c().await.unwrap_or_default() }).await;
    Ok(())
}

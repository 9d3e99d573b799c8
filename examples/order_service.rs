//! A shop: the order and the message about it are one transaction, and the stock is reserved exactly once.
//!
//! `cargo run -p postroom --features sqlite --example order_service`

use std::time::Duration;

use postroom::sqlite::{BlockingCtx, SqliteOptions, SqliteStore};
use postroom::{HandlerError, Handlers, Outbox, Payload, Worker};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

#[derive(Serialize, Deserialize)]
struct OrderPlaced {
    order: i64,
    pieces: i64,
}

impl Payload for OrderPlaced {
    const TOPIC: &'static str = "order.placed";
    type Reply = ();
}

#[derive(Serialize, Deserialize)]
struct StockReserved {
    order: i64,
}

impl Payload for StockReserved {
    const TOPIC: &'static str = "stock.reserved";
    type Reply = ();
}

/// Runs in the transaction its acknowledgement commits in. What it enqueues is stored with it, too.
fn reserve(ctx: &mut BlockingCtx<'_>, placed: OrderPlaced) -> Result<(), HandlerError> {
    if placed.pieces <= 0 {
        return Err(HandlerError::terminal("an order must have at least one piece"));
    }
    ctx.tx().execute("UPDATE stock SET pieces = pieces - ?1", [placed.pieces])?;
    ctx.enqueue(&StockReserved { order: placed.order })?;
    Ok(())
}

fn announce(_: &mut BlockingCtx<'_>, reserved: StockReserved) -> Result<(), HandlerError> {
    println!("stock is reserved for order {}", reserved.order);
    Ok(())
}

async fn place(store: &SqliteStore, order: i64, pieces: i64) -> postroom::Result<()> {
    store
        .write(move |tx| {
            tx.execute("INSERT INTO orders (id, pieces) VALUES (?1, ?2)", [order, pieces])?;
            tx.enqueue(&OrderPlaced { order, pieces })
        })
        .await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = SqliteOptions::new(folder.path().join("shop.db")).deploy_schema(true).open().await?;
    let schema = "CREATE TABLE orders (id INTEGER PRIMARY KEY, pieces INTEGER);
                  CREATE TABLE stock (pieces INTEGER); INSERT INTO stock VALUES (100)";
    store.write(move |tx| Ok(tx.execute_batch(schema)?)).await?;

    let (stop, stopped) = oneshot::channel::<()>();
    let handlers = Handlers::new().on_blocking(reserve).on_blocking(announce);
    let worker = Worker::outbox(store.clone(), handlers).run(async { drop(stopped.await) });
    let shop = async {
        for order in 1..=5 {
            place(&store, order, 10).await?;
        }
        place(&store, 6, 0).await?;
        wait_until_settled(&store).await?;
        let _ = stop.send(());
        postroom::Result::Ok(())
    };
    let (worked, sold) = tokio::join!(worker, shop);
    worked.and(sold)?;

    let pieces: i64 = store.read(|conn| Ok(conn.query_row("SELECT pieces FROM stock", [], |row| row.get(0))?)).await?;
    let failed = Outbox::new(store).queue().stats().await?.dead;
    println!("{pieces} pieces left, {failed} order refused");
    assert_eq!((pieces, failed), (50, 1));
    Ok(())
}

/// Five orders make ten messages, the sixth is dead.
async fn wait_until_settled(store: &SqliteStore) -> postroom::Result<()> {
    let outbox = Outbox::new(store.clone());
    let mut look = tokio::time::interval(Duration::from_millis(5));
    while outbox.queue().stats().await?.done + outbox.queue().stats().await?.dead < 11 {
        look.tick().await;
    }
    Ok(())
}

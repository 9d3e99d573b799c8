//! Two services: `orders` asks, `inventory` reserves, once for each order, whatever happens on the way.
//!
//! Both are in this file; README says how to run them beside each other.

use postroom::sqlite::{BlockingCtx, Sqlite, SqliteOptions, SqliteStore};
use postroom::{Command, HandlerError, service};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Command)]
#[command("stock.reserve", reply = Reserved)]
struct Reserve {
    order: i64,
    item: String,
}

#[derive(Serialize, Deserialize)]
struct Reserved {
    shelf: String,
}

/// Runs in the transaction in which the message is remembered and its answer is kept: all of it is stored, or nothing.
fn reserve(ctx: &mut BlockingCtx<'_>, wanted: Reserve) -> Result<Reserved, HandlerError> {
    ctx.tx().execute("INSERT INTO reserved VALUES (?1, ?2)", (wanted.order, &wanted.item))?;
    Ok(Reserved { shelf: format!("shelf {}", wanted.order % 10) })
}

service! {
    struct Inventory for "inventory" on Sqlite;
    listen "http://127.0.0.1:7002";
    source "orders" { secret: env("SHOP_SECRET") }
    handle Reserve => blocking reserve;
}

service! {
    struct Orders for "orders" on Sqlite;
    destination inventory { url: "http://127.0.0.1:7002", secret: env("SHOP_SECRET"), sends: [Reserve] }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["inventory"] => {
            let store = open("inventory.db", "CREATE TABLE IF NOT EXISTS reserved (id INTEGER, item TEXT)").await?;
            let inventory = Inventory::start(store).await?;
            println!("inventory listens; stop it with Ctrl-C");
            inventory.until(async { tokio::signal::ctrl_c().await.unwrap_or_default() }).await?;
        }
        ["orders", order, item] => {
            let store = open("orders.db", "CREATE TABLE IF NOT EXISTS orders (id INTEGER)").await?;
            let (orders, order, item) = (Orders::start(store.clone()).await?, order.parse()?, item.to_owned());
            let message = Orders::to_inventory(&Reserve { order, item }).message()?;
            let id = message.message_id();
            // The order and the message about it: one transaction.
            let placing = store.write(move |tx| {
                tx.execute("INSERT INTO orders VALUES (?1)", [order])?;
                tx.enqueue(&message)
            });
            placing.await?;
            println!("order {order} is placed; waiting for inventory");
            println!("it is on {}", orders.inventory().requested::<Reserve>(id).answer().await?.shelf);
            orders.stop().await?;
        }
        _ => eprintln!("say `inventory`, or `orders 7 teapot`"),
    }
    Ok(())
}

async fn open(file: &str, tables: &'static str) -> postroom::Result<SqliteStore> {
    let store = SqliteOptions::new(file).deploy_schema(true).open().await?;
    store.write(move |tx| Ok(tx.execute_batch(tables)?)).await?;
    Ok(store)
}

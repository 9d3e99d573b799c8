//! Two databases in one program: orders stand in SQLite, invoices in PostgreSQL. A message goes from one to the other
//! and is applied once, although no transaction spans both.
//!
//! `export DATABASE_URL=postgres://localhost/shop`
//! `cargo run -p postroom --features sqlite,sqlx-0_9-postgres --example two_databases`

use std::error::Error;
use std::time::Duration;

use postroom::postgres::{Postgres, PostgresOptions};
use postroom::services::{Courier, Neighbours, Receiver, Service, Services};
use postroom::sqlite::{Sqlite, SqliteOptions, SqliteStore};
use postroom::{Ctx, HandlerResult, Handlers, Outbox, Payload, Signal, Worker};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use tokio::sync::oneshot;

#[derive(Serialize, Deserialize, Signal)]
#[signal("order.placed")]
struct OrderPlaced {
    id: i64,
}

async fn invoice(ctx: &mut Ctx<Postgres>, placed: OrderPlaced) -> HandlerResult<()> {
    sqlx::query("INSERT INTO invoices (order_id) VALUES ($1)").bind(placed.id).execute(ctx.tx().await?).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The receiving side: invoices in PostgreSQL.
    let pool = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS invoices (order_id bigint NOT NULL)").execute(&pool).await?;
    let store = PostgresOptions::from_pool(&pool).deploy_schema(true).open().await?;
    let billing = Receiver::new("billing", store, Handlers::new().on(invoice), [])?;

    // The sending side: orders in SQLite. Both are in this program, so messages go from one to the other directly.
    let folder = tempfile::tempdir()?;
    let orders = SqliteOptions::new(folder.path().join("orders.db")).deploy_schema(true).open().await?;
    orders.write(|tx| Ok(tx.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)")?)).await?;
    let neighbours = Neighbours::default();
    neighbours.add(billing);
    let services = Services::new("orders").service(Service::new("billing", "in-process"));
    let courier = Courier::with_neighbours(services, neighbours)?;

    let (stop, stopped) = oneshot::channel::<()>();
    let worker = Worker::<Sqlite>::outbox(orders.clone(), Handlers::new()).transport(courier);
    let worker = worker.run(async { drop(stopped.await) });
    let (worked, sold) = tokio::join!(worker, sell(orders, pool, stop));
    worked?;
    sold
}

/// Places five orders, and waits until there is an invoice for each.
async fn sell(orders: SqliteStore, pool: PgPool, stop: oneshot::Sender<()>) -> Result<(), Box<dyn Error>> {
    for id in 1..=5 {
        orders
            .write(move |tx| {
                tx.execute("INSERT INTO orders (id) VALUES (?1)", [id])?;
                tx.enqueue(OrderPlaced { id }.outgoing().to("billing"))
            })
            .await?;
    }

    // Done at the sender means: stored at the receiver, with its invoice.
    let outbox = Outbox::new(orders);
    let mut looks = tokio::time::interval(Duration::from_millis(20));
    while outbox.queue().stats().await?.done < 5 {
        looks.tick().await;
    }
    let (invoices,): (i64,) = sqlx::query_as("SELECT count(DISTINCT order_id) FROM invoices").fetch_one(&pool).await?;
    println!("{invoices} invoices for 5 orders");
    let _ = stop.send(());
    Ok(())
}

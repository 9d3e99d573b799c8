//! A service on PostgreSQL that confirms orders by mail, asks another service with a deadline, and takes a reminder
//! back.
//!
//! `export DATABASE_URL=postgres://localhost/shop`
//! `cargo run -p postroom --features sqlx-0_9-postgres --example reminders`

use std::time::Duration;

use postroom::handler::State;
use postroom::postgres::{Postgres, PostgresOptions};
use postroom::queue::Cancelled;
use postroom::services::{Courier, Neighbours, Receiver, Service, Services};
use postroom::{Command, Ctx, Event, HandlerResult, Handlers, Outbox, Payload, RetryPolicy, Worker};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use tokio::sync::oneshot;

#[derive(Serialize, Deserialize, Event)]
#[event("order.placed")]
struct OrderPlaced {
    order: i64,
    buyer: String,
}

#[derive(Serialize, Deserialize, Event)]
#[event("reminder.due")]
struct Reminder {
    buyer: String,
}

#[derive(Serialize, Deserialize, Command)]
#[command("stock.reserve", reply = Reserved)]
struct Reserve {
    order: i64,
}

#[derive(Serialize, Deserialize)]
struct Reserved {
    shelf: i64,
}

struct Mailer {
    from: &'static str,
}

impl Mailer {
    /// A handler passes on any error with `?`: the message is tried again.
    fn send(&self, to: &str, text: &str) -> anyhow::Result<()> {
        anyhow::ensure!(to.contains('@'), "{to} is no address");
        println!("{} writes to {to}: {text}", self.from);
        Ok(())
    }
}

/// A worker that was given no `Mailer` does not start.
async fn confirm(ctx: &mut Ctx<Postgres>, placed: OrderPlaced, mailer: State<Mailer>) -> HandlerResult<()> {
    let update = sqlx::query("UPDATE orders SET confirmed = true WHERE id = $1").bind(placed.order);
    update.execute(ctx.tx().await?).await?;
    mailer.send(&placed.buyer, "thank you")?;
    Ok(())
}

async fn remind(_: &mut Ctx<Postgres>, reminder: Reminder, mailer: State<Mailer>) -> HandlerResult<()> {
    mailer.send(&reminder.buyer, "please pay")?;
    Ok(())
}

/// With any other answer than `Reserved` this program does not compile.
async fn reserve(_: &mut Ctx<Postgres>, wanted: Reserve) -> HandlerResult<Reserved> {
    Ok(Reserved { shelf: wanted.order % 10 })
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let pool = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
    let orders = "CREATE TABLE IF NOT EXISTS orders (id bigint PRIMARY KEY, confirmed boolean NOT NULL DEFAULT false)";
    sqlx::query(orders).execute(&pool).await?;
    let store = PostgresOptions::from_pool(&pool).deploy_schema(true).open().await?;
    let outbox = Outbox::new(store.clone());

    // The service that is asked is in the same program here. Elsewhere it has an address and a key.
    let neighbours = Neighbours::default();
    neighbours.add(Receiver::new("inventory", store.clone(), Handlers::new().on(reserve), [])?);
    let services = Services::new("orders").service(Service::new("inventory", "in-process"));
    let courier = Courier::with_neighbours(services, neighbours)?;

    let patient = RetryPolicy::handlers().attempts(5);
    let handlers = Handlers::new().on(confirm).retry(patient).concurrency(2).on(remind).state(Mailer { from: "shop" });
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = Worker::outbox(store, handlers).transport(courier).run(async { drop(stopped.await) });
    let (worked, sold) = tokio::join!(worker, sell(outbox, pool, stop));
    worked?;
    sold
}

/// Places an order; when it is over, `_stop` is dropped, and the worker ends.
async fn sell(outbox: Outbox, pool: PgPool, _stop: oneshot::Sender<()>) -> anyhow::Result<()> {
    let (order, buyer) = (7, "ann@example.org".to_owned());
    let week = Duration::from_secs(7 * 24 * 3600);

    // The order and two messages about it: one transaction. Its commit wakes the worker.
    let mut tx = outbox.begin(&pool).await?;
    sqlx::query("INSERT INTO orders (id) VALUES ($1)").bind(order).execute(&mut *tx).await?;
    tx.enqueue(&OrderPlaced { order, buyer: buyer.clone() }).await?;
    let reminder = tx.enqueue(Reminder { buyer }.outgoing().due_after(week)).await?;
    tx.commit().await?;

    let pending = outbox.request(Reserve { order }.outgoing().to("inventory")).await?;
    let reserved = pending.answer_within(Duration::from_secs(10)).await?;
    println!("order {order} is on shelf {}", reserved.shelf);

    // It is paid: nobody has to be reminded.
    anyhow::ensure!(outbox.cancel(reminder.id()).await? == Cancelled::Waiting, "the reminder is already being sent");
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    let confirmed = "SELECT confirmed FROM orders WHERE id = $1";
    while !sqlx::query_scalar::<_, bool>(confirmed).bind(order).fetch_one(&pool).await? {
        ticks.tick().await;
    }
    println!("order {order} is confirmed");
    Ok(())
}

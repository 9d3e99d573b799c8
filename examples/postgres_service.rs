//! A complete service on PostgreSQL: an order and the message about it are one transaction, the handler writes in the
//! transaction of its ack, and the service stops without losing anything.
//!
//! `export DATABASE_URL=postgres://localhost/shop`
//! `cargo run -p postroom --features sqlx-0_9-postgres --example postgres_service`
//! `curl -d '{"id":7,"pieces":2}' -H 'content-type: application/json' http://127.0.0.1:8080/orders`

use std::error::Error;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use postroom::postgres::{Postgres, PostgresOptions};
use postroom::{Ctx, Event, HandlerError, HandlerResult, Handlers, Outbox, Worker};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio::sync::watch;

#[derive(Serialize, Deserialize, Event)]
#[event("order.placed")]
struct OrderPlaced {
    id: i64,
    pieces: i64,
}

#[derive(Clone)]
struct App {
    pool: PgPool,
    outbox: Outbox,
}

/// Stores the order and the message about it: both, or neither.
async fn place(State(app): State<App>, Json(order): Json<OrderPlaced>) -> Result<StatusCode, (StatusCode, String)> {
    let failed = |error: Box<dyn Error>| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    let placed = async {
        let mut tx = app.outbox.begin(&app.pool).await?;
        let insert = sqlx::query("INSERT INTO orders (id, pieces) VALUES ($1, $2)").bind(order.id).bind(order.pieces);
        insert.execute(&mut *tx).await?;
        tx.enqueue(&order).await?;
        tx.commit().await?;
        Ok(StatusCode::CREATED)
    };
    placed.await.map_err(failed)
}

/// Runs in the transaction that its ack commits in: the stock is taken once, however often the message is delivered.
async fn reserve(ctx: &mut Ctx<Postgres>, placed: OrderPlaced) -> HandlerResult<()> {
    let update = sqlx::query("UPDATE stock SET pieces = pieces - $1 WHERE pieces >= $1").bind(placed.pieces);
    let updated = update.execute(ctx.tx().await?).await?;
    if updated.rows_affected() == 0 {
        return Err(HandlerError::terminal("not enough in stock"));
    }
    println!("reserved {} for order {}", placed.pieces, placed.id);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let pool = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
    for table in [
        "CREATE TABLE IF NOT EXISTS orders (id bigint PRIMARY KEY, pieces bigint NOT NULL)",
        "CREATE TABLE IF NOT EXISTS stock (pieces bigint NOT NULL)",
        "INSERT INTO stock SELECT 100 WHERE NOT EXISTS (SELECT 1 FROM stock)",
    ] {
        sqlx::query(table).execute(&pool).await?;
    }
    // The same server and credentials as the pool's; a few connections of its own.
    let store = PostgresOptions::from_pool(&pool).deploy_schema(true).open().await?;

    // Ctrl-C ends both: the listener finishes its requests, the worker what it holds.
    let (stop, stopped) = watch::channel(());
    let until_stopped = |mut stopped: watch::Receiver<()>| async move { while stopped.changed().await.is_ok() {} };

    let listener = TcpListener::bind(std::env::var("LISTEN").as_deref().unwrap_or("127.0.0.1:8080")).await?;
    println!("listening on {}", listener.local_addr()?);
    let app = Router::new().route("/orders", post(place)).with_state(App { pool, outbox: Outbox::new(store.clone()) });
    let serving = axum::serve(listener, app).with_graceful_shutdown(until_stopped(stopped.clone()));
    let worker = Worker::outbox(store, Handlers::new().on(reserve)).run(until_stopped(stopped));
    tokio::try_join!(
        async { serving.await.map_err(Box::<dyn Error>::from) },
        async { worker.await.map_err(Box::<dyn Error>::from) },
        async {
            tokio::signal::ctrl_c().await?;
            drop(stop);
            Ok(())
        },
    )?;
    Ok(())
}

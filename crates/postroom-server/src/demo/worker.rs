//! The worker that is killed. It writes each order into a table in the transaction that acks the message.

use std::time::Duration;

use anyhow::Result;
use postroom::sqlite::{BlockingCtx, SqliteStore};
use postroom::{HandlerError, Handlers, Worker, WorkerOptions};

use super::OrderPlaced;
use crate::output;

/// Short, so that the messages of a killed worker are soon claimed again.
const LEASE: Duration = Duration::from_millis(500);
const BATCH: usize = 20;
/// How long a real handler would take.
const WORK: Duration = Duration::from_micros(500);
/// The line that says that the worker is ready.
pub(super) const READY: &str = "ready";

fn handle(ctx: &mut BlockingCtx<'_>, placed: OrderPlaced) -> Result<(), HandlerError> {
    ctx.tx().execute("INSERT INTO handled (order_id) VALUES (?1)", [i64::try_from(placed.order)?])?;
    std::thread::sleep(WORK);
    Ok(())
}

/// Runs until `stop`.
pub(crate) async fn run(store: SqliteStore, stop: impl Future<Output = ()> + Send) -> Result<()> {
    let options = WorkerOptions::default().lease(LEASE).batch(BATCH).poll(Duration::from_millis(50));
    output::line(READY)?;
    Ok(Worker::outbox(store, Handlers::new().on_blocking(handle)).options(options).run(stop).await?)
}

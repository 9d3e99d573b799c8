//! The shop: writes each order and enqueues its message in one transaction.

use std::time::Duration;

use anyhow::{Context, Result};
use postroom::NewMessage;
use postroom::sqlite::SqliteStore;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::OrderPlaced;

const TICK: Duration = Duration::from_millis(10);
/// Retries on a busy file. A write that was stored after all is recognised as a duplicate.
const TRIES: u32 = 10;

/// Places `orders` orders, spread over `time`.
pub(crate) async fn run(store: &SqliteStore, orders: u64, time: Duration) -> Result<()> {
    let started = Instant::now();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut placed = 0;
    while placed < orders {
        tick.tick().await;
        let share = started.elapsed().as_micros().min(time.as_micros());
        let due = u128::from(orders) * share / time.as_micros().max(1);
        let due = if share == time.as_micros() { orders } else { u64::try_from(due)? };
        let mut placing = JoinSet::new();
        for order in placed + 1..=due {
            placing.spawn(place(store.clone(), order));
        }
        while let Some(placed) = placing.join_next().await {
            placed.context("the task of an order failed")??;
        }
        placed = due;
    }
    Ok(())
}

async fn place(store: SqliteStore, order: u64) -> Result<()> {
    let message = NewMessage::of(&OrderPlaced { order })?;
    let row = i64::try_from(order)?;
    for attempt in 1.. {
        let message = message.clone();
        let stored = store.write(move |tx| {
            tx.execute("INSERT INTO orders (id) VALUES (?1) ON CONFLICT DO NOTHING", [row])?;
            tx.enqueue(&message)
        });
        match stored.await {
            Err(error) if error.is_transient() && attempt < TRIES => {}
            other => return other.map(drop).with_context(|| format!("cannot place order {order}")),
        }
    }
    Ok(())
}

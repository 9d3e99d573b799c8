//! `postroom demo`: shows that no message is lost when a worker is killed again and again.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use super::Global;
use crate::demo::{child, producer, stage, worker};
use crate::problem::Problem;
use crate::{duration, open, output};

/// Kill a worker again and again while it handles orders, and show that no message is lost or handled twice
///
/// One process writes orders, and enqueues a message for each in the same transaction. Another process handles each
/// message in the transaction that acks it, and is killed with SIGKILL at random moments. At the end, SQL compares the
/// orders with the handled orders. The demo runs in a temporary folder and does not touch --db.
#[derive(Args)]
pub(crate) struct Demo {
    /// How many orders
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..10_000_000))]
    orders: u64,

    /// How many times to kill the worker
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(..10_000))]
    kills: u64,

    /// How many seconds to place orders and kill the worker. The remaining messages take a few seconds more
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..86_400))]
    seconds: u64,
}

impl Demo {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let orders = output::thousands(self.orders);
        eprintln!(
            "{orders} orders in {} s, and a worker that is killed {} …",
            self.seconds,
            output::count(self.kills, "time")
        );
        let time = Duration::from_secs(self.seconds);
        let ledger = stage::run(stage::Plan { orders: self.orders, kills: self.kills, time }).await?;
        if global.json {
            output::json(&ledger)?;
        } else {
            ledger.print()?;
        }
        if ledger.left > 0 || ledger.sent < self.orders {
            let (sent, left) = (output::thousands(ledger.sent), output::count(ledger.left, "message"));
            let what = format!("{sent} orders sent and {left} still in the queue when the time was up");
            bail!(Problem::new(what, "fewer --orders or --kills, or more --seconds, because this machine is busy"));
        }
        if !ledger.is_balanced() {
            bail!(Problem::new("the ledger does not balance", "report this bug, with the output above"));
        }
        Ok(())
    }
}

/// The process that places orders.
#[derive(Args)]
pub(crate) struct Producer {
    #[arg(long)]
    orders: u64,
    #[arg(long, value_parser = duration::parse_positive)]
    over: Duration,
}

impl Producer {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let store = open::existing_file(&global.db).await?;
        tokio::select! {
            produced = producer::run(&store, self.orders, self.over) => produced,
            () = child::stdin_closed() => bail!("stopped before the last order"),
        }
    }
}

/// The process that is killed.
#[derive(Args)]
pub(crate) struct Worker {}

impl Worker {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let store = open::watched_file(&global.db).await?;
        worker::run(store, child::stdin_closed()).await
    }
}

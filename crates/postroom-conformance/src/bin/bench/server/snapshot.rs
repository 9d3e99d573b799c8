//! (f) claims while somebody holds an old snapshot open: nothing that passed can be cleaned away.

use std::time::{Duration, Instant};

use postroom::message::OwnerToken;
use postroom::{NewMessage, Outbox};

use super::{Bed, Raw};
use crate::measure::percentile;
use crate::{Report, Sizes, payload};

const BATCH: usize = 100;
const LEASE: Duration = Duration::from_secs(30);

pub(crate) async fn run<B: Bed>(url: &str, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let rounds = sizes.passing / BATCH;
    let free = pass::<B>(url, "f_free", rounds).await?;
    let mut pin = B::Raw::connect(url).await?;
    pin.hold_snapshot().await?;
    let pinned = pass::<B>(url, "f_pinned", rounds).await?;
    drop(pin);
    for (name, percent) in [("p50", 50), ("p99", 99)] {
        let case = format!("f: claim of 100 while {} pass, snapshot held, {name}", sizes.passing);
        report.cost(&case, "µs", percentile(&pinned, percent), percentile(&free, percent));
    }
    Ok(())
}

/// Enqueues, claims and acknowledges; says how long each claim took.
async fn pass<B: Bed>(url: &str, name: &str, rounds: usize) -> anyhow::Result<Vec<f64>> {
    let outbox = Outbox::new(B::open(url, name).await?);
    let mut times = Vec::new();
    for _ in 0..rounds {
        outbox.enqueue_many((0..BATCH).map(|_| NewMessage::new("bench", payload()))).await?;
        let began = Instant::now();
        let claimed = outbox.queue().claim(OwnerToken::new(), LEASE, BATCH).await?.claimed;
        times.push(began.elapsed().as_secs_f64() * 1e6);
        anyhow::ensure!(claimed.len() == BATCH, "{} rows were claimed, not {BATCH}", claimed.len());
        let acked = outbox.queue().ack(claimed.into_iter().map(|claimed| claimed.lease)).await?;
        anyhow::ensure!(acked.lost == 0, "a lease was lost");
    }
    Ok(times)
}

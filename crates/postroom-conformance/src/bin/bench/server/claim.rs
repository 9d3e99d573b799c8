//! (e) what a claim costs, whatever else is in the table.

use std::time::{Duration, Instant};

use postroom::Outbox;
use postroom::message::OwnerToken;

use super::{Bed, fill};
use crate::measure::percentile;
use crate::{PAYLOAD_BYTES, Report, Sizes};

const FEW: usize = 1_000;
const ROUNDS: usize = 200;
const LEASE: Duration = Duration::from_secs(30);

pub(crate) async fn run<B: Bed>(url: &str, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let few = claim_time::<B>(url, "e_few", 0, FEW).await?;
    let done = claim_time::<B>(url, "e_done", sizes.done_rows, FEW).await?;
    report.cost(&format!("e: claim of 50, {} done rows against none, p50", sizes.done_rows), "µs", done, few);
    let many = claim_time::<B>(url, "e_many", 0, sizes.pending_rows).await?;
    report.cost(&format!("e: claim of 50, {} pending against {FEW}, p50", sizes.pending_rows), "µs", many, few);
    Ok(())
}

/// The middle one of many claims; what it takes is replaced before the next.
async fn claim_time<B: Bed>(url: &str, name: &str, done: usize, pending: usize) -> anyhow::Result<f64> {
    let store = B::open(url, name).await?;
    if done > 0 {
        fill::<B>(&store, done, PAYLOAD_BYTES).await?;
        B::finish_all(url, name).await?;
    }
    fill::<B>(&store, pending, PAYLOAD_BYTES).await?;
    B::calm_down(url).await?;
    let queue = Outbox::new(store.clone()).queue().clone();
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let claimed = queue.claim(OwnerToken::new(), LEASE, 50).await?.claimed;
        times.push(began.elapsed().as_secs_f64() * 1e6);
        anyhow::ensure!(claimed.len() == 50, "{} rows were claimed, not 50", claimed.len());
        let acked = queue.ack(claimed.into_iter().map(|claimed| claimed.lease)).await?;
        anyhow::ensure!(acked.lost == 0, "a lease was lost");
        fill::<B>(&store, 50, PAYLOAD_BYTES).await?;
    }
    Ok(percentile(&times, 50))
}

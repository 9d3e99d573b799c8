//! What claims and acks of 200 messages write to the server's log, for each message.

use std::time::Duration;

use postroom::Outbox;
use postroom::message::OwnerToken;

use super::{Bed, Raw, fill, raw_rows};
use crate::{PAYLOAD_BYTES, Report};

const MESSAGES: usize = 20_000;
const BATCH: usize = 200;
const LEASE: Duration = Duration::from_secs(30);

pub(crate) async fn run<B: Bed>(url: &str, report: &mut Report) -> anyhow::Result<()> {
    let mut raw = B::Raw::connect(url).await?;
    let ours = {
        let store = B::open(url, "log").await?;
        fill::<B>(&store, MESSAGES, PAYLOAD_BYTES).await?;
        B::calm_down(url).await?;
        let (queue, before) = (Outbox::new(store).queue().clone(), raw.log_position().await?);
        for _ in 0..MESSAGES / BATCH {
            let claimed = queue.claim(OwnerToken::new(), LEASE, BATCH).await?.claimed;
            anyhow::ensure!(claimed.len() == BATCH, "{} rows were claimed, not {BATCH}", claimed.len());
            let acked = queue.ack(claimed.into_iter().map(|claimed| claimed.lease)).await?;
            anyhow::ensure!(acked.lost == 0, "a lease was lost");
        }
        raw.log_position().await? - before
    };
    raw.empty_table().await?;
    raw.insert_many(raw_rows(MESSAGES, PAYLOAD_BYTES)).await?;
    B::calm_down(url).await?;
    let before = raw.log_position().await?;
    for _ in 0..MESSAGES / BATCH {
        let claimed = raw.claim(i64::try_from(BATCH)?).await?;
        raw.ack(&claimed).await?;
    }
    let raws = raw.log_position().await? - before;
    #[allow(clippy::cast_precision_loss, reason = "a count of bytes")]
    let each = |bytes: i64| bytes as f64 / MESSAGES as f64;
    report.cost("g: log for a claim and an ack of 200 messages", "bytes/message", each(ours), each(raws));
    Ok(())
}

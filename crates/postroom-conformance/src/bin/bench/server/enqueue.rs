//! (a) sixteen producers, one durable enqueue each at a time; (b) one large batch.

use std::sync::Arc;

use postroom::{NewMessage, Outbox};
use tokio::sync::Mutex;

use super::{Bed, Raw, raw_rows};
use crate::measure::{best, per_second, rate};
use crate::{PAYLOAD_BYTES, Report, Sizes, payload};

const CONNECTIONS: usize = 16;

pub(crate) async fn producers<B: Bed>(url: &str, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let (mut ours, mut raws) = (Vec::new(), Vec::new());
    for round in 0..3 {
        let outbox = Outbox::new(B::open(url, &format!("a{round}")).await?);
        ours.push(
            per_second(sizes.seconds / 2.0, move || {
                let outbox = outbox.clone();
                async move {
                    outbox.enqueue(NewMessage::new("bench", payload())).await?;
                    Ok(())
                }
            })
            .await?,
        );
        B::Raw::connect(url).await?.empty_table().await?;
        let idle = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..CONNECTIONS {
            idle.lock().await.push(B::Raw::connect(url).await?);
        }
        raws.push(
            per_second(sizes.seconds / 2.0, move || {
                let idle = idle.clone();
                async move {
                    let taken = idle.lock().await.pop();
                    let mut raw = taken.ok_or_else(|| anyhow::anyhow!("more producers than connections"))?;
                    raw.insert(uuid::Uuid::now_v7(), &payload()).await?;
                    idle.lock().await.push(raw);
                    Ok(())
                }
            })
            .await?,
        );
    }
    report.rate("a: 16 producers, against 16 connections, a commit each", "messages/s", best(&ours), best(&raws));
    Ok(())
}

pub(crate) async fn batch<B: Bed>(url: &str, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let (mut ours, mut raws) = (Vec::new(), Vec::new());
    for round in 0..3 {
        let outbox = Outbox::new(B::open(url, &format!("b{round}")).await?);
        let messages: Vec<_> = (0..sizes.messages).map(|_| NewMessage::new("bench", payload())).collect();
        let enqueue = async {
            outbox.enqueue_many(messages).await?;
            Ok(())
        };
        ours.push(rate(sizes.messages, enqueue).await?);
        let mut raw = B::Raw::connect(url).await?;
        raw.empty_table().await?;
        let rows = raw_rows(sizes.messages, PAYLOAD_BYTES);
        raws.push(rate(sizes.messages, raw.insert_many(rows)).await?);
    }
    report.rate("b: one batch", "messages/s", best(&ours), best(&raws));
    Ok(())
}

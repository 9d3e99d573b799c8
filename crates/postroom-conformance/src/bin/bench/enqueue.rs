//! (a) sixteen producers, one durable enqueue each at a time; (b) one large batch.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use postroom::{MessageId, NewMessage, Outbox};
use tokio::task::JoinSet;

use crate::raw::{self, Commit, Writer};
use crate::{Report, Sizes, open, payload};

const PRODUCERS: usize = 16;

pub(crate) async fn producers(dir: &Path, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    // Ours first and last: a machine that gets slower in between shows in both.
    let mut ours = Vec::new();
    let mut group = Vec::new();
    let mut each = Vec::new();
    for round in 0..3 {
        let store = open(dir, &format!("a{round}.db")).await?;
        let outbox = Outbox::new(store);
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
        for (rates, commit) in [(&mut group, Commit::Group), (&mut each, Commit::Each)] {
            let writer = Writer::start(raw::open(dir, &format!("a{round}-{commit:?}.db"))?, commit);
            rates.push(
                per_second(sizes.seconds / 2.0, move || {
                    let writer = writer.clone();
                    async move { writer.insert(uuid::Uuid::now_v7(), payload()).await }
                })
                .await?,
            );
        }
    }
    report.rate("a: 16 producers, against a raw group commit", "messages/s", best(&ours), best(&group));
    report.rate("a: 16 producers, against one commit each", "messages/s", best(&ours), best(&each));
    Ok(())
}

fn best(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(0.0, f64::max)
}

async fn per_second<F, Fut>(seconds: f64, enqueue: F) -> anyhow::Result<f64>
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = anyhow::Result<()>> + Send,
{
    let count = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let end = started + Duration::from_secs_f64(seconds);
    let mut producers = JoinSet::new();
    for _ in 0..PRODUCERS {
        let (enqueue, count) = (enqueue.clone(), count.clone());
        producers.spawn(async move {
            while Instant::now() < end {
                enqueue().await?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    while let Some(joined) = producers.join_next().await {
        joined??;
    }
    #[allow(clippy::cast_precision_loss, reason = "a count of messages")]
    let count = count.load(Ordering::Relaxed) as f64;
    Ok(count / started.elapsed().as_secs_f64())
}

pub(crate) async fn batch(dir: &Path, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let (mut ours, mut raws) = (Vec::new(), Vec::new());
    for round in 0..3 {
        let outbox = Outbox::new(open(dir, &format!("b{round}.db")).await?);
        let messages: Vec<_> = (0..sizes.messages).map(|_| NewMessage::new("bench", payload())).collect();
        let enqueue = async {
            outbox.enqueue_many(messages).await?;
            Ok(())
        };
        ours.push(rate(sizes.messages, enqueue).await?);
        let rows: Vec<_> = (0..sizes.messages).map(|_| (MessageId::new().as_uuid(), payload())).collect();
        let conn = raw::open(dir, &format!("b{round}-raw.db"))?;
        raws.push(
            rate(sizes.messages, async {
                conn.execute_batch("BEGIN IMMEDIATE")?;
                rows.iter().try_for_each(|(id, payload)| raw::insert(&conn, *id, payload))?;
                Ok(conn.execute_batch("COMMIT")?)
            })
            .await?,
        );
    }
    report.rate("b: one batch", "messages/s", best(&ours), best(&raws));
    Ok(())
}

pub(crate) async fn rate(messages: usize, work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<f64> {
    let started = Instant::now();
    work.await?;
    #[allow(clippy::cast_precision_loss, reason = "a count of messages")]
    let messages = messages as f64;
    Ok(messages / started.elapsed().as_secs_f64())
}

//! (a) sixteen producers, one durable enqueue each at a time; (b) one large batch.

use std::path::Path;

use postroom::{MessageId, NewMessage, Outbox};

use super::open;
use super::raw::{self, Commit, Writer};
use crate::measure::{best, per_second, rate};
use crate::{Report, Sizes, payload};

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

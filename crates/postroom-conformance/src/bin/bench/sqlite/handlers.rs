//! (h) draining a backlog with a handler that writes a row of its own: effect and ack together, or neither.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postroom::sqlite::BlockingCtx;
use postroom::{HandlerResult, Handlers, WorkerOptions};
use rusqlite::Connection;
use tokio::sync::Notify;

use super::drain::{BATCH, Payload, fill, fill_raw, work_off};
use super::{open, raw};
use crate::measure::rate;
use crate::{Report, Sizes};

const TABLE: &str = "CREATE TABLE effects (seq INTEGER PRIMARY KEY, what TEXT NOT NULL)";
const EFFECT: &str = "INSERT INTO effects (what) VALUES ('reserved')";

pub(crate) async fn run(dir: &Path, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let (mut ours, mut default, mut raws) = (0f64, 0f64, 0f64);
    for round in 0..3 {
        let tuned = WorkerOptions::default().batch(BATCH);
        ours = ours.max(handled(dir, &format!("h{round}.db"), sizes.messages, tuned).await?);
        let as_is = WorkerOptions::default();
        default = default.max(handled(dir, &format!("h{round}-default.db"), sizes.messages, as_is).await?);
        raws = raws.max(handled_raw(dir, &format!("h{round}-raw.db"), sizes.messages).await?);
    }
    report.rate("h: handlers with their own transaction, batch 500", "messages/s", ours, raws);
    report.rate("h: handlers with their own transaction, default settings", "messages/s", default, raws);
    Ok(())
}

async fn handled(dir: &Path, name: &str, messages: usize, options: WorkerOptions) -> anyhow::Result<f64> {
    let store = open(dir, name).await?;
    store.write(|tx| Ok(tx.execute_batch(TABLE)?)).await?;
    fill(&store, messages, Payload::default()).await?;
    let (left, all_done) = (Arc::new(AtomicUsize::new(messages)), Arc::new(Notify::new()));
    let done = all_done.clone();
    let handle = move |ctx: &mut BlockingCtx<'_>| -> HandlerResult<Option<String>> {
        ctx.tx().prepare_cached(EFFECT)?.execute([])?;
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            done.notify_one();
        }
        Ok(None)
    };
    let handlers = Handlers::new().on_topic_blocking("bench", handle);
    let rate = rate(messages, work_off(store.clone(), handlers, options, all_done, messages)).await?;
    let count = "SELECT count(*) FROM effects";
    let effects = store.read(move |conn| Ok(conn.query_row(count, [], |row| row.get::<_, i64>(0))?)).await?;
    anyhow::ensure!(i64::try_from(messages)? == effects, "{messages} messages had {effects} effects");
    Ok(rate)
}

/// Each handler in a savepoint with its ack, a batch of them in one commit.
async fn handled_raw(dir: &Path, name: &str, messages: usize) -> anyhow::Result<f64> {
    let conn = raw::open(dir, name)?;
    conn.execute_batch(TABLE)?;
    fill_raw(&conn, messages, Payload::default())?;
    rate(messages, async {
        loop {
            conn.execute_batch("BEGIN IMMEDIATE")?;
            let claimed = raw::claim(&conn, BATCH)?;
            conn.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
            claimed.iter().try_for_each(|(seq, _, _)| handle_raw(&conn, *seq))?;
            conn.execute_batch("COMMIT")?;
            if claimed.is_empty() {
                return Ok(());
            }
        }
    })
    .await
}

fn handle_raw(conn: &Connection, seq: i64) -> rusqlite::Result<()> {
    conn.prepare_cached("SAVEPOINT handler")?.execute([])?;
    conn.prepare_cached(EFFECT)?.execute([])?;
    raw::ack(conn, seq)?;
    conn.prepare_cached("RELEASE handler")?.execute([])?;
    Ok(())
}

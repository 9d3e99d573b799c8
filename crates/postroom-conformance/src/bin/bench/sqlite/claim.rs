//! (e) what a claim costs, whatever else is in the table: the steps of SQLite's virtual machine, which do not depend on
//! the machine's mood.

use std::path::Path;

use postroom::queue::Queue;
use postroom::sqlite::SqliteStore;
use rusqlite::{Connection, StatementStatus};

use super::drain::{Payload, fill};
use super::open;
use crate::{Report, Sizes};

const FEW: usize = 1_000;
const BATCH: u32 = 50;

pub(crate) async fn run(dir: &Path, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let few = steps(dir, "e-few.db", 0, FEW).await?;
    let done = steps(dir, "e-done.db", sizes.done_rows, FEW).await?;
    report.cost(&format!("e: claim of 50, {} done rows against none", sizes.done_rows), "VM steps", done, few);
    let many = steps(dir, "e-many.db", 0, sizes.pending_rows).await?;
    report.cost(&format!("e: claim of 50, {} pending against {FEW}", sizes.pending_rows), "VM steps", many, few);
    Ok(())
}

async fn steps(dir: &Path, name: &str, done: usize, pending: usize) -> anyhow::Result<f64> {
    let store = open(dir, name).await?;
    if done > 0 {
        fill(&store, done, Payload::default()).await?;
        // Marked done by hand: what matters is that the rows are there.
        store
            .write(|tx| {
                tx.execute(
                    "INSERT INTO outbox_messages_done (from_seq, to_seq, no, at)
                     SELECT seq, seq, 1, created_at FROM outbox_messages_fresh",
                    [],
                )?;
                tx.execute("UPDATE outbox_messages_front SET next = (SELECT max(seq) + 1 FROM outbox_messages)", [])?;
                Ok(())
            })
            .await?;
    }
    fill(&store, pending, Payload::default()).await?;
    let conn = Connection::open(dir.join(name))?;
    Ok(f64::from(claim_steps(&conn)?))
}

/// The statements of a claim, in the store's own words, run in a transaction that is rolled back. The last two say
/// where the front is, and read on from there until the claim has enough.
fn claim_steps(conn: &Connection) -> anyhow::Result<i32> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let (mut steps, mut front) = (0, 0_i64);
    for sql in SqliteStore::claim_statements(&postroom::sql::TableNames::default(), Queue::Outbox) {
        let mut statement = conn.prepare(&sql)?;
        let values = statement.parameter_count();
        match values {
            0 => {}
            1 => statement.raw_bind_parameter(1, front)?,
            _ => {
                statement.raw_bind_parameter(1, 4_000_000_000_000_000_i64)?;
                statement.raw_bind_parameter(2, i64::from(BATCH))?;
            }
        }
        let (mut rows, mut left) = (statement.raw_query(), if values == 1 { BATCH } else { u32::MAX });
        while let Some(row) = rows.next()?.filter(|_| left > 0) {
            front = if values == 0 { row.get(0)? } else { front };
            left -= 1;
        }
        drop(rows);
        steps += statement.get_status(StatementStatus::VmStep);
    }
    conn.execute_batch("ROLLBACK")?;
    Ok(steps)
}

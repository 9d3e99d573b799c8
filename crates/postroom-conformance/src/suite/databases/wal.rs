//! The write-ahead log does not grow for ever.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::ensure;
use postroom::NewMessage;
use postroom::queue::Queue;
use postroom::sqlite::Sqlite;
use rusqlite::Connection;

use crate::case::{Verdict, cases};
use crate::harness::{Stage, soon};

cases! { wal:
    sqlite readers_and_the_writer_do_not_wait_for_each_other ["SQM-9.2"];
    sqlite the_log_becomes_short_again_although_somebody_always_reads ["SQM-9.2"];
}

/// More than any log may grow to.
const TOO_LONG: u64 = 3 << 30;
/// From here on a log is long.
const LONG: u64 = 64 << 20;

fn seen(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("SELECT count(*) FROM outbox_messages", [], |row| row.get(0))
}

async fn readers_and_the_writer_do_not_wait_for_each_other(stage: &Stage<Sqlite>) -> Verdict {
    let (side, path) = (stage.side(Queue::Outbox), stage.place.path("store.db"));
    side.add("before").await?;
    let (reading, writing) = (Connection::open(&path)?, Connection::open(&path)?);
    reading.execute_batch("BEGIN")?;
    assert_eq!(seen(&reading)?, 1);
    soon("a message is stored while somebody reads", stage.outbox.enqueue(NewMessage::new("meanwhile", ""))).await??;
    assert_eq!(seen(&reading)?, 1, "who reads sees one and the same moment");
    writing.execute_batch("BEGIN IMMEDIATE; DELETE FROM outbox_messages")?;
    assert_eq!(soon("the queue is read while somebody writes", side.rows()).await??, 2);
    writing.execute_batch("ROLLBACK")?;
    Ok(())
}

struct Readers {
    path: PathBuf,
    commits: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Readers {
    /// Before one ends the next has begun, and each is older than the last commit.
    fn run(&self, begun: &mpsc::Sender<()>) -> rusqlite::Result<()> {
        let [mut first, mut second] = [Connection::open(&self.path)?, Connection::open(&self.path)?];
        let read = |conn: &Connection| conn.execute_batch("BEGIN; SELECT count(*) FROM outbox_messages;");
        read(&first)?;
        let (never, nothing) = mpsc::channel::<()>();
        while !self.stop.load(Ordering::SeqCst) {
            read(&second)?;
            let _ = begun.send(());
            let until = self.commits.load(Ordering::SeqCst) + 2;
            // While a checkpoint waits for them nobody commits: they end in the end.
            for _ in 0..10 {
                if self.commits.load(Ordering::SeqCst) < until {
                    let _ = nothing.recv_timeout(Duration::from_millis(2));
                }
            }
            first.execute_batch("COMMIT")?;
            std::mem::swap(&mut first, &mut second);
        }
        drop(never);
        Ok(())
    }
}

async fn the_log_becomes_short_again_although_somebody_always_reads(stage: &Stage<Sqlite>) -> Verdict {
    let path = stage.place.path("store.db");
    stage.store.write(|tx| Ok(tx.execute_batch("CREATE TABLE blobs (id INTEGER PRIMARY KEY, it BLOB)")?)).await?;
    let (commits, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let readers = Readers { path, commits: commits.clone(), stop: stop.clone() };
    let (begin, begun) = mpsc::channel();
    let reading = std::thread::spawn(move || readers.run(&begin));
    begun.recv()?;
    let mut longest = 0;
    let verdict = loop {
        stage.store.write(|tx| Ok(tx.execute_batch("REPLACE INTO blobs VALUES (1, randomblob(1000000))")?)).await?;
        commits.fetch_add(1, Ordering::SeqCst);
        let length = std::fs::metadata(stage.place.path("store.db-wal"))?.len();
        longest = length.max(longest);
        if longest > LONG && length < longest / 4 || length > TOO_LONG {
            break length;
        }
    };
    stop.store(true, Ordering::SeqCst);
    reading.join().map_err(|_| anyhow::anyhow!("the readers panicked"))??;
    ensure!(verdict < TOO_LONG, "the log has {verdict} bytes");
    Ok(())
}

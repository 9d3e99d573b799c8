//! Neither the write-ahead log nor the file grows for ever.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::ensure;
use postroom::message::OwnerToken;
use postroom::queue::Queue;
use postroom::sqlite::{Sqlite, SqliteOptions};
use postroom::{NewMessage, Outbox};
use rusqlite::Connection;

use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Stage, soon};

cases! { wal:
    sqlite readers_and_the_writer_do_not_wait_for_each_other ["SQM-9.2"];
    sqlite the_log_becomes_short_again_although_somebody_always_reads ["SQM-9.2"];
    sqlite the_space_of_purged_messages_is_given_back [];
    sqlite a_file_of_somebody_else_keeps_its_free_pages [];
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

/// Fills an outbox with large messages, handles them all and purges them. Returns how many pages the file had before,
/// and how many it has now.
async fn filled_and_purged(stage: &Stage<Sqlite>, outbox: &Outbox, path: &Path) -> anyhow::Result<(i64, i64)> {
    let pages =
        || -> anyhow::Result<i64> { Ok(Connection::open(path)?.query_row("PRAGMA page_count", [], |row| row.get(0))?) };
    outbox.enqueue_many((0..2000).map(|_| NewMessage::new("a", "x".repeat(10_000)))).await?;
    let claims = outbox.queue().claim(OwnerToken::new(), LEASE, 2000).await?;
    let acked = outbox.queue().ack(claims.claimed.into_iter().map(|claimed| claimed.lease)).await?;
    assert_eq!(acked.applied, 2000);
    stage.advance(LEASE);
    let before = pages()?;
    // Maintenance goes on like this, also when nothing is left to delete.
    let mut purged = 0;
    for _ in 0..40 {
        purged += outbox.queue().purge(Duration::ZERO, 100).await?;
    }
    assert_eq!(purged, 2000);
    Ok((before, pages()?))
}

async fn the_space_of_purged_messages_is_given_back(stage: &Stage<Sqlite>) -> Verdict {
    let (before, after) = filled_and_purged(stage, &stage.outbox, &stage.place.path("store.db")).await?;
    ensure!(before > 5000 && after < before / 3, "the file had {before} pages and has {after}");
    Ok(())
}

/// Whoever made the file decides how it is kept.
async fn a_file_of_somebody_else_keeps_its_free_pages(stage: &Stage<Sqlite>) -> Verdict {
    let path = stage.place.path("theirs.db");
    Connection::open(&path)?.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)")?;
    let store = SqliteOptions::new(&path).deploy_schema(true).open().await?;
    let (before, after) = filled_and_purged(stage, &Outbox::new(store), &path).await?;
    assert_eq!(before, after);
    Ok(())
}

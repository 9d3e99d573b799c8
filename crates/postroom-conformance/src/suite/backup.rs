//! A copy as of one moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use postroom::{ErrorKind, NewMessage, Outbox, Sqlite, SqliteOptions, restore_check};
use tokio::task::JoinSet;

use crate::case::{Verdict, cases};
use crate::harness::{Stage, refused};

cases! { backup:
    sqlite a_copy_is_whole_while_others_write [];
    sqlite a_file_that_exists_is_not_overwritten [];
    sqlite a_damaged_copy_is_told [];
    sqlite progress_is_told_to_the_end [];
}

/// Two messages in one transaction: a copy has both or neither.
async fn a_copy_is_whole_while_others_write(stage: &Stage<Sqlite>) -> Verdict {
    let stop = Arc::new(AtomicBool::new(false));
    let (outbox, stopping) = (stage.outbox.clone(), stop.clone());
    let mut writing = JoinSet::new();
    writing.spawn(async move {
        while !stopping.load(Ordering::SeqCst) {
            let pair = vec![NewMessage::new("left", "x".repeat(2000)), NewMessage::new("right", "")];
            outbox.enqueue_many(pair).await?;
        }
        anyhow::Ok(())
    });
    for n in 0..5 {
        let path = stage.place.path(&format!("copy-{n}.db"));
        stage.store.backup(&path, |_| {}).await?;
        restore_check(&path)?;
        let copy = Outbox::new(SqliteOptions::new(&path).open().await?);
        let count = async |topic: &str| -> anyhow::Result<i64> {
            let sql = "SELECT count(*) FROM outbox_messages WHERE topic = ?1";
            Ok(rusqlite::Connection::open(&path)?.query_row(sql, [topic], |row| row.get(0))?)
        };
        assert_eq!(count("left").await?, count("right").await?);
        copy.enqueue(NewMessage::new("a copy is a store", "")).await?;
    }
    stop.store(true, Ordering::SeqCst);
    while let Some(ended) = writing.join_next().await {
        ended??;
    }
    Ok(())
}

async fn a_file_that_exists_is_not_overwritten(stage: &Stage<Sqlite>) -> Verdict {
    let path = stage.place.path("precious.txt");
    std::fs::write(&path, "precious")?;
    refused(stage.store.backup(&path, |_| {}).await, ErrorKind::InvalidInput, "a file that exists")?;
    assert_eq!(std::fs::read_to_string(&path)?, "precious");
    Ok(())
}

async fn a_damaged_copy_is_told(stage: &Stage<Sqlite>) -> Verdict {
    stage.side(postroom::Queue::Outbox).add_many("a", 500).await?;
    let path = stage.place.path("copy.db");
    stage.store.backup(&path, |_| {}).await?;
    let mut bytes = std::fs::read(&path)?;
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8192].fill(0xAA);
    std::fs::write(&path, bytes)?;
    assert!(restore_check(&path).is_err());
    assert!(restore_check(&stage.place.path("nothing.db")).is_err());
    Ok(())
}

async fn progress_is_told_to_the_end(stage: &Stage<Sqlite>) -> Verdict {
    let (done, total) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (done_told, total_told) = (done.clone(), total.clone());
    let tell = move |progress: postroom::BackupProgress| {
        done_told.store(progress.pages_done, Ordering::SeqCst);
        total_told.store(progress.pages_total, Ordering::SeqCst);
    };
    stage.store.backup(stage.place.path("copy.db"), tell).await?;
    assert!(total.load(Ordering::SeqCst) > 0);
    assert_eq!(done.load(Ordering::SeqCst), total.load(Ordering::SeqCst));
    Ok(())
}

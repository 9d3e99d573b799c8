//! A copy as of one moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use postroom::sqlite::{Sqlite, SqliteOptions, restore_check};
use postroom::{ErrorKind, NewMessage, Outbox};
use tokio::task::JoinSet;

use crate::case::{Verdict, cases};
use crate::harness::{Stage, refused};

cases! { backup:
    sqlite a_copy_is_whole_while_others_write ["SQM-9.4.1"];
    sqlite a_file_that_exists_is_not_overwritten [];
    sqlite a_damaged_copy_is_told ["SQM-8.10"];
    sqlite progress_is_told_to_the_end [];
    sqlite a_copy_has_pages_of_any_size [];
    sqlite a_copy_is_written_once [];
    sqlite a_copy_has_its_name_only_when_it_is_whole [];
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
    stage.side(postroom::queue::Queue::Outbox).add_many("a", 500).await?;
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
    let tell = move |progress: postroom::sqlite::BackupProgress| {
        done_told.store(progress.pages_done, Ordering::SeqCst);
        total_told.store(progress.pages_total, Ordering::SeqCst);
    };
    stage.store.backup(stage.place.path("copy.db"), tell).await?;
    assert!(total.load(Ordering::SeqCst) > 0);
    assert_eq!(done.load(Ordering::SeqCst), total.load(Ordering::SeqCst));
    Ok(())
}

/// A file whose pages have this size, with a store in it.
async fn with_pages(stage: &Stage<Sqlite>, bytes: u32) -> anyhow::Result<postroom::sqlite::SqliteStore> {
    let path = stage.place.path(&format!("pages-{bytes}.db"));
    let conn = rusqlite::Connection::open(&path)?;
    conn.execute_batch(&format!("PRAGMA page_size = {bytes}; CREATE TABLE cats (name TEXT)"))?;
    drop(conn);
    Ok(SqliteOptions::new(&path).deploy_schema(true).open().await?)
}

async fn a_copy_has_pages_of_any_size(stage: &Stage<Sqlite>) -> Verdict {
    for bytes in [512, 1024, 4096, 8192, 65_536] {
        let store = with_pages(stage, bytes).await?;
        let messages: Vec<_> = (0..50).map(|n| NewMessage::new("a", format!("{n}").repeat(1000))).collect();
        Outbox::new(store.clone()).enqueue_many(messages).await?;
        let path = stage.place.path(&format!("copy-{bytes}.db"));
        store.backup(&path, |_| {}).await?;
        restore_check(&path)?;
        let conn = rusqlite::Connection::open(&path)?;
        assert_eq!(conn.query_row("PRAGMA page_size", [], |row| row.get::<_, u32>(0))?, bytes);
        assert_eq!(conn.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0))?, "wal");
        drop(conn);
        let copy = Outbox::new(SqliteOptions::new(&path).open().await?);
        copy.enqueue(NewMessage::new("a copy is a store", "")).await?;
        assert_eq!(copy.queue().stats().await?.ready, 51);
    }
    Ok(())
}

/// What lies in a folder, by name.
fn files_in(folder: &std::path::Path) -> std::io::Result<Vec<(String, u64)>> {
    let files = std::fs::read_dir(folder)?.filter_map(Result::ok);
    Ok(files.filter_map(|file| Some((file.file_name().into_string().ok()?, file.metadata().ok()?.len()))).collect())
}

/// Through a log the whole of it would be written twice, and need twice the room for a while.
async fn a_copy_is_written_once(stage: &Stage<Sqlite>) -> Verdict {
    let messages: Vec<_> = (0..40).map(|_| NewMessage::new("a", "x".repeat(1_000_000))).collect();
    stage.outbox.enqueue_many(messages).await?;
    let folder = stage.place.path("copies");
    std::fs::create_dir(&folder)?;
    let (others, looking) = (Arc::new(AtomicU64::new(0)), folder.clone());
    let seen = others.clone();
    let look = move |_| {
        let files = files_in(&looking).unwrap_or_default();
        let beside = files.iter().filter(|(name, _)| name != "copy.db.partial").count();
        seen.fetch_max(u64::try_from(beside).unwrap_or(u64::MAX), Ordering::SeqCst);
    };
    stage.store.backup(folder.join("copy.db"), look).await?;
    assert_eq!(others.load(Ordering::SeqCst), 0, "a log, or a journal");
    let files = files_in(&folder)?;
    assert!(matches!(&files[..], [(name, bytes)] if name == "copy.db" && *bytes > 40_000_000), "{files:?}");
    Ok(())
}

/// A program that is killed in the middle leaves nothing that looks like a backup.
async fn a_copy_has_its_name_only_when_it_is_whole(stage: &Stage<Sqlite>) -> Verdict {
    stage.side(postroom::queue::Queue::Outbox).add_many("a", 500).await?;
    let path = stage.place.path("copy.db");
    let (seen, looking) = (Arc::new(AtomicBool::new(false)), path.clone());
    let was_seen = seen.clone();
    stage.store.backup(&path, move |_| was_seen.store(looking.exists(), Ordering::SeqCst)).await?;
    assert!(!seen.load(Ordering::SeqCst) && path.exists());
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path)?.permissions());
    assert_eq!(mode & 0o777, 0o600);
    let left = stage.place.path("next.db.partial");
    std::fs::write(&left, "left by a program that was killed")?;
    let told = stage.store.backup(stage.place.path("next.db"), |_| {}).await;
    refused(told, ErrorKind::InvalidInput, "what was left")?;
    std::fs::remove_file(&left)?;
    stage.store.backup(stage.place.path("next.db"), |_| {}).await?;
    Ok(())
}

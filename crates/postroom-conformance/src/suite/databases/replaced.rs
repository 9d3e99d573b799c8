//! Another file in place of a SQLite database that is open, or none.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use postroom::queue::Queue;
use postroom::sql::TableNames;
use postroom::sqlite::{Sqlite, SqliteOptions, SqliteStore, restore_check};
use postroom::{ErrorKind, NewMessage, Outbox};
use rusqlite::Connection;

use crate::case::{Verdict, cases};
use crate::harness::{Stage, eventually, refused};
use crate::suite::databases::processes;

cases! { replaced:
    sqlite a_file_that_was_replaced_is_noticed_before_anything_is_acknowledged [];
    sqlite the_log_of_the_old_file_is_never_read_into_the_new_one [];
    sqlite a_file_without_the_tables_is_not_used [];
    sqlite a_file_that_was_deleted_is_not_made_anew [];
    sqlite a_file_that_was_moved_away_has_everything_and_goes_on_when_it_is_back [];
    sqlite a_new_file_waits_until_every_program_has_left_the_old_one [];
    sqlite a_store_may_be_made_anew_where_one_was_deleted [];
}

/// Creates a separate store with this many messages, and closes it.
async fn other(stage: &Stage<Sqlite>, messages: usize) -> anyhow::Result<PathBuf> {
    let path = stage.place.path("other.db");
    let store = SqliteOptions::new(&path).deploy_schema(true).clock(stage.place.clock()).open().await?;
    let outbox = Outbox::new(store.clone());
    outbox.enqueue_many((0..messages).map(|_| NewMessage::new("other", ""))).await?;
    store.close().await;
    Ok(path)
}

fn topics(path: &Path) -> anyhow::Result<Vec<String>> {
    let conn = Connection::open(path)?;
    let mut select = conn.prepare("SELECT topic FROM outbox_messages ORDER BY seq")?;
    Ok(select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

async fn is_refused(stage: &Stage<Sqlite>, words: &[&str]) -> Verdict {
    let error = stage.outbox.enqueue(NewMessage::new("lost", "")).await.err().context("it was acknowledged")?;
    let (text, path) = (error.to_string(), stage.place.path("store.db"));
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{text}");
    assert!(text.contains(path.to_str().context("no name")?), "{text}");
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    Ok(())
}

async fn a_file_that_was_replaced_is_noticed_before_anything_is_acknowledged(stage: &Stage<Sqlite>) -> Verdict {
    let (path, new) = (stage.place.path("store.db"), other(stage, 2).await?);
    stage.side(Queue::Outbox).add("old").await?;
    std::fs::rename(&new, &path)?;
    is_refused(stage, &["another file was put in its place"]).await?;
    stage.outbox.enqueue(NewMessage::new("new", "")).await?;
    assert_eq!(topics(&path)?, ["other", "other", "new"]);
    assert_eq!(stage.side(Queue::Outbox).claim(10).await?.len(), 3);
    assert_eq!(stage.outbox.queue().stats().await?.leased, 3);
    Ok(())
}

/// The log goes by the name of the file, and says nothing else about whose it is.
async fn the_log_of_the_old_file_is_never_read_into_the_new_one(stage: &Stage<Sqlite>) -> Verdict {
    let (path, new, old) = (stage.place.path("store.db"), other(stage, 2).await?, stage.place.path("old.db"));
    stage.side(Queue::Outbox).add_many("old", 50).await?;
    // Readers and the watch have it open too.
    stage.outbox.queue().stats().await?;
    assert!(std::fs::metadata(stage.place.path("store.db-wal"))?.len() > 0);
    std::fs::hard_link(&path, &old)?;
    std::fs::rename(&new, &path)?;
    // A question comes first this time: a reader must not mix the two either.
    assert_eq!(stage.outbox.queue().stats().await?.ready, 2);
    stage.outbox.enqueue(NewMessage::new("new", "")).await?;
    assert_eq!(topics(&path)?, ["other", "other", "new"]);
    restore_check(&path)?;
    assert_eq!(topics(&old)?.len(), 50, "what was acknowledged before is in the old file, without its log");
    restore_check(&old)?;
    Ok(())
}

async fn a_file_without_the_tables_is_not_used(stage: &Stage<Sqlite>) -> Verdict {
    let (path, new) = (stage.place.path("store.db"), stage.place.path("new.db"));
    stage.side(Queue::Outbox).add("old").await?;
    Connection::open(&new)?.execute_batch("CREATE TABLE cats (name TEXT)")?;
    std::fs::rename(&new, &path)?;
    is_refused(stage, &["another file was put in its place"]).await?;
    refused(stage.outbox.enqueue(NewMessage::new("a", "")).await, ErrorKind::Schema, "a file without tables")?;
    Connection::open(&path)?.execute_batch(&SqliteStore::schema(&TableNames::default()))?;
    stage.outbox.enqueue(NewMessage::new("new", "")).await?;
    assert_eq!(topics(&path)?, ["new"]);
    Ok(())
}

async fn a_file_that_was_deleted_is_not_made_anew(stage: &Stage<Sqlite>) -> Verdict {
    let path = stage.place.path("store.db");
    stage.side(Queue::Outbox).add("old").await?;
    std::fs::remove_file(&path)?;
    for _ in 0..3 {
        is_refused(stage, &["deleted", "restore"]).await?;
        refused(stage.outbox.queue().stats().await, ErrorKind::Unavailable, "a question")?;
        assert!(!path.exists(), "an empty database took its place");
    }
    let new = other(stage, 1).await?;
    std::fs::rename(&new, &path)?;
    stage.outbox.enqueue(NewMessage::new("new", "")).await?;
    assert_eq!(topics(&path)?, ["other", "new"]);
    Ok(())
}

async fn a_file_that_was_moved_away_has_everything_and_goes_on_when_it_is_back(stage: &Stage<Sqlite>) -> Verdict {
    let (path, away) = (stage.place.path("store.db"), stage.place.path("away.db"));
    let side = stage.side(Queue::Outbox);
    side.add_many("a", 20).await?;
    std::fs::rename(&path, &away)?;
    is_refused(stage, &["moved away"]).await?;
    assert_eq!(topics(&away)?.len(), 20, "it needs no log that was left behind");
    std::fs::rename(&away, &path)?;
    side.add("b").await?;
    assert_eq!(side.rows().await?, 21);
    restore_check(&path)?;
    Ok(())
}

/// Another process that has the file open and reads it.
fn holder(path: &Path) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    processes::as_child(&mut command, "holder", path);
    Ok(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?)
}

/// Plays the part of [`holder`]: it ends when the case says so.
pub(super) fn hold(path: &Path) -> Verdict {
    let conn = Connection::open(path)?;
    let _: i64 = conn.query_row("SELECT count(*) FROM outbox_messages", [], |row| row.get(0))?;
    std::fs::write(path.with_extension("held"), "")?;
    std::io::read_to_string(std::io::stdin())?;
    Ok(())
}

async fn a_new_file_waits_until_every_program_has_left_the_old_one(stage: &Stage<Sqlite>) -> Verdict {
    let (path, new) = (stage.place.path("store.db"), other(stage, 2).await?);
    stage.side(Queue::Outbox).add("old").await?;
    let mut holder = holder(&path)?;
    let held = path.with_extension("held");
    eventually("it has the file open", || async { Ok(held.exists()) }).await?;
    std::fs::rename(&new, &path)?;
    is_refused(stage, &["another file was put in its place"]).await?;
    for _ in 0..3 {
        is_refused(stage, &["End every program that has the old file open"]).await?;
    }
    drop(holder.stdin.take());
    holder.wait()?;
    stage.outbox.enqueue(NewMessage::new("new", "")).await?;
    assert_eq!(topics(&path)?, ["other", "other", "new"]);
    restore_check(&path)?;
    Ok(())
}

/// As a test suite does it that begins with an empty file each time.
async fn a_store_may_be_made_anew_where_one_was_deleted(stage: &Stage<Sqlite>) -> Verdict {
    let path = stage.place.path("store.db");
    stage.side(Queue::Outbox).add("old").await?;
    std::fs::remove_file(&path)?;
    let anew = Outbox::new(stage.place.sqlite_options().open().await?);
    anew.enqueue(NewMessage::new("new", "")).await?;
    assert_eq!(topics(&path)?, ["new"]);
    stage.side(Queue::Outbox).add("of the first store").await?;
    assert_eq!(anew.queue().stats().await?.ready, 2);
    Ok(())
}

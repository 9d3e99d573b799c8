//! In a SQLite file.

use std::path::{Path, PathBuf};

use anyhow::Context;
use futures_util::future::join_all;
use postroom::queue::Queue;
use postroom::sqlite::{Sqlite, SqliteOptions, SqliteStore};
use postroom::{ErrorKind, Handlers, NewMessage, Outbox, Worker, WorkerOptions};
use postroom_testbed::{Age, OldKind};
use tokio::task::JoinSet;

use super::{AGES, contents, is_handled_once, old};
use crate::case::{Verdict, cases};
use crate::harness::{START, Stage, eventually, refused};
use crate::script::{Running, Script};

cases! { migrate:
    sqlite every_message_is_carried_as_it_was [];
    sqlite carried_tables_are_those_of_a_new_file [];
    sqlite a_worker_that_waits_handles_each_message_once [];
    sqlite an_old_program_settles_nothing_any_more [];
    sqlite several_programs_may_migrate_at_once [];
    sqlite a_step_that_fails_changes_nothing [];
    sqlite triggers_and_keys_of_others_stay_as_they_are [];
    sqlite a_newer_schema_is_refused_before_anything_is_written [];
    sqlite a_newer_schema_that_allows_it_is_used [];
    sqlite old_tables_are_left_alone_unless_asked_to [];
}

/// A file as a program of the first version left it.
fn old_file(stage: &Stage<Sqlite>, name: &str, age: Age) -> anyhow::Result<PathBuf> {
    let (path, old) = (stage.place.path(name), old(OldKind::Sqlite, age));
    let conn = rusqlite::Connection::open(&path)?;
    conn.execute_batch("PRAGMA journal_mode = WAL")?;
    conn.execute_batch(&[old.tables(), old.rows(START.as_micros())].concat())?;
    // A number that was given once and is free again.
    conn.execute_batch("UPDATE sqlite_sequence SET seq = 20 WHERE name = 'outbox_messages'")?;
    Ok(path)
}

fn options(stage: &Stage<Sqlite>, path: &Path) -> SqliteOptions {
    SqliteOptions::new(path).clock(stage.place.clock())
}

fn rows(path: &Path, sql: &str) -> anyhow::Result<Vec<String>> {
    let conn = rusqlite::Connection::open(path)?;
    let mut select = conn.prepare(sql).with_context(|| sql.to_owned())?;
    Ok(select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

fn all_rows(path: &Path, age: Age, tables: [&str; 2]) -> anyhow::Result<Vec<Vec<String>>> {
    let text = |column: &str| format!("CASE typeof({column}) WHEN 'blob' THEN hex({column}) ELSE {column} END");
    contents(old(OldKind::Sqlite, age), tables, text).iter().map(|query| rows(path, query)).collect()
}

async fn every_message_is_carried_as_it_was(stage: &Stage<Sqlite>) -> Verdict {
    for (age, name) in AGES.into_iter().zip(["first.db", "last.db"]) {
        let path = old_file(stage, name, age)?;
        let before = all_rows(&path, age, ["outbox_messages", "inbox_messages"])?;
        assert!(before.iter().all(|rows| !rows.is_empty()), "the fixture has rows for every query");
        let done = options(stage, &path).migrate(None).await?;
        assert_eq!((done.from, done.to), (Some(1), 2));
        let views = ["outbox_messages_state", "inbox_messages_state"];
        assert_eq!(all_rows(&path, age, views)?, before);
        let by_state = ["outbox_messages_by_state", "inbox_messages_by_state"];
        assert_eq!(all_rows(&path, age, by_state)?, before);
        for view in ["outbox_messages_misplaced", "inbox_messages_misplaced"] {
            assert!(rows(&path, &format!("SELECT seq || ' ' || places FROM {view}"))?.is_empty(), "{view}");
        }
        let fronts =
            "SELECT CAST(o.next || ' ' || i.next AS TEXT) FROM outbox_messages_front o, inbox_messages_front i";
        assert_eq!(rows(&path, fronts)?, ["21 8"], "the next numbers");
    }
    Ok(())
}

/// Whoever carries their tables over has the same as whoever creates them.
async fn carried_tables_are_those_of_a_new_file(stage: &Stage<Sqlite>) -> Verdict {
    let objects = "SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY type, name";
    let fresh = stage.place.path("fresh.db");
    options(stage, &fresh).migrate(None).await?;
    for (age, name) in AGES.into_iter().zip(["first.db", "last.db"]) {
        let path = old_file(stage, name, age)?;
        options(stage, &path).migrate(None).await?;
        assert_eq!(rows(&path, objects)?, rows(&fresh, objects)?);
    }
    Ok(())
}

/// A worker of the new version is started while an old program still writes. It gets its turn when that has committed.
async fn a_worker_that_waits_handles_each_message_once(stage: &Stage<Sqlite>) -> Verdict {
    let path = old_file(stage, "first.db", Age::First)?;
    let conn = rusqlite::Connection::open(&path)?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let mut opening = JoinSet::new();
    opening.spawn(options(stage, &path).deploy_schema(true).open());
    let late = "INSERT INTO outbox_messages (id, topic, payload, visible_at, created_at)
        VALUES (randomblob(16), 'a', 'late', ?1, ?1)";
    conn.execute(late, [START.as_micros()])?;
    assert!(opening.try_join_next().is_none(), "it works on tables that an old program writes to");
    conn.execute_batch("COMMIT")?;
    let Some(store) = opening.join_next().await else { anyhow::bail!("nobody opens it") };
    let store = store??;
    let script = Script::succeed();
    is_handled_once(stage, store.clone(), &script, &["late".into()], |queue| work(&store, queue, &script)).await
}

fn work(store: &SqliteStore, queue: Queue, script: &Script) -> Running {
    let handlers: Handlers<Sqlite> = script.handlers();
    let worker = match queue {
        Queue::Outbox => Worker::outbox(store.clone(), handlers),
        Queue::Inbox => Worker::inbox(store.clone(), handlers),
    };
    Running::start(worker.options(WorkerOptions::default()))
}

async fn an_old_program_settles_nothing_any_more(stage: &Stage<Sqlite>) -> Verdict {
    let path = old_file(stage, "first.db", Age::First)?;
    let conn = rusqlite::Connection::open(&path)?;
    let ack = "UPDATE outbox_messages SET state = 2, owner = NULL WHERE seq = 4 AND claim_no = 1";
    drop(conn.prepare_cached(ack)?);
    options(stage, &path).migrate(None).await?;
    let acked = conn.prepare_cached(ack).and_then(|mut ack| ack.execute([]));
    acked.expect_err("an old program settled what it does not understand");
    let lease = "SELECT state || ' ' || hex(owner) || ' ' || claim_no FROM outbox_messages_state WHERE seq = 4";
    assert_eq!(rows(&path, lease)?, [format!("1 {:0>32} 1", "A4")]);
    Ok(())
}

async fn several_programs_may_migrate_at_once(stage: &Stage<Sqlite>) -> Verdict {
    let path = old_file(stage, "last.db", Age::Last)?;
    let before = all_rows(&path, Age::Last, ["outbox_messages", "inbox_messages"])?;
    for done in join_all((0..8).map(|_| options(stage, &path).migrate(None))).await {
        assert_eq!(done?.to, 2);
    }
    assert_eq!(all_rows(&path, Age::Last, ["outbox_messages_state", "inbox_messages_state"])?, before);
    Ok(())
}

/// Another table is in the way, so that the step fails near its end.
async fn a_step_that_fails_changes_nothing(stage: &Stage<Sqlite>) -> Verdict {
    let path = old_file(stage, "last.db", Age::Last)?;
    let conn = rusqlite::Connection::open(&path)?;
    conn.execute_batch("CREATE TABLE inbox_messages_held (id INTEGER)")?;
    let everything = "SELECT type || name || coalesce(sql, '') FROM sqlite_schema ORDER BY name";
    let tables = ["outbox_messages", "inbox_messages"];
    let before = (rows(&path, everything)?, all_rows(&path, Age::Last, tables)?);
    options(stage, &path).migrate(None).await.expect_err("a table is in the way");
    assert_eq!((rows(&path, everything)?, all_rows(&path, Age::Last, tables)?), before);
    conn.execute_batch("DROP TABLE inbox_messages_held")?;
    options(stage, &path).migrate(None).await?;
    assert_eq!(all_rows(&path, Age::Last, ["outbox_messages_state", "inbox_messages_state"])?, before.1);
    Ok(())
}

async fn triggers_and_keys_of_others_stay_as_they_are(stage: &Stage<Sqlite>) -> Verdict {
    let path = old_file(stage, "last.db", Age::Last)?;
    let conn = rusqlite::Connection::open(&path)?;
    conn.execute_batch(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, message BLOB REFERENCES outbox_messages (id));
         CREATE TRIGGER placed AFTER INSERT ON orders
         BEGIN INSERT INTO outbox_messages (topic, payload) VALUES ('order.placed', NEW.id); END;",
    )?;
    options(stage, &path).migrate(None).await?;
    let conn = rusqlite::Connection::open(&path)?;
    conn.execute_batch("PRAGMA foreign_keys = ON; INSERT INTO orders SELECT 7, id FROM outbox_messages WHERE seq = 1")?;
    conn.execute_batch("INSERT INTO orders VALUES (8, x'00')").expect_err("there is no such message");
    assert_eq!(rows(&path, "SELECT payload FROM outbox_messages WHERE seq = 21")?, ["7"]);
    Ok(())
}

async fn a_newer_schema_is_refused_before_anything_is_written(stage: &Stage<Sqlite>) -> Verdict {
    let path = stage.place.path("newer.db");
    options(stage, &path).migrate(None).await?;
    let conn = rusqlite::Connection::open(&path)?;
    conn.execute_batch("UPDATE postroom_schema SET version = 9, needs = 7; PRAGMA wal_checkpoint(TRUNCATE)")?;
    drop(conn);
    let before = std::fs::read(&path)?;
    for deploy in [false, true] {
        let opened = options(stage, &path).deploy_schema(deploy).open().await;
        let why = opened.as_ref().err().map(ToString::to_string).unwrap_or_default();
        assert!(why.contains("version 9 and needs a program that knows at least version 7"), "{why}");
        refused(opened, ErrorKind::Schema, "a newer schema")?;
    }
    refused(options(stage, &path).migrate(None).await, ErrorKind::Schema, "a newer schema")?;
    refused(options(stage, &path).migrate(Some(2)).await, ErrorKind::Schema, "a way back")?;
    assert!(std::fs::read(&path)? == before, "the file was written");
    Ok(())
}

/// As in a roll-out: the newer program has migrated, and says that this one can go on.
async fn a_newer_schema_that_allows_it_is_used(stage: &Stage<Sqlite>) -> Verdict {
    let path = stage.place.path("newer.db");
    let running = options(stage, &path).deploy_schema(true).open().await?;
    running.write(|tx| Ok(tx.execute("UPDATE postroom_schema SET version = 9, needs = 2", [])?)).await?;
    let started = options(stage, &path).deploy_schema(true).open().await?;
    for store in [running, started.clone()] {
        Outbox::new(store).enqueue(NewMessage::new("a", "")).await?;
    }
    let script = Script::succeed();
    let worker = work(&started, Queue::Outbox, &script);
    eventually("both are handled", || async { Ok(script.count() == 2) }).await?;
    worker.stop().await?;
    assert_eq!(rows(&path, "SELECT version || ' ' || needs FROM postroom_schema")?, ["9 2"], "it was taken back");
    assert!(options(stage, &path).migration(None).await?.is_done());
    Ok(())
}

async fn old_tables_are_left_alone_unless_asked_to(stage: &Stage<Sqlite>) -> Verdict {
    let path = old_file(stage, "first.db", Age::First)?;
    let before = all_rows(&path, Age::First, ["outbox_messages", "inbox_messages"])?;
    refused(options(stage, &path).open().await, ErrorKind::Schema, "an old schema")?;
    assert_eq!(options(stage, &path).migrate(Some(1)).await?.to, 1);
    for to in [0, 3] {
        refused(options(stage, &path).migrate(Some(to)).await, ErrorKind::InvalidInput, "a version that is not there")?;
    }
    let ahead = options(stage, &path).migration(None).await?;
    assert_eq!((ahead.from, ahead.to, ahead.is_done()), (Some(1), 2, false));
    assert_eq!(all_rows(&path, Age::First, ["outbox_messages", "inbox_messages"])?, before);
    Ok(())
}

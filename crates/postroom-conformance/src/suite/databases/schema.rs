//! The tables of a SQLite file.

use postroom::sql::TableNames;
use postroom::sqlite::{Sqlite, SqliteOptions, SqliteStore};
use postroom::{ErrorKind, NewMessage, Outbox};
use tokio::task::JoinSet;

use crate::case::{Verdict, cases};
use crate::harness::{Stage, refused};

cases! { schema:
    sqlite is_created_when_asked_for ["OBX-091", "OBX-094", "IBX-114", "IBX-117", "API-5.2", "PLN-10"];
    sqlite is_not_created_unless_asked_for ["OBX-092", "IBX-115", "API-5.2"];
    sqlite is_used_as_it_is_when_it_is_there ["OBX-092", "IBX-115", "API-6.1"];
    sqlite can_be_deployed_again_and_again ["OBX-093", "IBX-116"];
    sqlite can_be_deployed_twice_at_once ["OBX-093", "IBX-116"];
    sqlite of_a_newer_version_is_refused [];
    sqlite can_be_printed_for_peoples_own_migrations [];
    sqlite has_the_indexes_that_claims_and_lookups_need [
        "OBX-094", "OBX-100", "IBX-117", "IBX-122", "IBX-125", "SQM-3.1.3", "SQM-4.1.2", "API-7.1"];
    sqlite has_the_key_and_the_index_that_marks_need ["PLN-2.2", "PLN-10"];
    sqlite lives_beside_other_tables_and_under_other_names ["API-5.1", "PLN-2.1"];
}

fn names(conn: &rusqlite::Connection, kind: &str) -> anyhow::Result<Vec<String>> {
    let mut found = conn.prepare("SELECT name FROM sqlite_schema WHERE type = ?1 ORDER BY name")?;
    let names = found.query_map([kind], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    Ok(names)
}

fn fresh(stage: &Stage<Sqlite>) -> SqliteOptions {
    SqliteOptions::new(stage.place.path("fresh.db"))
}

async fn is_created_when_asked_for(stage: &Stage<Sqlite>) -> Verdict {
    let store = fresh(stage).deploy_schema(true).open().await?;
    let tables = names(&rusqlite::Connection::open(store.path())?, "table")?;
    for table in ["outbox_messages", "outbox_messages_failures", "inbox_messages", "inbox_messages_failures"] {
        assert!(tables.iter().any(|name| name == table), "no {table} in {tables:?}");
    }
    assert!(tables.iter().any(|name| name == "inbox_messages_marks"));
    Outbox::new(store).enqueue(NewMessage::new("a", "")).await?;
    Ok(())
}

async fn is_not_created_unless_asked_for(stage: &Stage<Sqlite>) -> Verdict {
    let conn = rusqlite::Connection::open(stage.place.path("fresh.db"))?;
    conn.execute_batch("CREATE TABLE orders (id INTEGER)")?;
    refused(fresh(stage).open().await, ErrorKind::Schema, "a file without our tables")?;
    assert_eq!(names(&conn, "table")?, ["orders"]);
    assert!(names(&conn, "index")?.is_empty());
    Ok(())
}

async fn is_used_as_it_is_when_it_is_there(stage: &Stage<Sqlite>) -> Verdict {
    drop(fresh(stage).deploy_schema(true).open().await?);
    let before = std::fs::read(stage.place.path("fresh.db"))?.len();
    let store = fresh(stage).open().await?;
    Outbox::new(store).enqueue(NewMessage::new("a", "")).await?;
    assert!(before > 0);
    Ok(())
}

async fn can_be_deployed_again_and_again(stage: &Stage<Sqlite>) -> Verdict {
    for expected in 1..=4 {
        let outbox = Outbox::new(fresh(stage).deploy_schema(true).open().await?);
        outbox.enqueue(NewMessage::new("a", "")).await?;
        assert_eq!(outbox.queue().stats().await?.ready, expected, "what was there is gone");
    }
    Ok(())
}

async fn can_be_deployed_twice_at_once(stage: &Stage<Sqlite>) -> Verdict {
    let mut opening = JoinSet::new();
    for _ in 0..8 {
        opening.spawn(fresh(stage).deploy_schema(true).open());
    }
    let mut stores = Vec::new();
    while let Some(opened) = opening.join_next().await {
        stores.push(opened??);
    }
    for store in stores {
        Outbox::new(store).enqueue(NewMessage::new("a", "")).await?;
    }
    Ok(())
}

async fn of_a_newer_version_is_refused(stage: &Stage<Sqlite>) -> Verdict {
    stage.store.write(|tx| Ok(tx.execute("UPDATE postroom_schema SET version = 999", [])?)).await?;
    for deploy in [false, true] {
        let opened = stage.place.sqlite_options().deploy_schema(deploy).open().await;
        refused(opened, ErrorKind::Schema, "a newer schema")?;
    }
    let version = "SELECT version FROM postroom_schema";
    let version: i64 = stage.store.read(move |conn| Ok(conn.query_row(version, [], |row| row.get(0))?)).await?;
    assert_eq!(version, 999, "a newer schema was taken back");
    Ok(())
}

async fn can_be_printed_for_peoples_own_migrations(stage: &Stage<Sqlite>) -> Verdict {
    let sql = SqliteStore::schema(&TableNames::default());
    let conn = rusqlite::Connection::open(stage.place.path("own.db"))?;
    conn.execute_batch(&sql)?;
    conn.execute_batch(&sql)?;
    let deployed = rusqlite::Connection::open(stage.place.path("store.db"))?;
    for kind in ["table", "index"] {
        assert_eq!(names(&conn, kind)?, names(&deployed, kind)?);
    }
    drop(conn);
    // Running the printed text creates the schema; nothing else is needed to open it.
    let store = SqliteOptions::new(stage.place.path("own.db")).open().await?;
    Outbox::new(store).enqueue(NewMessage::new("a", "")).await?;
    Ok(())
}

async fn has_the_indexes_that_claims_and_lookups_need(stage: &Stage<Sqlite>) -> Verdict {
    let conn = rusqlite::Connection::open(stage.place.path("store.db"))?;
    for table in ["outbox_messages", "inbox_messages"] {
        for (select, search) in [
            ("SELECT seq FROM {table}_line WHERE crashes = 0 AND visible_at <= 7", "(visible_at<?)"),
            ("SELECT seq FROM {table}_line WHERE crashes = 0 AND place = 'a' AND visible_at <= 7", "(place=? AND"),
            ("SELECT from_seq FROM {table}_held WHERE until <= 7", "(until<?)"),
            ("SELECT from_seq FROM {table}_done WHERE at < 7", "(at<?)"),
            ("SELECT seq FROM {table}_trouble WHERE state > 0 AND state = 3 AND at < 7", "(state=? AND at<?)"),
        ] {
            let explain = format!("EXPLAIN QUERY PLAN {}", select.replace("{table}", table));
            let plan: String = conn.query_row(&explain, [], |row| row.get(3))?;
            assert!(plan.contains(search), "{explain}: {plan}");
        }
    }
    let plan = "EXPLAIN QUERY PLAN SELECT seq FROM inbox_messages WHERE source = 'a' AND message_id = 'b'";
    let plan: String = conn.query_row(plan, [], |row| row.get(3))?;
    assert!(plan.contains("(source=? AND message_id=?)"), "{plan}");
    Ok(())
}

async fn has_the_key_and_the_index_that_marks_need(stage: &Stage<Sqlite>) -> Verdict {
    let conn = rusqlite::Connection::open(stage.place.path("store.db"))?;
    let plan = |select: &str| -> anyhow::Result<String> {
        let sql = format!("EXPLAIN QUERY PLAN {select}");
        Ok(conn.query_row(&sql, [], |row| row.get(3))?)
    };
    let key = "SELECT marked_at FROM inbox_messages_marks WHERE source = 'a' AND message_id = 'b' AND handler = 'c'";
    let key = plan(key)?;
    assert!(key.contains("PRIMARY KEY (source=? AND message_id=? AND handler=?)"), "{key}");
    let old = plan("SELECT source FROM inbox_messages_marks WHERE handler = 'c' AND marked_at < 7")?;
    assert!(old.contains("(handler=? AND marked_at<?)"), "{old}");
    Ok(())
}

async fn lives_beside_other_tables_and_under_other_names(stage: &Stage<Sqlite>) -> Verdict {
    let path = stage.place.path("fresh.db");
    rusqlite::Connection::open(&path)?
        .execute_batch("CREATE TABLE orders (id INTEGER); INSERT INTO orders VALUES (7)")?;
    let names = TableNames::new("order_out", "order_in")?;
    let own = Outbox::new(fresh(stage).tables(names).deploy_schema(true).open().await?);
    let usual = Outbox::new(fresh(stage).deploy_schema(true).open().await?);
    own.enqueue(NewMessage::new("a", "")).await?;
    assert_eq!((own.queue().stats().await?.ready, usual.queue().stats().await?.ready), (1, 0));
    let order: i64 = rusqlite::Connection::open(&path)?.query_row("SELECT id FROM orders", [], |row| row.get(0))?;
    assert_eq!(order, 7);
    Ok(())
}

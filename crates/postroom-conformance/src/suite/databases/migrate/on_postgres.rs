//! On PostgreSQL.

use std::time::Duration;

use futures_util::future::join_all;
use postroom::postgres::{Postgres, PostgresOptions};
use postroom::queue::Queue;
use postroom::store::Store;
use postroom::{ErrorKind, NewMessage, Outbox, WorkerOptions};
use postroom_testbed::{Age, OldKind};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::task::JoinSet;

use super::{AGES, contents, is_handled_once, old};
use crate::case::{Verdict, cases};
use crate::harness::{START, Stage, eventually, refused};
use crate::on_server::{OnServer, PASSWORD};
use crate::script::Script;
use crate::servers;

cases! { migrate:
    postgres every_message_is_carried_as_it_was [];
    postgres carried_tables_are_those_of_a_new_database [];
    postgres a_worker_that_waits_handles_each_message_once [];
    postgres several_programs_may_migrate_at_once [];
    postgres a_step_that_fails_changes_nothing [];
    postgres who_could_use_the_messages_can_still_do_so [];
    postgres a_newer_schema_is_refused_before_anything_is_written [];
    postgres an_index_is_built_while_others_work [];
    postgres an_index_that_was_broken_off_is_built_again [];
}

/// Replaces the tables of the case by those that a program of the first version left.
async fn make_old(stage: &Stage<Postgres>, age: Age) -> Verdict {
    let (name, old) = (stage.place.own_name(), old(OldKind::Postgres, age));
    servers::postgres(&format!("DROP SCHEMA {name} CASCADE; CREATE SCHEMA {name}")).await?;
    Postgres::tell(&stage.place, &old.tables()).await?;
    Postgres::tell(&stage.place, &old.rows(START.as_micros())).await
}

fn options(stage: &Stage<Postgres>) -> postroom::Result<PostgresOptions> {
    stage.place.postgres_options()
}

async fn all_rows(stage: &Stage<Postgres>, age: Age, tables: [&str; 2]) -> anyhow::Result<Vec<Vec<String>>> {
    let mut all = Vec::new();
    for query in contents(old(OldKind::Postgres, age), tables, |column| format!("{column}::text")) {
        all.push(Postgres::ask(&stage.place, &query).await?);
    }
    Ok(all)
}

const OLD: [&str; 2] = ["outbox", "inbox"];
const NEW: [&str; 2] = ["outbox_state", "inbox_state"];

async fn every_message_is_carried_as_it_was(stage: &Stage<Postgres>) -> Verdict {
    for age in AGES {
        make_old(stage, age).await?;
        let before = all_rows(stage, age, OLD).await?;
        assert!(before.iter().all(|rows| !rows.is_empty()), "the fixture has rows for every query");
        let done = options(stage)?.migrate(None).await?;
        assert_eq!((done.from, done.to), (Some(1), 2));
        assert_eq!(all_rows(stage, age, NEW).await?, before);
        assert_eq!(all_rows(stage, age, ["outbox_by_state", "inbox_by_state"]).await?, before);
        for view in ["outbox_misplaced", "inbox_misplaced"] {
            assert!(Postgres::ask(&stage.place, &format!("SELECT seq::text FROM {view}")).await?.is_empty(), "{view}");
        }
        // A number is given once, and the function for other languages means one thing.
        Postgres::ask(&stage.place, "SELECT outbox_enqueue('a', 'new')::text").await?;
        assert_eq!(Postgres::ask(&stage.place, "SELECT max(seq)::text FROM outbox").await?, ["21"]);
    }
    Ok(())
}

/// Whoever carries their tables over has the same as whoever creates them. Only the order of columns may differ.
async fn carried_tables_are_those_of_a_new_database(stage: &Stage<Postgres>) -> Verdict {
    let own = stage.place.own_name();
    let objects = [
        "SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default, collation_name)
         FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1",
        "SELECT indexname || indexdef FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1",
        "SELECT concat_ws(' ', relname, relkind, array_to_string(reloptions, ' ')) FROM pg_class
         WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v', 'S') ORDER BY 1",
        "SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
         WHERE connamespace = current_schema()::regnamespace ORDER BY 1",
        "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace ORDER BY 1",
        "SELECT pg_get_triggerdef(t.oid) FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
         WHERE c.relnamespace = current_schema()::regnamespace ORDER BY 1",
        "SELECT viewname || (SELECT string_agg(rtrim(line, ','), ' ' ORDER BY rtrim(line, ','))
                             FROM regexp_split_to_table(definition, '\\n') AS line)
         FROM pg_views WHERE schemaname = current_schema() ORDER BY 1",
    ];
    let look = async || -> anyhow::Result<Vec<Vec<String>>> {
        let mut found = Vec::new();
        for query in objects {
            found.push(Postgres::ask(&stage.place, query).await?);
        }
        Ok(found)
    };
    servers::postgres(&format!("DROP SCHEMA {own} CASCADE")).await?;
    options(stage)?.migrate(None).await?;
    let fresh = look().await?;
    for age in AGES {
        make_old(stage, age).await?;
        options(stage)?.migrate(None).await?;
        assert_eq!(look().await?, fresh);
    }
    Ok(())
}

async fn connected(stage: &Stage<Postgres>) -> anyhow::Result<PgConnection> {
    let mut conn = PgConnection::connect(&servers::url(servers::POSTGRES)).await?;
    let path = format!("SET search_path TO {}", stage.place.own_name());
    sqlx::raw_sql(AssertSqlSafe(path)).execute(&mut conn).await?;
    Ok(conn)
}

/// How many statements wait for a lock on something of this case.
async fn waiting(stage: &Stage<Postgres>) -> anyhow::Result<bool> {
    let waits = "SELECT count(*)::text FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
         WHERE NOT l.granted AND c.relnamespace = current_schema()::regnamespace";
    Ok(Postgres::ask(&stage.place, waits).await? != ["0"])
}

/// A worker of the new version is started while an old program still writes. It gets its turn when that has committed.
async fn a_worker_that_waits_handles_each_message_once(stage: &Stage<Postgres>) -> Verdict {
    make_old(stage, Age::First).await?;
    let mut writer = connected(stage).await?;
    let late = "BEGIN; INSERT INTO outbox (id, topic, payload, visible_at, created_at)
         VALUES (gen_random_uuid(), 'a', 'late', 1, 1)";
    sqlx::raw_sql(late).execute(&mut writer).await?;
    let mut opening = JoinSet::new();
    opening.spawn(options(stage)?.open());
    eventually("it waits for the old program", || waiting(stage)).await?;
    sqlx::raw_sql("COMMIT").execute(&mut writer).await?;
    // The case's own worker is one that waited: its store was open, and its tables were taken away and come back.
    let Some(store) = opening.join_next().await else { anyhow::bail!("nobody opens it") };
    let store = store??;
    let script = Script::succeed();
    let work = |queue| stage.work(queue, &script, WorkerOptions::default());
    is_handled_once(stage, store, &script, &["late".into()], work).await
}

async fn several_programs_may_migrate_at_once(stage: &Stage<Postgres>) -> Verdict {
    make_old(stage, Age::Last).await?;
    let before = all_rows(stage, Age::Last, OLD).await?;
    let programs = (0..8).map(|_| options(stage)).collect::<Result<Vec<_>, _>>()?;
    for done in join_all(programs.into_iter().map(|options| options.migrate(None))).await {
        assert_eq!(done?.to, 2);
    }
    assert_eq!(all_rows(stage, Age::Last, NEW).await?, before);
    Ok(())
}

/// Somebody's view needs a column that goes.
async fn a_step_that_fails_changes_nothing(stage: &Stage<Postgres>) -> Verdict {
    make_old(stage, Age::Last).await?;
    Postgres::tell(&stage.place, "CREATE VIEW mine AS SELECT seq FROM inbox WHERE state = 3").await?;
    let before = all_rows(stage, Age::Last, OLD).await?;
    let error = options(stage)?.migrate(None).await.expect_err("a view is in the way");
    assert!(error.to_string().contains("depend on it"), "{error}");
    assert_eq!(all_rows(stage, Age::Last, OLD).await?, before);
    assert_eq!(Postgres::ask(&stage.place, "SELECT version::text FROM postroom_schema").await?, ["1"]);
    Postgres::tell(&stage.place, "DROP VIEW mine").await?;
    options(stage)?.migrate(None).await?;
    assert_eq!(all_rows(stage, Age::Last, NEW).await?, before);
    Ok(())
}

async fn who_could_use_the_messages_can_still_do_so(stage: &Stage<Postgres>) -> Verdict {
    make_old(stage, Age::Last).await?;
    let own = stage.place.own_name();
    let (worker, reader) = (format!("{own}_w"), format!("{own}_r"));
    Postgres::tell(
        &stage.place,
        &format!(
            "CREATE ROLE {worker} LOGIN PASSWORD '{PASSWORD}'; CREATE ROLE {reader} LOGIN PASSWORD '{PASSWORD}';
             GRANT USAGE ON SCHEMA {own} TO {worker}, {reader}; GRANT SELECT ON outbox, postroom_schema TO {reader};
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {own} TO {worker}"
        ),
    )
    .await?;
    let tried = async {
        options(stage)?.migrate(None).await?;
        let outbox = Outbox::new(Postgres::open_as(&stage.place, &worker, false).await?);
        outbox.enqueue(NewMessage::new("a", "")).await?;
        let owner = postroom::message::OwnerToken::new();
        let claims = outbox.queue().claim(owner, Duration::from_secs(60), 10).await?;
        anyhow::ensure!(!claims.claimed.is_empty(), "the worker may not work");
        let settles = claims.claimed.into_iter().map(|claimed| postroom::queue::Settle::ack(claimed.lease));
        assert_eq!(outbox.queue().settle(settles.collect()).await?.lost, 0);
        let keyed = NewMessage::new("a", "").unique(postroom::message::Unique::while_waiting("page-7"));
        assert!(outbox.enqueue(keyed).await?.is_new());
        Postgres::open_as(&stage.place, &worker, false).await?.sweep_keys(10).await?;
        let state = "SELECT state::text FROM outbox_state WHERE seq = 9";
        assert_eq!(Postgres::ask_as(&stage.place, &reader, state).await?, ["4"]);
        let delete = Postgres::ask_as(&stage.place, &reader, "DELETE FROM outbox_line RETURNING seq::text").await;
        anyhow::ensure!(delete.is_err(), "the reader may write");
        Ok(())
    };
    let tried = tried.await;
    for role in [worker, reader] {
        servers::postgres(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await?;
    }
    tried
}

async fn a_newer_schema_is_refused_before_anything_is_written(stage: &Stage<Postgres>) -> Verdict {
    Postgres::tell(&stage.place, "UPDATE postroom_schema SET version = 9, needs = 7").await?;
    let objects = "SELECT relname::text || oid::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace";
    let before = Postgres::ask(&stage.place, objects).await?;
    for deploy in [false, true] {
        let opened = options(stage)?.deploy_schema(deploy).open().await;
        let why = opened.as_ref().err().map(ToString::to_string).unwrap_or_default();
        assert!(why.contains("version 9 and needs a program that knows at least version 7"), "{why}");
        refused(opened, ErrorKind::Schema, "a newer schema")?;
    }
    refused(options(stage)?.migrate(None).await, ErrorKind::Schema, "a newer schema")?;
    assert_eq!(Postgres::ask(&stage.place, objects).await?, before);
    let version = "SELECT concat_ws(' ', version, needs) FROM postroom_schema";
    assert_eq!(Postgres::ask(&stage.place, version).await?, ["9 7"]);
    Ok(())
}

const INDEX: &str = "DROP INDEX CONCURRENTLY IF EXISTS {s}later;

CREATE UNIQUE INDEX CONCURRENTLY later ON {outbox} (topic, payload);
";

/// A later version adds an index. Several programs do it at once, while this one works, and it goes on afterwards.
async fn an_index_is_built_while_others_work(stage: &Stage<Postgres>) -> Verdict {
    let script = Script::succeed();
    let worker = stage.work(Queue::Outbox, &script, WorkerOptions::default());
    let programs = (0..3).map(|_| options(stage)).collect::<Result<Vec<_>, _>>()?;
    let building = join_all(programs.into_iter().map(|options| options.migrate_by(INDEX)));
    let working = async {
        for n in 0..20 {
            stage.outbox.enqueue(NewMessage::new("a", n.to_string())).await?;
        }
        anyhow::Ok(())
    };
    let (built, worked) = tokio::join!(building, working);
    worked?;
    for done in built {
        assert_eq!(done?.to, 3);
    }
    let valid = "SELECT indisvalid::text FROM pg_index WHERE indexrelid = 'later'::regclass";
    assert_eq!(Postgres::ask(&stage.place, valid).await?, ["true"]);
    let version = "SELECT concat_ws(' ', version, needs) FROM postroom_schema";
    assert_eq!(Postgres::ask(&stage.place, version).await?, ["3 2"]);
    eventually("all are handled", || async { Ok(script.count() == 20) }).await?;
    worker.stop().await?;
    options(stage)?.open().await?.check_schema().await?;
    Ok(())
}

async fn an_index_that_was_broken_off_is_built_again(stage: &Stage<Postgres>) -> Verdict {
    for _ in 0..2 {
        stage.outbox.enqueue(NewMessage::new("a", "the same")).await?;
    }
    options(stage)?.migrate_by(INDEX).await.expect_err("two rows are the same");
    let valid = "SELECT indisvalid::text FROM pg_index WHERE indexrelid = 'later'::regclass";
    assert_eq!(Postgres::ask(&stage.place, valid).await?, ["false"], "a half is left behind");
    assert_eq!(Postgres::ask(&stage.place, "SELECT version::text FROM postroom_schema").await?, ["2"]);
    Postgres::tell(&stage.place, "DELETE FROM outbox WHERE seq = (SELECT min(seq) FROM outbox)").await?;
    options(stage)?.migrate_by(INDEX).await?;
    assert_eq!(Postgres::ask(&stage.place, valid).await?, ["true"]);
    Ok(())
}

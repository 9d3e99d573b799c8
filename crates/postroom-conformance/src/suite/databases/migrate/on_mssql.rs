//! On SQL Server, where a step is one transaction of several batches.

use futures_util::future::join_all;
use postroom::ErrorKind;
use postroom::mssql::{Mssql, MssqlOptions};
use postroom_testbed::{Age, Old, OldKind};

use super::{contents, old};
use crate::case::{Verdict, cases};
use crate::harness::{START, Stage, Testable, refused};
use crate::mssql;
use crate::on_server::OnServer;
use crate::servers::Client;

cases! { migrate:
    mssql every_message_is_carried_as_it_was [];
    mssql every_message_of_the_first_programs_is_carried_as_it_was [];
    mssql carried_tables_are_those_of_a_new_database [];
    mssql carried_tables_of_the_first_programs_are_those_of_a_new_database [];
    mssql several_programs_may_migrate_at_once [];
    mssql a_newer_schema_is_refused_before_anything_is_written [];
}

const OLD: [&str; 2] = ["{space}.outbox", "{space}.inbox"];
const NEW: [&str; 2] = ["{space}.outbox_state", "{space}.inbox_state"];
const BY_STATE: [&str; 2] = ["{space}.outbox_by_state", "{space}.inbox_by_state"];

/// Replaces the tables of the case by those that a program of the first version left.
async fn make_old(stage: &Stage<Mssql>, age: Age) -> Verdict {
    let name = stage.place.own_name();
    let old = Old { kind: OldKind::Mssql, age, schema: Some(&name), outbox: "outbox", inbox: "inbox" };
    Mssql::clean(&stage.place).await?;
    mssql::chore(old.tables()).await?;
    mssql::chore(old.rows(START.as_micros())).await
}

fn options(stage: &Stage<Mssql>) -> postroom::Result<MssqlOptions> {
    stage.place.mssql_options()
}

async fn all_rows(stage: &Stage<Mssql>, age: Age, tables: [&str; 2]) -> anyhow::Result<Vec<Vec<String>>> {
    let text = |column: &str| match column {
        "hash" => "CONVERT(nvarchar(max), hash, 1)".to_owned(),
        column => format!("CAST({column} AS nvarchar(max))"),
    };
    let queries = contents(old(OldKind::Mssql, age), tables, text);
    answers(stage, queries.iter().map(String::as_str)).await
}

/// What the server answers to each, on one connection.
async fn answers(stage: &Stage<Mssql>, queries: impl Iterator<Item = &str>) -> anyhow::Result<Vec<Vec<String>>> {
    let (mut client, mut all) = (stage.client().await?, Vec::new());
    for query in queries {
        all.push(client.ask(&query.replace("{space}", &stage.place.own_name())).await?.concat());
    }
    Ok(all)
}

async fn is_carried(stage: &Stage<Mssql>, age: Age, before: &[Vec<String>]) -> Verdict {
    assert_eq!(all_rows(stage, age, NEW).await?, before);
    assert_eq!(all_rows(stage, age, BY_STATE).await?, before);
    for view in ["outbox_misplaced", "inbox_misplaced"] {
        assert!(Mssql::ask(&stage.place, &format!("SELECT seq FROM {{space}}.{view}")).await?.is_empty(), "{view}");
    }
    Ok(())
}

async fn every_message_is_carried_as_it_was(stage: &Stage<Mssql>) -> Verdict {
    carries_everything(stage, Age::Last).await
}

async fn every_message_of_the_first_programs_is_carried_as_it_was(stage: &Stage<Mssql>) -> Verdict {
    carries_everything(stage, Age::First).await
}

async fn carries_everything(stage: &Stage<Mssql>, age: Age) -> Verdict {
    make_old(stage, age).await?;
    let before = all_rows(stage, age, OLD).await?;
    assert!(before.iter().all(|rows| !rows.is_empty()), "the fixture has rows for every query");
    let done = options(stage)?.migrate(None).await?;
    assert_eq!((done.from, done.to), (Some(1), 2));
    is_carried(stage, age, &before).await?;
    // The procedure for other languages writes to the new tables.
    Mssql::tell(&stage.place, "EXEC outbox_enqueue N'a', N'new'").await?;
    let new = "SELECT payload FROM {space}.outbox_by_state WHERE state = 0 AND topic = N'a'";
    assert_eq!(Mssql::ask(&stage.place, new).await?, ["new"]);
    Ok(())
}

/// Whoever carries their tables over has the same as whoever creates them. Only the order of columns may differ, and a
/// default that let a column be added.
async fn carried_tables_are_those_of_a_new_database(stage: &Stage<Mssql>) -> Verdict {
    carries_to_the_newest(stage, Age::Last).await
}

async fn carried_tables_of_the_first_programs_are_those_of_a_new_database(stage: &Stage<Mssql>) -> Verdict {
    carries_to_the_newest(stage, Age::First).await
}

async fn carries_to_the_newest(stage: &Stage<Mssql>, age: Age) -> Verdict {
    let objects = [
        "SELECT CONCAT(o.name, ' ', c.name, ' ', TYPE_NAME(c.user_type_id), ' ', c.max_length, ' ', c.is_nullable)
         FROM sys.columns AS c JOIN sys.objects AS o ON o.object_id = c.object_id
         WHERE o.schema_id = SCHEMA_ID(N'{space}') AND o.type IN ('U', 'V') ORDER BY 1",
        "SELECT CONCAT(t.name, ' ', c.name, ' ', i.is_unique) FROM sys.indexes AS i
         JOIN sys.tables AS t ON t.object_id = i.object_id
         JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id
         JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
         WHERE t.schema_id = SCHEMA_ID(N'{space}') ORDER BY 1",
        "SELECT name FROM sys.procedures WHERE schema_id = SCHEMA_ID(N'{space}') ORDER BY 1",
        "SELECT CONCAT(t.name, ' ', g.name) FROM sys.triggers AS g JOIN sys.tables AS t ON t.object_id = g.parent_id
         WHERE t.schema_id = SCHEMA_ID(N'{space}') ORDER BY 1",
    ];
    // The case's own tables are new.
    let fresh = answers(stage, objects.into_iter()).await?;
    assert!(fresh.iter().all(|found| !found.is_empty()), "{fresh:?}");
    make_old(stage, age).await?;
    options(stage)?.migrate(None).await?;
    assert_eq!(answers(stage, objects.into_iter()).await?, fresh);
    Ok(())
}

async fn several_programs_may_migrate_at_once(stage: &Stage<Mssql>) -> Verdict {
    make_old(stage, Age::Last).await?;
    let before = all_rows(stage, Age::Last, OLD).await?;
    let programs = (0..4).map(|_| options(stage)).collect::<Result<Vec<_>, _>>()?;
    for done in join_all(programs.into_iter().map(|options| options.migrate(None))).await {
        assert_eq!(done?.to, 2);
    }
    is_carried(stage, Age::Last, &before).await
}

async fn a_newer_schema_is_refused_before_anything_is_written(stage: &Stage<Mssql>) -> Verdict {
    Mssql::tell(&stage.place, "UPDATE {space}.postroom_schema SET version = 9, needs = 7").await?;
    for deploy in [false, true] {
        refused(options(stage)?.deploy_schema(deploy).open().await, ErrorKind::Schema, "a newer schema")?;
    }
    refused(options(stage)?.migrate(None).await, ErrorKind::Schema, "a newer schema")?;
    let version = "SELECT CONCAT(version, ' ', needs) FROM {space}.postroom_schema";
    assert_eq!(Mssql::ask(&stage.place, version).await?, ["9 7"]);
    Ok(())
}

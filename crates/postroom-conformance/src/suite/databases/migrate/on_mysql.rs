//! On MySQL and MariaDB, where every change of a table commits.

use futures_util::future::join_all;
use postroom::mysql::{MySql, MySqlOptions};
use postroom::{ErrorKind, WorkerOptions};
use postroom_testbed::{Age, OldKind};

use super::{AGES, contents, is_handled_once, old};
use crate::case::{Verdict, cases};
use crate::harness::{START, Stage, refused};
use crate::on_server::OnServer;
use crate::script::Script;
use crate::servers;

cases! { migrate:
    mariadb every_message_is_carried_as_it_was [];
    mariadb carried_tables_are_those_of_a_new_database [];
    mariadb a_step_that_was_broken_off_is_taken_up_again [];
    mariadb messages_that_are_written_meanwhile_are_handled [];
    mariadb several_programs_may_migrate_at_once [];
    mariadb a_newer_schema_is_refused_before_anything_is_written [];
}

const OLD: [&str; 2] = ["infra_outbox", "infra_inbox"];
const NEW: [&str; 2] = ["infra_outbox_state", "infra_inbox_state"];
/// A message as a program in another language writes it.
const PLAIN: &str = "INSERT INTO infra_outbox (id, topic, payload, visible_at, created_at) VALUES ";

/// Replaces the tables of the case by those that a program of the first version left.
async fn make_old(stage: &Stage<MySql>, age: Age) -> Verdict {
    let (name, old) = (stage.place.own_name(), old(OldKind::MySql, age));
    servers::mysql(&format!("DROP DATABASE {name}; CREATE DATABASE {name}")).await?;
    MySql::tell(&stage.place, &old.tables()).await?;
    MySql::tell(&stage.place, &old.rows(START.as_micros())).await
}

fn options(stage: &Stage<MySql>) -> postroom::Result<MySqlOptions> {
    stage.place.mysql_options()
}

async fn all_rows(stage: &Stage<MySql>, age: Age, tables: [&str; 2]) -> anyhow::Result<Vec<Vec<String>>> {
    let mut all = Vec::new();
    for query in contents(old(OldKind::MySql, age), tables, |column| format!("hex({column})")) {
        all.push(MySql::ask(&stage.place, &query).await?);
    }
    Ok(all)
}

async fn is_carried(stage: &Stage<MySql>, age: Age, before: &[Vec<String>]) -> Verdict {
    assert_eq!(all_rows(stage, age, NEW).await?, before);
    assert_eq!(all_rows(stage, age, ["infra_outbox_by_state", "infra_inbox_by_state"]).await?, before);
    for view in ["infra_outbox_misplaced", "infra_inbox_misplaced"] {
        assert!(MySql::ask(&stage.place, &format!("SELECT hex(seq) FROM {view}")).await?.is_empty(), "{view}");
    }
    Ok(())
}

async fn every_message_is_carried_as_it_was(stage: &Stage<MySql>) -> Verdict {
    for age in AGES {
        make_old(stage, age).await?;
        let before = all_rows(stage, age, OLD).await?;
        assert!(before.iter().all(|rows| !rows.is_empty()), "the fixture has rows for every query");
        let done = options(stage)?.migrate(None).await?;
        assert_eq!((done.from, done.to), (Some(1), 2));
        is_carried(stage, age, &before).await?;
        // The procedure for other languages writes to the new tables.
        MySql::tell(&stage.place, "CALL infra_outbox_enqueue('a', 'new', NULL, NULL)").await?;
        assert_eq!(
            MySql::ask(&stage.place, "SELECT payload FROM infra_outbox_by_state WHERE topic = 'a'").await?,
            ["new"]
        );
    }
    Ok(())
}

/// Whoever carries their tables over has the same as whoever creates them. Only the order of columns may differ.
async fn carried_tables_are_those_of_a_new_database(stage: &Stage<MySql>) -> Verdict {
    let own = stage.place.own_name();
    let objects = [
        "SELECT concat_ws(' ', table_name, column_name, column_type, is_nullable, column_default, collation_name)
         FROM information_schema.columns WHERE table_schema = database() ORDER BY 1",
        "SELECT concat_ws(' ', table_name, index_name, seq_in_index, column_name, non_unique)
         FROM information_schema.statistics WHERE table_schema = database() ORDER BY 1",
        "SELECT concat_ws(' ', table_name, table_type, engine, table_collation)
         FROM information_schema.tables WHERE table_schema = database() ORDER BY 1",
        "SELECT concat_ws(' ', routine_name, security_type, routine_definition)
         FROM information_schema.routines WHERE routine_schema = database() ORDER BY 1",
        "SELECT concat_ws(' ', trigger_name, action_timing, event_manipulation, action_statement)
         FROM information_schema.triggers WHERE trigger_schema = database() ORDER BY 1",
    ];
    let look = async || -> anyhow::Result<Vec<Vec<String>>> {
        let mut found = Vec::new();
        for query in objects {
            found.push(MySql::ask(&stage.place, query).await?);
        }
        Ok(found)
    };
    servers::mysql(&format!("DROP DATABASE {own}; CREATE DATABASE {own}")).await?;
    options(stage)?.migrate(None).await?;
    let fresh = look().await?;
    for age in AGES {
        make_old(stage, age).await?;
        options(stage)?.migrate(None).await?;
        for (found, expected) in look().await?.iter().zip(&fresh) {
            let differ = |ours: &[String], theirs: &[String]| -> Vec<String> {
                ours.iter().filter(|line| !theirs.contains(line)).cloned().collect()
            };
            assert_eq!(differ(found, expected), differ(expected, found));
        }
    }
    Ok(())
}

/// The parts of the step, each with what was done before it.
async fn broken_off(stage: &Stage<MySql>) -> anyhow::Result<Vec<String>> {
    let text = options(stage)?.migration(None).await?.sql;
    let ends = [
        "CALL infra_outbox_v1_begin();",
        "DROP PROCEDURE IF EXISTS infra_outbox_v1_end;",
        "CALL infra_outbox_v1_end();",
    ];
    let mut parts = Vec::new();
    for end in ends.iter().chain(&["CALL infra_inbox_v1_end();"]) {
        let at = text.find(end).ok_or_else(|| anyhow::anyhow!("the step has no {end}"))?;
        parts.push(text[..at + end.len()].to_owned());
    }
    Ok(parts)
}

async fn a_step_that_was_broken_off_is_taken_up_again(stage: &Stage<MySql>) -> Verdict {
    for age in AGES {
        make_old(stage, age).await?;
        let before = all_rows(stage, age, OLD).await?;
        for part in broken_off(stage).await? {
            make_old(stage, age).await?;
            MySql::tell(&stage.place, &part).await?;
            refused(options(stage)?.deploy_schema(false).open().await, ErrorKind::Schema, "it is not complete")?;
            options(stage)?.migrate(None).await?;
            is_carried(stage, age, &before).await?;
        }
    }
    Ok(())
}

/// Programs of the first version, and those in other languages, write until they are replaced.
async fn messages_that_are_written_meanwhile_are_handled(stage: &Stage<MySql>) -> Verdict {
    make_old(stage, Age::First).await?;
    let mut late = Vec::new();
    for (n, part) in broken_off(stage).await?.iter().enumerate() {
        MySql::tell(&stage.place, part).await?;
        MySql::tell(&stage.place, &format!("{PLAIN}(x'ff{n:030x}', 'a', 'late {n}', 1, 1)")).await?;
        late.push(format!("late {n}"));
    }
    options(stage)?.migrate(None).await?;
    let script = Script::succeed();
    let work = |queue| stage.work(queue, &script, WorkerOptions::default());
    is_handled_once(stage, stage.store.clone(), &script, &late, work).await
}

async fn several_programs_may_migrate_at_once(stage: &Stage<MySql>) -> Verdict {
    make_old(stage, Age::Last).await?;
    let before = all_rows(stage, Age::Last, OLD).await?;
    let programs = (0..8).map(|_| options(stage)).collect::<Result<Vec<_>, _>>()?;
    for done in join_all(programs.into_iter().map(|options| options.migrate(None))).await {
        assert_eq!(done?.to, 2);
    }
    is_carried(stage, Age::Last, &before).await
}

async fn a_newer_schema_is_refused_before_anything_is_written(stage: &Stage<MySql>) -> Verdict {
    MySql::tell(&stage.place, "UPDATE postroom_schema SET version = 9, needs = 7").await?;
    for deploy in [false, true] {
        refused(options(stage)?.deploy_schema(deploy).open().await, ErrorKind::Schema, "a newer schema")?;
    }
    refused(options(stage)?.migrate(None).await, ErrorKind::Schema, "a newer schema")?;
    let version = "SELECT concat_ws(' ', version, needs) FROM postroom_schema";
    assert_eq!(MySql::ask(&stage.place, version).await?, ["9 7"]);
    Ok(())
}

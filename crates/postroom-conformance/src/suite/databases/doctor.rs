//! What the doctor says of real servers and files.

use postroom::doctor::{Level, Report};
use postroom::mssql::Mssql;
use postroom::mysql::MySql;
use postroom::postgres::Postgres;
use postroom::sqlite::Sqlite;
use postroom_testbed::{Mode, Server};

use crate::case::{Verdict, cases};
use crate::harness::Stage;
use crate::on_server::{OnServer, Startable};
use crate::servers;
use sqlx::{MySqlConnection, PgConnection};

cases! { doctor:
    started a_server_that_waits_for_the_disk_is_fine [];
    postgres a_server_without_fsync_is_dangerous [];
    mariadb a_server_that_flushes_now_and_then_is_dangerous [];
    postgres a_role_that_does_not_wait_is_told [];
    postgres an_unlogged_table_is_dangerous [];
    mariadb a_table_without_transactions_is_dangerous [];
    sqlite a_file_of_ours_is_fine [];
    started a_missing_schema_is_told [];
    mssql a_server_like_sql_server_is_fine [];
}

fn level(report: &Report, setting: &str) -> Option<Level> {
    report.findings.iter().find(|finding| finding.setting == setting).map(|finding| finding.level)
}

async fn a_server_that_waits_for_the_disk_is_fine<B: Startable>(_: &Stage<B>) -> Verdict {
    let server = Server::start(B::ENGINE, Mode::Durable)?;
    drop(B::open_url(&server.url(), true).await?);
    let report = B::examine(&server.url()).await?;
    let bad: Vec<_> = report.at_least(Level::Notice).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert!(report.findings.len() >= 10, "{:#?}", report.findings);
    Ok(())
}

async fn a_server_without_fsync_is_dangerous(_: &Stage<Postgres>) -> Verdict {
    let server = Server::start(Postgres::ENGINE, Mode::Fast)?;
    let report = Postgres::examine(&server.url()).await?;
    assert_eq!(level(&report, "fsync"), Some(Level::Danger));
    assert_eq!(level(&report, "full_page_writes"), Some(Level::Danger));
    assert_eq!(level(&report, "synchronous_commit"), Some(Level::Warning));
    Ok(())
}

async fn a_server_that_flushes_now_and_then_is_dangerous(_: &Stage<MySql>) -> Verdict {
    let server = Server::start(MySql::ENGINE, Mode::Fast)?;
    let report = MySql::examine(&server.url()).await?;
    assert_eq!(level(&report, "innodb_flush_log_at_trx_commit"), Some(Level::Danger));
    assert_eq!(report.worst(), Level::Danger);
    Ok(())
}

async fn a_role_that_does_not_wait_is_told(_: &Stage<Postgres>) -> Verdict {
    let server = Server::start(Postgres::ENGINE, Mode::Durable)?;
    servers::run::<PgConnection>(&server.url(), "CREATE ROLE hasty; ALTER ROLE hasty SET synchronous_commit = off")
        .await?;
    let report = Postgres::examine(&server.url()).await?;
    assert_eq!(level(&report, "synchronous_commit"), Some(Level::Ok));
    assert_eq!(level(&report, "synchronous_commit of hasty"), Some(Level::Warning));
    servers::run::<PgConnection>(&server.url(), "ALTER ROLE postgres SET synchronous_commit = off").await?;
    let report = Postgres::examine(&server.url()).await?;
    assert_eq!(level(&report, "synchronous_commit"), Some(Level::Warning));
    Ok(())
}

async fn an_unlogged_table_is_dangerous(_: &Stage<Postgres>) -> Verdict {
    let server = Server::start(Postgres::ENGINE, Mode::Durable)?;
    drop(Postgres::open_url(&server.url(), true).await?);
    let changes = "ALTER TABLE infra.outbox_held SET UNLOGGED; ALTER TABLE infra.inbox SET (autovacuum_enabled = off)";
    servers::run::<PgConnection>(&server.url(), changes).await?;
    let report = Postgres::examine(&server.url()).await?;
    assert_eq!(level(&report, "outbox table"), Some(Level::Danger));
    assert_eq!(level(&report, "inbox table"), None);
    assert_eq!(level(&report, "inbox autovacuum"), Some(Level::Warning));
    Ok(())
}

async fn a_table_without_transactions_is_dangerous(_: &Stage<MySql>) -> Verdict {
    let server = Server::start(MySql::ENGINE, Mode::Durable)?;
    drop(MySql::open_url(&server.url(), true).await?);
    servers::run::<MySqlConnection>(&server.url(), "ALTER TABLE infra_inbox_failures ENGINE = MyISAM").await?;
    let report = MySql::examine(&server.url()).await?;
    assert_eq!(level(&report, "storage engine of infra_inbox_failures"), Some(Level::Danger));
    Ok(())
}

async fn a_file_of_ours_is_fine(stage: &Stage<Sqlite>) -> Verdict {
    let report = stage.place.sqlite_options().examine().await?;
    for setting in ["SQLite library", "schema", "quick_check", "journal_mode", "synchronous", "write-ahead log"] {
        assert_eq!(level(&report, setting), Some(Level::Ok), "{report:#?}");
    }
    Ok(())
}

async fn a_missing_schema_is_told<B: Startable>(_: &Stage<B>) -> Verdict {
    let server = Server::start(B::ENGINE, Mode::Durable)?;
    let report = B::examine(&server.url()).await?;
    assert_eq!(level(&report, "schema"), Some(Level::Warning));
    assert_eq!(report.at_least(Level::Notice).count(), 1, "{:#?}", report.findings);
    Ok(())
}

/// In the case's own schema nothing is wrong; elsewhere there is none.
async fn a_server_like_sql_server_is_fine(stage: &Stage<Mssql>) -> Verdict {
    let report = stage.place.mssql_options()?.examine().await?;
    for setting in ["version", "schema", "procedures", "server clock", "updateability", "compatibility_level"] {
        assert_eq!(level(&report, setting), Some(Level::Ok), "{setting}: {report:#?}");
    }
    assert!(report.worst() < Level::Warning, "{report:#?}");
    let elsewhere = postroom::sql::TableNames::new("nothing", "here")?.in_schema(stage.place.own_name())?;
    let report = stage.place.mssql_options()?.tables(elsewhere).examine().await?;
    assert_eq!(level(&report, "schema"), Some(Level::Warning));
    Ok(())
}

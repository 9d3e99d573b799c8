//! Servers that only follow another one: nothing can be written there, and that is said at once.

use postroom::doctor::Level;
use postroom::mysql::MySql;
use postroom::postgres::Postgres;
use postroom::{ErrorKind, NewMessage, Outbox};
use postroom_testbed::{Mode, Server};
use sqlx::{Connection, MySqlConnection};

use crate::case::{Verdict, cases};
use crate::harness::Stage;
use crate::on_server::{OnServer, Startable};

cases! { standby:
    postgres a_standby_is_refused_when_a_store_is_opened [];
    mariadb a_read_only_server_is_refused_when_a_store_is_opened [];
}

async fn is_refused<B: OnServer>(url: &str, word: &str) -> Verdict {
    for deploy in [false, true] {
        let error = B::open_url(url, deploy).await.err().ok_or_else(|| anyhow::anyhow!("it was opened"))?;
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let told = error.to_string();
        assert!(told.contains(word) && told.contains("connect to the primary"), "{told}");
    }
    assert_eq!(B::examine(url).await?.worst(), Level::Danger);
    Ok(())
}

async fn a_standby_is_refused_when_a_store_is_opened(_: &Stage<Postgres>) -> Verdict {
    let primary = Server::start(Postgres::ENGINE, Mode::Fast)?;
    let store = Postgres::open_url(&primary.url(), true).await?;
    Outbox::new(store).enqueue(NewMessage::new("a", "")).await?;
    let standby = primary.standby()?;
    is_refused::<Postgres>(&standby.url(), "standby").await?;
    let report = Postgres::examine(&standby.url()).await?;
    let found = |setting: &str| report.findings.iter().find(|finding| finding.setting == setting);
    assert_eq!(found("standby").map(|finding| finding.level), Some(Level::Danger));
    assert_eq!(found("schema").map(|finding| finding.level), Some(Level::Ok), "it follows its primary");
    let primary = Postgres::examine(&primary.url()).await?;
    let replicas = primary.findings.iter().find(|finding| finding.setting == "synchronous_standby_names");
    assert_eq!(replicas.map(|finding| finding.level), Some(Level::Notice), "its standby may miss the last commits");
    Ok(())
}

async fn a_read_only_server_is_refused_when_a_store_is_opened(_: &Stage<MySql>) -> Verdict {
    let server = Server::start(MySql::ENGINE, Mode::Fast)?;
    let mut conn = MySqlConnection::connect(&server.url()).await?;
    sqlx::raw_sql("SET GLOBAL read_only = 1").execute(&mut conn).await?;
    is_refused::<MySql>(&server.url(), "read-only").await?;
    sqlx::raw_sql("SET GLOBAL read_only = 0").execute(&mut conn).await?;
    MySql::open_url(&server.url(), true).await?;
    Ok(())
}

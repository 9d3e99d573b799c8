//! At which level our own statements run, whatever the server's default is.

use std::time::Duration;

use postroom::doctor::Level;
use postroom::message::OwnerToken;
use postroom::mysql::MySql;
use postroom::postgres::Postgres;
use postroom::queue::Settle;
use postroom::{NewMessage, Outbox};

use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Stage};
use crate::on_server::{OnServer, PASSWORD};
use crate::servers::{self, Client};

cases! { isolation:
    postgres verbs_are_read_committed_under_a_stricter_default [];
    mariadb statements_that_commit_themselves_are_read_committed [];
    postgres the_doctor_tells_a_stricter_default [];
}

/// Every verb that writes, alone and in a transaction.
async fn all_verbs(outbox: &Outbox) -> Verdict {
    outbox.enqueue_many((0..5).map(|n| NewMessage::new("a", n.to_string()))).await?;
    outbox.enqueue(NewMessage::new("a", "")).await?;
    let queue = outbox.queue();
    let claimed = queue.claim(OwnerToken::new(), LEASE, 4).await?.claimed;
    let mut leases = claimed.into_iter().map(|claimed| claimed.lease);
    let mut next = || leases.next().ok_or_else(|| anyhow::anyhow!("it was not claimed"));
    assert_eq!(queue.ack([next()?]).await?.applied, 1);
    let (kept, given_up, back) = (next()?, next()?, next()?);
    queue.extend(&[kept], LEASE).await?;
    let settles = vec![Settle::fail(given_up, "no"), Settle::abandon(back, Duration::from_secs(1), "later")?];
    assert_eq!(queue.settle(settles).await?.applied, 2);
    Ok(())
}

/// A role whose transactions are serializable, unless something else is said.
async fn strict_role(stage: &Stage<Postgres>) -> anyhow::Result<String> {
    let space = stage.place.own_name();
    let user = format!("{space}_u");
    for words in [
        format!("CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'"),
        format!("ALTER ROLE {user} SET default_transaction_isolation = 'serializable'"),
        format!("GRANT USAGE ON SCHEMA {space} TO {user}"),
        format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {space} TO {user}"),
    ] {
        Postgres::tell(&stage.place, &words).await?;
    }
    Ok(user)
}

async fn verbs_are_read_committed_under_a_stricter_default(stage: &Stage<Postgres>) -> Verdict {
    let user = strict_role(stage).await?;
    for words in [
        "CREATE TABLE levels (level text)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS
         'BEGIN INSERT INTO levels VALUES (current_setting(''transaction_isolation'')); RETURN NULL; END'",
        "CREATE TRIGGER note AFTER INSERT OR UPDATE ON outbox FOR EACH STATEMENT EXECUTE FUNCTION note()",
    ] {
        Postgres::tell(&stage.place, words).await?;
    }
    let done = all_verbs(&Outbox::new(Postgres::open_as(&stage.place, &user, false).await?)).await;
    let levels = Postgres::ask(&stage.place, "SELECT DISTINCT level FROM levels").await?;
    Postgres::tell(&stage.place, &format!("DROP OWNED BY {user}; DROP ROLE {user}")).await?;
    done?;
    assert_eq!(levels, ["read committed"]);
    Ok(())
}

async fn statements_that_commit_themselves_are_read_committed(stage: &Stage<MySql>) -> Verdict {
    let mut client = stage.client().await?;
    client.say("CREATE TABLE levels (level VARCHAR(40))").await?;
    for (event, table) in
        [("INSERT", "infra_outbox"), ("INSERT", "infra_outbox_taken"), ("UPDATE", "infra_outbox_taken")]
    {
        let note = "FOR EACH ROW INSERT INTO levels VALUES (@@session.tx_isolation)";
        client.say(&format!("CREATE TRIGGER note_{event}_{table} AFTER {event} ON {table} {note}")).await?;
    }
    all_verbs(&stage.outbox).await?;
    assert_eq!(client.ask("SELECT DISTINCT level FROM levels").await?, [["READ-COMMITTED"]]);
    Ok(())
}

async fn the_doctor_tells_a_stricter_default(stage: &Stage<Postgres>) -> Verdict {
    let user = strict_role(stage).await?;
    let url = servers::url(servers::POSTGRES).replace("user=postgres", &format!("user={user}"));
    let reports = [Postgres::examine(&servers::url(servers::POSTGRES)).await, Postgres::examine(&url).await];
    Postgres::tell(&stage.place, &format!("DROP OWNED BY {user}; DROP ROLE {user}")).await?;
    for (report, expected) in reports.into_iter().zip([Level::Ok, Level::Notice]) {
        let findings = report?.findings;
        let found = findings.iter().find(|finding| finding.setting == "default_transaction_isolation");
        assert_eq!(found.map(|finding| finding.level), Some(expected), "{findings:#?}");
    }
    Ok(())
}

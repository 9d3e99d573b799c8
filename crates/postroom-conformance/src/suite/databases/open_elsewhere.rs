//! What a transaction of somebody else holds open on MySQL and MariaDB: others do not wait for it, and lose nothing.

use postroom::NewMessage;
use postroom::mysql::MySql;
use postroom::queue::{Lease, Queue, Settle};
use sqlx::MySqlConnection;

use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Stage, eventually, soon};
use crate::on_server::OnServer;
use crate::servers::Client;

cases! { open_elsewhere:
    mariadb a_duplicate_that_waits_holds_up_nobody_else [];
    mariadb a_lease_is_extended_beside_an_open_ack [];
    mariadb others_are_settled_beside_an_open_ack [];
}

const ID: &str = "0190a3c0-0000-7000-8000-000000000001";

/// Waits until as many statements of the case wait for a lock.
async fn waiting(stage: &Stage<MySql>, statements: usize) -> Verdict {
    let count = format!(
        "SELECT CAST(count(*) AS CHAR) FROM information_schema.innodb_trx AS t
             JOIN information_schema.processlist AS p ON p.id = t.trx_mysql_thread_id
         WHERE t.trx_state = 'LOCK WAIT' AND p.db = '{}'",
        stage.place.own_name()
    );
    let enough = || async { Ok(MySql::ask(&stage.place, &count).await?.concat().parse::<usize>()? >= statements) };
    eventually("they wait", enough).await
}

async fn a_duplicate_that_waits_holds_up_nobody_else(stage: &Stage<MySql>) -> Verdict {
    let (mut first, mut second) = (stage.client().await?, stage.client().await?);
    let call = format!("CALL {}('a', 'first', NULL, '{ID}')", stage.table("infra_outbox_enqueue"));
    first.say(&format!("START TRANSACTION; {call}")).await?;
    let others = async {
        waiting(stage, 1).await?;
        assert!(soon("nobody waits", stage.outbox.enqueue(NewMessage::new("a", "another"))).await??.is_new());
        Ok::<_, anyhow::Error>(first.say("COMMIT").await?)
    };
    let (duplicate, others) = tokio::join!(second.say(&call), others);
    duplicate?;
    others?;
    assert_eq!(stage.side(Queue::Outbox).verbs().stats().await?.ready, 2);
    Ok(())
}

/// Holds three messages of each queue. One of them is acknowledged in a transaction that stays open.
async fn with_an_open_ack(stage: &Stage<MySql>, queue: Queue) -> anyhow::Result<(MySqlConnection, Vec<Lease>)> {
    let side = stage.side(queue);
    side.add_many("a", 3).await?;
    let leases: Vec<_> = side.claim(3).await?.into_iter().map(|claimed| claimed.lease).collect();
    let mut other = stage.client().await?;
    let table = stage.table(&format!("infra_{queue}_taken"));
    let ack = format!("START TRANSACTION; UPDATE {table} SET done_at = 1, lease = 0 WHERE seq = {}", leases[0].seq());
    other.say(&ack).await?;
    Ok((other, leases))
}

async fn a_lease_is_extended_beside_an_open_ack(stage: &Stage<MySql>) -> Verdict {
    for side in stage.sides() {
        let (mut other, leases) = with_an_open_ack(stage, side.queue).await?;
        let extended = soon("it does not wait", side.verbs().extend(&leases, 2 * LEASE)).await??;
        assert_eq!(extended, [true; 3]);
        other.say("ROLLBACK").await?;
        assert_eq!(side.verbs().ack(leases).await?.applied, 3);
    }
    Ok(())
}

async fn others_are_settled_beside_an_open_ack(stage: &Stage<MySql>) -> Verdict {
    for side in stage.sides() {
        let (mut other, mut leases) = with_an_open_ack(stage, side.queue).await?;
        let first = leases.remove(0);
        let settles = vec![Settle::ack(leases.remove(0)), Settle::abandon(leases.remove(0), LEASE, "later")?];
        let settled = soon("they do not wait", side.verbs().settle(settles)).await??;
        assert_eq!((settled.applied, settled.lost), (2, 0));
        other.say("ROLLBACK").await?;
        side.ack(first).await?;
    }
    Ok(())
}

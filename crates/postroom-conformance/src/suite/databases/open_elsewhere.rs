//! What a transaction of somebody else holds open on MySQL and MariaDB: others do not wait for it, and lose nothing.

use postroom::NewMessage;
use postroom::mysql::MySql;
use postroom::queue::{Lease, Queue, Settle};
use sqlx::MySqlConnection;
use tokio::task::JoinSet;

use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Stage, eventually, soon};
use crate::servers::Client;

cases! { open_elsewhere:
    mariadb a_duplicate_that_waits_holds_up_nobody_else [];
    mariadb a_lease_is_extended_beside_an_open_ack [];
    mariadb others_are_settled_beside_an_open_ack [];
    mariadb a_lane_in_an_open_transaction_holds_up_no_message_without_one [];
}

const ID: &str = "0190a3c0-0000-7000-8000-000000000001";

/// Waits until a statement of the case waits for a lock. The table of transactions cannot tell: while anybody reads it
/// more often than every 0.1 s, the server does not update it.
async fn somebody_waits(stage: &Stage<MySql>) -> Verdict {
    let threads = format!(
        "SELECT concat('thread id ', id, ',') FROM information_schema.processlist WHERE db = '{}'",
        stage.place.own_name()
    );
    let waits = || async {
        let mut client = stage.client().await?;
        let threads = client.ask(&threads).await?.concat();
        let status = client.ask("SHOW ENGINE INNODB STATUS").await?.concat().concat();
        let is_ours = |transaction: &str| threads.iter().any(|thread| transaction.contains(thread));
        Ok(status.split("---TRANSACTION").any(|one| one.contains("LOCK WAIT") && is_ours(one)))
    };
    eventually("somebody waits", waits).await
}

async fn a_duplicate_that_waits_holds_up_nobody_else(stage: &Stage<MySql>) -> Verdict {
    let (mut first, mut second) = (stage.client().await?, stage.client().await?);
    let call = format!("CALL {}('a', 'first', NULL, '{ID}')", stage.table("infra_outbox_enqueue"));
    first.say(&format!("START TRANSACTION; {call}")).await?;
    let others = async {
        somebody_waits(stage).await?;
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

async fn a_lane_in_an_open_transaction_holds_up_no_message_without_one(stage: &Stage<MySql>) -> Verdict {
    let mut other = stage.client().await?;
    let table = stage.table("infra_outbox");
    let laned = || NewMessage::new("a", "{}").lane("order-7");
    stage.outbox.enqueue(laned()).await?;
    other.say(&format!("START TRANSACTION; UPDATE {table}_lane SET at = at WHERE lane = ''")).await?;
    // More of them than are written at the same time.
    let mut waiting = JoinSet::new();
    for _ in 0..4 {
        let outbox = stage.outbox.clone();
        waiting.spawn(async move { outbox.enqueue(laned()).await });
    }
    somebody_waits(stage).await?;
    assert!(soon("nobody waits", stage.outbox.enqueue(NewMessage::new("a", "{}"))).await??.is_new());
    other.say("ROLLBACK").await?;
    while let Some(one) = waiting.join_next().await {
        assert!(one??.is_new());
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

//! Taking part in a transaction of the caller's own.

mod begun;
mod by_rusqlite;
mod by_sqlx;
mod by_sqlx_08;
mod by_tiberius;
mod by_tokio_postgres;
mod caller;
mod pooled;
mod promises;

use std::sync::mpsc;
use std::time::Duration;

use postroom::postgres::Postgres;
use postroom::queue::{Lease, Queue};
use postroom::sql::{BlockingTx, Value};
use postroom::sqlite::Sqlite;
use postroom::store::Store;
use postroom::{ErrorKind, NewMessage};
use tokio_postgres::types::Type;

use self::by_rusqlite::Rusqlite;
use self::by_sqlx::Sqlx;
use self::by_tokio_postgres::TokioPostgres;
use self::caller::{Caller, CallersTx};
use self::pooled::{a_transaction_of_bb8_is_taken, a_transaction_of_deadpool_is_taken};
use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Stage, refused, soon};

pub(super) use self::begun::CASES as BEGUN;
pub(super) use self::promises::CASES as PROMISES;

cases! { own_tx:
    sqlite a_connection_that_can_lose_commits_is_refused [];
    sqlite every_driver_uses_the_same_sqlite [];
    sqlite a_transaction_of_rusqlites_own_type_is_taken [];
    sqlite statements_can_be_run_by_other_drivers [];
    postgres a_transaction_of_bb8_is_taken ["OBX-003"];
    postgres a_transaction_of_deadpool_is_taken ["OBX-003"];
    postgres the_server_infers_the_types_that_values_have [];
    postgres the_right_to_insert_is_enough_to_enqueue [];
    sqlite a_verb_waits_for_another_writer ["OBX-082", "IBX-104"];
    memory there_is_no_transaction_to_take_part_in [];
    both verbs_of_both_queues_at_once_never_deadlock ["OBX-082", "IBX-104"];
}

async fn a_connection_that_can_lose_commits_is_refused(stage: &Stage<Sqlite>) -> Verdict {
    refuses_lossy_commits::<Rusqlite>(stage).await?;
    refuses_lossy_commits::<Sqlx<sqlx::Sqlite>>(stage).await
}

async fn refuses_lossy_commits<C: Caller<Backend = Sqlite>>(stage: &Stage<Sqlite>) -> Verdict {
    let mut caller = C::connect(stage).await?;
    let side = stage.side(Queue::Inbox);
    let lease = side.leased("a").await?;
    let rows = side.rows().await?;
    for pragma in ["PRAGMA synchronous = OFF", "PRAGMA synchronous = NORMAL"] {
        caller.say(pragma).await?;
        let mut tx = caller.begin().await?;
        let accepted = tx.accept(&stage.inbox, &Draft::new("b").incoming()?).await;
        refused(accepted, ErrorKind::Unsupported, pragma)?;
        refused(tx.ack(&stage.inbox, &lease, None).await, ErrorKind::Unsupported, pragma)?;
        tx.commit().await?;
    }
    assert_eq!(side.rows().await?, rows);
    caller.say("PRAGMA synchronous = FULL").await?;
    let mut tx = caller.begin().await?;
    tx.ack(&stage.inbox, &lease, None).await?;
    tx.commit().await
}

/// A store refuses a SQLite that is too old; that speaks for the connections of other drivers too.
async fn every_driver_uses_the_same_sqlite(stage: &Stage<Sqlite>) -> Verdict {
    let mut caller = Sqlx::<sqlx::Sqlite>::connect(stage).await?;
    let version: String = sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&mut caller.0).await?;
    assert_eq!(version, rusqlite::version());
    Ok(())
}

async fn a_transaction_of_rusqlites_own_type_is_taken(stage: &Stage<Sqlite>) -> Verdict {
    let Rusqlite(mut conn) = Rusqlite::connect(stage).await?;
    let lease = stage.side(Queue::Inbox).leased("a").await?;
    in_a_transaction_of_rusqlites(stage, &mut conn, &lease)?;
    let (outbox, inbox) = (stage.outbox.queue().stats().await?, stage.inbox.queue().stats().await?);
    assert_eq!((outbox.ready, inbox.ready, inbox.done), (1, 1, 1));
    Ok(())
}

/// Apart, because no future that goes from thread to thread can hold one.
fn in_a_transaction_of_rusqlites(stage: &Stage<Sqlite>, conn: &mut rusqlite::Connection, lease: &Lease) -> Verdict {
    let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let _enqueued = stage.outbox.enqueue_in_blocking(&tx, NewMessage::new("a", ""))?;
    assert!(stage.inbox.accept_in_blocking(&tx, &Draft::new("b").incoming()?)?.is_new());
    stage.inbox.ack_in_blocking(&tx, lease, None)?;
    Ok(tx.commit()?)
}

/// For drivers that leave the types to the server.
async fn the_server_infers_the_types_that_values_have(stage: &Stage<Postgres>) -> Verdict {
    let caller = TokioPostgres::connect(stage).await?;
    let lease = stage.side(Queue::Inbox).leased("a").await?;
    let enqueue = stage.outbox.statement(&NewMessage::new("a", ""))?;
    let accept = stage.inbox.statement(&Draft::new("a").incoming()?)?;
    for statement in [enqueue, accept, stage.inbox.ack_statement(&lease, None)?] {
        let inferred = caller.client.prepare(statement.sql()).await?;
        let types = statement.values().iter().map(|value| match value {
            Value::Int(_) => Type::INT8,
            Value::Bytes(_) => Type::BYTEA,
            Value::Uuid(_) => Type::UUID,
            _ => Type::TEXT,
        });
        assert_eq!(inferred.params(), types.collect::<Vec<_>>(), "{}", statement.sql());
    }
    Ok(())
}

async fn statements_can_be_run_by_other_drivers(stage: &Stage<Sqlite>) -> Verdict {
    let Rusqlite(conn) = Rusqlite::connect(stage).await?;
    let message = NewMessage::new("a", "seven");
    let statement = stage.outbox.statement(&message)?;
    let rows = conn.execute(statement.sql(), rusqlite::params_from_iter(statement.values()))?;
    assert!(statement.check(rows as u64)?.is_new());
    assert!(conn.run(&stage.outbox.statement(&message)?)?.is_duplicate());
    let incoming = stage.inbox.statement(&Draft::new("a").incoming()?)?;
    assert_eq!(conn.run(&incoming)?.rows(), 1);
    let lease = stage.side(Queue::Inbox).claim_one().await?;
    let ack = stage.inbox.ack_statement(&lease, None)?;
    assert_eq!(conn.run(&ack)?.rows(), 1);
    refused(ack.check(0), ErrorKind::LeaseLost, "an ack that changed no row")
}

async fn the_right_to_insert_is_enough_to_enqueue(stage: &Stage<Postgres>) -> Verdict {
    let mut caller = TokioPostgres::connect(stage).await?;
    let (schema, role) = (stage.place.own_name(), format!("{}_r", stage.place.own_name()));
    let grant = format!("GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT INSERT ON {schema}.outbox TO {role}");
    let mut tx = caller.begin().await?;
    // The role goes with the transaction.
    tx.batch_execute(&format!("CREATE ROLE {role}; {grant}; SET LOCAL ROLE {role}")).await?;
    let message = NewMessage::new("a", "").to("billing");
    let first = tx.enqueue(&stage.outbox, &message).await?;
    let again = tx.enqueue(&stage.outbox, &message).await?;
    assert_eq!((first.is_duplicate(), again.is_duplicate()), (false, true));
    let peek = tx.query("SELECT payload FROM outbox", &[]).await;
    assert!(peek.is_err(), "it may read what it was not granted");
    tx.roll_back().await
}

async fn a_verb_waits_for_another_writer(stage: &Stage<Sqlite>) -> Verdict {
    let Rusqlite(conn) = Rusqlite::connect(stage).await?;
    let (locked, locking) = tokio::sync::oneshot::channel();
    let (release, released) = mpsc::channel::<()>();
    let holder = std::thread::spawn(move || -> rusqlite::Result<()> {
        conn.execute_batch("BEGIN IMMEDIATE; INSERT INTO orders VALUES (1)")?;
        locked.send(()).ok();
        released.recv().ok();
        conn.execute_batch("COMMIT")
    });
    locking.await?;
    let side = stage.side(Queue::Outbox);
    let enqueue = side.add("a");
    let mut enqueue = std::pin::pin!(enqueue);
    let early = tokio::time::timeout(Duration::from_millis(50), &mut enqueue).await;
    assert!(early.is_err(), "two writers at once");
    release.send(())?;
    soon("the verb goes on", enqueue).await??;
    assert!(holder.join().is_ok_and(|held| held.is_ok()));
    Ok(())
}

async fn there_is_no_transaction_to_take_part_in(stage: &Stage<postroom::store::Memory>) -> Verdict {
    let lease = stage.side(Queue::Inbox).leased("a").await?;
    refused(stage.outbox.statement(&NewMessage::new("a", "")), ErrorKind::Unsupported, "a statement")?;
    refused(stage.inbox.statement(&Draft::new("a").incoming()?), ErrorKind::Unsupported, "a statement")?;
    refused(stage.store.ack_statement(Queue::Inbox, &lease, None), ErrorKind::Unsupported, "a statement")
}

async fn verbs_of_both_queues_at_once_never_deadlock(h: &Harness) -> Verdict {
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8 {
        let (outbox, inbox) = (h.outbox.clone(), h.inbox.clone());
        tasks.spawn(async move {
            for _ in 0..20 {
                let draft = Draft::new("a");
                let (first, second) =
                    if n % 2 == 0 { (outbox.queue(), inbox.queue()) } else { (inbox.queue(), outbox.queue()) };
                outbox.enqueue(draft.outgoing()).await?;
                inbox.enqueue(draft.incoming()?).await?;
                for queue in [first, second] {
                    let claims = queue.claim(postroom::message::OwnerToken::new(), LEASE, 2).await?;
                    let leases = claims.claimed.into_iter().map(|claimed| claimed.lease);
                    let _ = queue.ack(leases).await?;
                }
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = soon("no task waits for ever", tasks.join_next()).await? {
        ended??;
    }
    Ok(())
}

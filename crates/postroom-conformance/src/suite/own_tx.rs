//! Taking part in a transaction of the caller's own.

use std::sync::mpsc;
use std::time::Duration;

use postroom::{BlockingTx, ErrorKind, NewMessage, Queue, Sqlite, State, Store, WorkerOptions};
use rusqlite::Connection;

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Stage, eventually, refused, soon};
use crate::script::Script;

cases! { own_tx:
    sqlite an_enqueue_is_there_if_and_only_if_the_caller_commits ["OBX-003"];
    sqlite the_callers_transaction_stays_open ["OBX-003"];
    sqlite a_duplicate_is_told ["OBX-003"];
    sqlite workers_are_woken_when_the_guard_is_dropped [];
    sqlite an_accept_commits_with_the_caller [];
    sqlite an_accept_puts_a_seen_message_in_line [];
    sqlite an_ack_commits_with_the_caller [];
    sqlite an_ack_without_its_lease_is_an_error [];
    sqlite a_connection_that_can_lose_commits_is_refused [];
    sqlite statements_can_be_run_by_other_drivers [];
    sqlite a_documented_insert_is_a_message ["OBX-015"];
    sqlite a_verb_waits_for_another_writer ["OBX-082", "IBX-104"];
    memory there_is_no_transaction_to_take_part_in [];
    both verbs_of_both_queues_at_once_never_deadlock ["OBX-082", "IBX-104"];
}

fn connect(stage: &Stage<Sqlite>) -> anyhow::Result<Connection> {
    let conn = Connection::open(stage.place.path("store.db"))?;
    conn.busy_timeout(Duration::from_secs(5))?;
    conn.execute_batch("CREATE TABLE IF NOT EXISTS orders (id INTEGER)")?;
    Ok(conn)
}

async fn an_enqueue_is_there_if_and_only_if_the_caller_commits(stage: &Stage<Sqlite>) -> Verdict {
    let conn = connect(stage)?;
    for (end, expected) in [("ROLLBACK", 0), ("COMMIT", 1)] {
        conn.execute_batch("BEGIN; INSERT INTO orders VALUES (7)")?;
        let enqueued = stage.outbox.enqueue_in_blocking(&conn, &NewMessage::new("a", "seven"))?;
        conn.execute_batch(end)?;
        drop(enqueued);
        assert_eq!(stage.outbox.queue().stats().await?.total(), expected);
        let orders: i64 = conn.query_row("SELECT count(*) FROM orders", [], |row| row.get(0))?;
        assert_eq!(u64::try_from(orders)?, expected);
    }
    Ok(())
}

async fn the_callers_transaction_stays_open(stage: &Stage<Sqlite>) -> Verdict {
    let conn = connect(stage)?;
    conn.execute_batch("BEGIN")?;
    let enqueued = stage.outbox.enqueue_in_blocking(&conn, &NewMessage::new("a", ""))?;
    assert!(!conn.is_autocommit(), "the transaction was ended");
    assert_eq!(stage.outbox.queue().stats().await?.total(), 0, "others see it before the commit");
    refused(stage.outbox.enqueue_in_blocking(&conn, &NewMessage::new("", "")), ErrorKind::InvalidInput, "no topic")?;
    assert!(!conn.is_autocommit());
    conn.execute_batch("COMMIT")?;
    assert_eq!(stage.outbox.find(enqueued.id().as_uuid()).await?.len(), 1);
    Ok(())
}

async fn a_duplicate_is_told(stage: &Stage<Sqlite>) -> Verdict {
    let mut conn = connect(stage)?;
    let message = NewMessage::new("a", "");
    for expected in [false, true] {
        let tx = conn.transaction()?;
        let enqueued = stage.outbox.enqueue_in_blocking(&*tx, &message)?;
        assert_eq!(enqueued.is_duplicate(), expected);
        tx.commit()?;
    }
    Ok(())
}

async fn workers_are_woken_when_the_guard_is_dropped(stage: &Stage<Sqlite>) -> Verdict {
    let conn = connect(stage)?;
    let hour = Duration::from_secs(3600);
    let options = WorkerOptions::default().poll(hour);
    let worker = stage.work(Queue::Outbox, &Script::succeed(), options);
    for n in 1..=10 {
        conn.execute_batch("BEGIN")?;
        let enqueued = stage.outbox.enqueue_in_blocking(&conn, &NewMessage::new("a", ""))?;
        conn.execute_batch("COMMIT")?;
        drop(enqueued);
        let queue = stage.outbox.queue();
        eventually("it is handled", || async move { Ok(queue.stats().await?.done == n) }).await?;
    }
    worker.stop().await
}

async fn an_accept_commits_with_the_caller(stage: &Stage<Sqlite>) -> Verdict {
    let conn = connect(stage)?;
    let draft = Draft::new("a");
    for (end, expected) in [("ROLLBACK", 0), ("COMMIT", 1)] {
        conn.execute_batch("BEGIN")?;
        assert!(stage.inbox.accept_in_blocking(&conn, &draft.incoming()?)?);
        conn.execute_batch(end)?;
        assert_eq!(stage.inbox.queue().stats().await?.ready, expected);
    }
    assert!(!stage.inbox.accept_in_blocking(&conn, &draft.incoming()?)?, "it is known");
    Ok(())
}

/// Who asks first whether it was handled before must be able to accept it then.
async fn an_accept_puts_a_seen_message_in_line(stage: &Stage<Sqlite>) -> Verdict {
    let conn = connect(stage)?;
    let draft = Draft::new("a");
    assert!(!stage.inbox.already_processed(&draft.key()?).await?);
    assert!(stage.inbox.accept_in_blocking(&conn, &draft.incoming()?)?, "it was only seen, and nobody will handle it");
    assert_eq!(stage.inbox.queue().stats().await?.ready, 1);
    Ok(())
}

async fn an_ack_commits_with_the_caller(stage: &Stage<Sqlite>) -> Verdict {
    let conn = connect(stage)?;
    let side = stage.side(Queue::Inbox);
    let lease = side.leased("a").await?;
    for (end, state) in [("ROLLBACK", State::Leased), ("COMMIT", State::Done)] {
        conn.execute_batch("BEGIN; INSERT INTO orders VALUES (7)")?;
        stage.inbox.ack_in_blocking(&conn, &lease, Some("answer"))?;
        conn.execute_batch(end)?;
        assert_eq!(side.state(lease.seq()).await?, state);
    }
    assert_eq!(side.record(lease.seq()).await?.response(), Some("answer"));
    Ok(())
}

async fn an_ack_without_its_lease_is_an_error(stage: &Stage<Sqlite>) -> Verdict {
    let conn = connect(stage)?;
    let side = stage.side(Queue::Inbox);
    let stale = side.leased("a").await?;
    stage.clock.advance(LEASE + Duration::from_secs(2));
    let fresh = side.claim_one().await?;
    refused(stage.inbox.ack_in_blocking(&conn, &stale, None), ErrorKind::LeaseLost, "a stale ack")?;
    stage.inbox.ack_in_blocking(&conn, &fresh, None)?;
    refused(stage.inbox.ack_in_blocking(&conn, &fresh, None), ErrorKind::LeaseLost, "a second ack")
}

async fn a_connection_that_can_lose_commits_is_refused(stage: &Stage<Sqlite>) -> Verdict {
    let conn = connect(stage)?;
    let lease = stage.side(Queue::Inbox).leased("a").await?;
    for level in ["OFF", "NORMAL"] {
        conn.pragma_update(None, "synchronous", level)?;
        let accepted = stage.inbox.accept_in_blocking(&conn, &Draft::new("b").incoming()?);
        refused(accepted, ErrorKind::Unsupported, level)?;
        refused(stage.inbox.ack_in_blocking(&conn, &lease, None), ErrorKind::Unsupported, level)?;
    }
    assert_eq!(stage.inbox.queue().stats().await?.total(), 1);
    conn.pragma_update(None, "synchronous", "FULL")?;
    stage.inbox.ack_in_blocking(&conn, &lease, None)?;
    Ok(())
}

async fn statements_can_be_run_by_other_drivers(stage: &Stage<Sqlite>) -> Verdict {
    let conn = connect(stage)?;
    let message = NewMessage::new("a", "seven");
    let statement = stage.outbox.statement(&message)?;
    let rows = conn.execute(statement.sql(), rusqlite::params_from_iter(statement.values()))?;
    assert!(!statement.check(rows as u64)?.duplicate);
    assert!(conn.run(&stage.outbox.statement(&message)?)?.duplicate);
    let incoming = stage.inbox.statement(&Draft::new("a").incoming()?)?;
    assert_eq!(conn.run(&incoming)?.rows, 1);
    let lease = stage.side(Queue::Inbox).claim_one().await?;
    let ack = stage.inbox.ack_statement(&lease, None)?;
    assert_eq!(conn.run(&ack)?.rows, 1);
    refused(ack.check(0), ErrorKind::LeaseLost, "an ack that changed no row")
}

/// What a service without this library writes in its own transaction.
async fn a_documented_insert_is_a_message(stage: &Stage<Sqlite>) -> Verdict {
    let before = postroom::Clock::Database.now();
    let conn = connect(stage)?;
    conn.execute("INSERT INTO outbox_messages (id, topic, payload) VALUES (randomblob(16), 'a', 'seven')", [])?;
    let real = stage.place.sqlite_options().clock(postroom::Clock::Database).open().await?;
    let claims = postroom::Outbox::new(real).queue().claim(postroom::OwnerToken::new(), LEASE, 5).await?;
    let message = claims.claimed[0].message.clone().map_err(anyhow::Error::msg)?;
    assert_eq!((message.topic.as_str(), message.payload.as_str()), ("a", "seven"));
    let second = Duration::from_secs(1);
    assert!(message.created_at.plus(second) >= before, "it is dated {}", message.created_at);
    assert!(message.created_at <= postroom::Clock::Database.now().plus(second));
    Ok(())
}

async fn a_verb_waits_for_another_writer(stage: &Stage<Sqlite>) -> Verdict {
    let conn = connect(stage)?;
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

async fn there_is_no_transaction_to_take_part_in(stage: &Stage<postroom::Memory>) -> Verdict {
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
                    let claims = queue.claim(postroom::OwnerToken::new(), LEASE, 2).await?;
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

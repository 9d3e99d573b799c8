//! A SQLite file that another program has locked: waiting calls fail soon, and no message spends an attempt.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use postroom::message::OwnerToken;
use postroom::queue::{Queue, State};
use postroom::sqlite::Sqlite;
use postroom::{Ctx, ErrorKind, HandlerResult, Handlers, Message, NewMessage, Outbox};
use rusqlite::Connection;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::case::{Verdict, cases};
use crate::harness::{Draft, LEASE, Stage, eventually, refused, soon};
use crate::script::Running;

cases! { locked:
    sqlite a_foreign_lock_spends_no_attempt [];
    sqlite a_foreign_lock_for_minutes_kills_nothing [];
    sqlite a_lease_that_ran_out_under_a_foreign_lock_is_no_crash [];
    sqlite all_that_wait_for_a_foreign_lock_are_told_together ["SQM-9.1.2"];
    sqlite a_claim_that_was_given_up_is_not_run [];
    sqlite a_write_that_was_given_up_is_not_run [];
    sqlite a_lock_that_ends_in_time_is_waited_for ["SQM-9.1.2"];
}

/// Another program's transaction, until it is dropped.
fn lock(stage: &Stage<Sqlite>) -> anyhow::Result<Connection> {
    let conn = Connection::open(stage.place.path("store.db"))?;
    conn.busy_timeout(Duration::from_secs(10))?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    Ok(conn)
}

/// What a handler sees, reported to the case.
struct Met {
    begun: mpsc::UnboundedSender<Option<ErrorKind>>,
    go: Semaphore,
}

async fn write(ctx: &mut Ctx<Sqlite>, _: Arc<Message>) -> HandlerResult<Option<String>> {
    let met = ctx.state::<Arc<Met>>()?;
    met.begun.send(None)?;
    met.go.acquire().await?.forget();
    let written = ctx.tx().await?.run(|conn| conn.execute("INSERT INTO effects VALUES (1)", [])).await;
    met.begun.send(written.as_ref().err().map(postroom::Error::kind))?;
    written?;
    Ok(None)
}

async fn a_foreign_lock_spends_no_attempt(stage: &Stage<Sqlite>) -> Verdict {
    stage.store.write(|tx| Ok(tx.execute_batch("CREATE TABLE effects (id INTEGER)")?)).await?;
    let (begun, mut told) = mpsc::unbounded_channel();
    let met = Arc::new(Met { begun, go: Semaphore::new(0) });
    let side = stage.side(Queue::Inbox);
    let row = side.put(&Draft::new("a").max_attempts(1)).await?;
    let handlers = Handlers::new().state(met.clone()).on_topic("a", write);
    let worker = Running::start(stage.worker(side.queue, handlers));
    soon("the handler begins", told.recv()).await?;
    let locked = lock(stage)?;
    met.go.add_permits(10);
    let kind = soon("the handler is told", told.recv()).await?.flatten();
    drop(locked);
    assert_eq!(kind, Some(ErrorKind::Unavailable));
    eventually("it is done", || async move {
        stage.skip_pause(side.queue).await?;
        Ok(!matches!(side.state(row).await?, State::Ready | State::Leased))
    })
    .await?;
    worker.stop().await?;
    let record = side.record(row).await?;
    assert_eq!((record.state(), record.attempts()), (State::Done, 0), "{:?}", record.last_error());
    Ok(())
}

const MESSAGES: u64 = 200;

/// Some are in progress when it begins, the others are ready; it lasts longer than all their attempts would.
async fn a_foreign_lock_for_minutes_kills_nothing(stage: &Stage<Sqlite>) -> Verdict {
    stage.store.write(|tx| Ok(tx.execute_batch("CREATE TABLE effects (id INTEGER)")?)).await?;
    let (begun, mut told) = mpsc::unbounded_channel();
    let met = Arc::new(Met { begun, go: Semaphore::new(0) });
    let side = stage.side(Queue::Inbox);
    for _ in 0..MESSAGES {
        side.put(&Draft::new("a").max_attempts(1)).await?;
    }
    let handlers = Handlers::new().state(met.clone()).on_topic("a", write);
    let worker = Running::start(stage.worker(side.queue, handlers));
    soon("the handler begins", told.recv()).await?;
    let locked = lock(stage)?;
    met.go.add_permits(100_000);
    let mut refusals = 0;
    while refusals < 4 {
        let kind = soon("a handler is told", told.recv()).await?.flatten();
        refusals += u32::from(kind == Some(ErrorKind::Unavailable));
        stage.clock.advance(Duration::from_secs(20));
    }
    refused(side.verbs().reap(10).await, ErrorKind::Unavailable, "a locked file")?;
    drop(locked);
    eventually("all are done", || async move {
        stage.skip_pause(side.queue).await?;
        Ok(side.verbs().stats().await?.done == MESSAGES)
    })
    .await?;
    worker.stop().await?;
    for record in side.verbs().list(postroom::operator::Filter::all()).await? {
        assert_eq!((record.attempts(), record.crashes()), (0, 0), "{:?}", record.last_error());
    }
    let count = "SELECT count(*) FROM effects";
    let effects: i64 = stage.store.read(move |conn| Ok(conn.query_row(count, [], |row| row.get(0))?)).await?;
    assert_eq!(effects, i64::try_from(MESSAGES)?);
    Ok(())
}

/// Nobody could renew it.
async fn a_lease_that_ran_out_under_a_foreign_lock_is_no_crash(stage: &Stage<Sqlite>) -> Verdict {
    let side = stage.side(Queue::Outbox);
    side.add("a").await?;
    for (is_locked, crashes) in [(true, 0), (false, 1), (true, 1)] {
        let lease = side.claim_one().await?;
        if is_locked {
            let locked = lock(stage)?;
            refused(side.verbs().extend(&[lease], LEASE).await, ErrorKind::Unavailable, "a renewal")?;
            drop(locked);
        }
        stage.clock.advance(LEASE);
        assert_eq!(side.verbs().reap(10).await?.freed, 1);
        stage.clock.advance(Duration::from_secs(60));
        let lease = side.claim_one().await?;
        assert_eq!(lease.crashes(), crashes, "locked: {is_locked}");
        side.release(lease).await?;
    }
    Ok(())
}

/// One after the other they would take five seconds each.
async fn all_that_wait_for_a_foreign_lock_are_told_together(stage: &Stage<Sqlite>) -> Verdict {
    stage.side(Queue::Outbox).add("before").await?;
    let locked = lock(stage)?;
    let mut jobs = JoinSet::new();
    for n in 0..40 {
        let outbox = stage.outbox.clone();
        jobs.spawn(async move { outbox.enqueue(NewMessage::new("a", n.to_string())).await });
    }
    while let Some(told) = soon("everybody is told", jobs.join_next()).await? {
        refused(told?, ErrorKind::Unavailable, "a locked file")?;
    }
    drop(locked);
    stage.side(Queue::Outbox).add("after").await?;
    assert_eq!(stage.side(Queue::Outbox).rows().await?, 2);
    Ok(())
}

/// Its rows would be leased to nobody.
async fn a_claim_that_was_given_up_is_not_run(stage: &Stage<Sqlite>) -> Verdict {
    for side in stage.sides() {
        let row = side.add("a").await?;
        let locked = lock(stage)?;
        let claim = side.verbs().claim(OwnerToken::new(), LEASE, 10).now_or_never();
        assert!(claim.is_none(), "it waits for the lock");
        drop(locked);
        // It waits behind the claim.
        side.add("b").await?;
        assert_eq!(side.state(row).await?, State::Ready);
    }
    Ok(())
}

async fn a_write_that_was_given_up_is_not_run(stage: &Stage<Sqlite>) -> Verdict {
    let locked = lock(stage)?;
    assert!(stage.outbox.enqueue(NewMessage::new("given up", "")).now_or_never().is_none());
    drop(locked);
    stage.side(Queue::Outbox).add("wanted").await?;
    assert_eq!(stage.side(Queue::Outbox).rows().await?, 1);
    Ok(())
}

async fn a_lock_that_ends_in_time_is_waited_for(stage: &Stage<Sqlite>) -> Verdict {
    let locked = lock(stage)?;
    let mut jobs = JoinSet::new();
    for _ in 0..20 {
        let outbox: Outbox = stage.outbox.clone();
        jobs.spawn(async move { outbox.enqueue(NewMessage::new("a", "")).await });
    }
    // The lock lasts longer than a moment, and not as long as anybody waits.
    let _ = tokio::time::timeout(Duration::from_millis(500), jobs.join_next()).await;
    drop(locked);
    while let Some(stored) = soon("everybody is told", jobs.join_next()).await? {
        stored??;
    }
    assert_eq!(stage.side(Queue::Outbox).rows().await?, 20);
    Ok(())
}

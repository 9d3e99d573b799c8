//! With a guard taken away the cases would notice: here is what they would see.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use postroom::testing::{Point, Probe, Sabotage};
use postroom::{
    BlockingCtx, Ctx, HandlerResult, Handlers, Inbox, Message, OwnerToken, Sqlite, SqliteStore, Worker, WorkerOptions,
};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, LEASE, Stage, soon};
use crate::script::Running;

cases! { sabotage:
    sqlite without_fencing_a_stale_ack_would_settle [];
    sqlite a_blocking_handler_whose_lease_is_lost_leaves_no_effect ["OBX-058", "IBX-077"];
    sqlite an_async_handler_whose_lease_is_lost_leaves_no_effect ["OBX-058", "IBX-077"];
    sqlite with_the_ack_outside_an_effect_would_stay [];
}

async fn sabotaged(stage: &Stage<Sqlite>, sabotage: Option<Sabotage>) -> anyhow::Result<SqliteStore> {
    Ok(stage.place.sqlite_options().sabotage(sabotage).open().await?)
}

async fn without_fencing_a_stale_ack_would_settle(stage: &Stage<Sqlite>) -> Verdict {
    for (sabotage, applied) in [(None, 0), (Some(Sabotage::Fencing), 1)] {
        let inbox = Inbox::new(sabotaged(stage, sabotage).await?);
        inbox.enqueue(Draft::new("a").incoming()?).await?;
        let stale = inbox.queue().claim(OwnerToken::new(), LEASE, 1).await?.claimed.remove(0).lease;
        stage.clock.advance(LEASE + Duration::from_secs(2));
        let fresh = inbox.queue().claim(OwnerToken::new(), LEASE, 1).await?.claimed.remove(0).lease;
        assert_eq!(inbox.queue().ack([stale]).await?.applied, applied);
        let _ = inbox.queue().ack([fresh]).await?;
    }
    Ok(())
}

async fn with_effect(ctx: &mut Ctx<Sqlite>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let id = message.id();
    ctx.tx().await?.run(move |conn| conn.execute("INSERT INTO effects VALUES (?1)", [id])).await?;
    Ok(None)
}

fn with_effect_blocking(ctx: &mut BlockingCtx<'_>) -> HandlerResult<Option<String>> {
    ctx.tx().execute("INSERT INTO effects VALUES (?1)", [ctx.message().id()])?;
    Ok(None)
}

/// Stops a worker between its claim and its handler until another worker has the message; returns the effects.
async fn effects_of_a_late_handler(
    stage: &Stage<Sqlite>,
    handlers: Handlers<Sqlite>,
    sabotage: Option<Sabotage>,
) -> anyhow::Result<i64> {
    let store = sabotaged(stage, sabotage).await?;
    store.write(|tx| Ok(tx.execute_batch("CREATE TABLE IF NOT EXISTS effects (id TEXT)")?)).await?;
    let inbox = Inbox::new(store.clone());
    inbox.enqueue(Draft::new("a").incoming()?).await?;
    let (claimed, mut claiming) = tokio::sync::mpsc::unbounded_channel();
    let (lost, mut losing) = tokio::sync::mpsc::unbounded_channel();
    let (go, going) = mpsc::channel::<()>();
    let going = Mutex::new(going);
    let probe = Probe(Arc::new(move |point| match point {
        Point::AfterClaim => {
            claimed.send(()).ok();
            let wait = || going.lock().unwrap_or_else(PoisonError::into_inner).recv();
            tokio::task::block_in_place(wait).ok();
        }
        Point::LeaseLost => drop(lost.send(())),
        Point::AfterCommit => {}
    }));
    let worker = Running::start(Worker::inbox(store.clone(), handlers).options(WorkerOptions::default().probe(probe)));
    soon("the worker claims", claiming.recv()).await?;
    stage.clock.advance(LEASE + Duration::from_secs(2));
    assert_eq!(inbox.queue().claim(OwnerToken::new(), LEASE, 1).await?.claimed.len(), 1);
    drop(go);
    soon("the late handler is refused", losing.recv()).await?;
    worker.stop().await?;
    Ok(store.read(|conn| Ok(conn.query_row("SELECT count(*) FROM effects", [], |row| row.get(0))?)).await?)
}

async fn a_blocking_handler_whose_lease_is_lost_leaves_no_effect(stage: &Stage<Sqlite>) -> Verdict {
    let blocking = Handlers::new().on_topic_blocking("a", with_effect_blocking);
    assert_eq!(effects_of_a_late_handler(stage, blocking, None).await?, 0);
    Ok(())
}

async fn an_async_handler_whose_lease_is_lost_leaves_no_effect(stage: &Stage<Sqlite>) -> Verdict {
    let waiting = Handlers::new().on_topic("a", with_effect);
    assert_eq!(effects_of_a_late_handler(stage, waiting, None).await?, 0);
    Ok(())
}

async fn with_the_ack_outside_an_effect_would_stay(stage: &Stage<Sqlite>) -> Verdict {
    let waiting = Handlers::new().on_topic("a", with_effect);
    assert_eq!(effects_of_a_late_handler(stage, waiting, Some(Sabotage::AckOutside)).await?, 1);
    Ok(())
}

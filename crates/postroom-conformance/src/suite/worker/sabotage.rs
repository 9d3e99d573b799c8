//! With a guard taken away the cases would notice: here is what they would see.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use postroom::message::OwnerToken;
use postroom::mssql::Mssql;
use postroom::mysql::MySql;
use postroom::postgres::Postgres;
use postroom::sqlite::{BlockingCtx, Sqlite, SqliteStore};
use postroom::testing::{Point, Probe, Sabotage};
use postroom::{Ctx, HandlerResult, Handlers, Inbox, Message, Worker, WorkerOptions};

use crate::by_wire::{ByWire, Effects};
use crate::case::{Verdict, cases};
use crate::harness::{Draft, LEASE, Stage, Testable, soon};
use crate::script::Running;
use crate::servers;

cases! { sabotage:
    durable without_fencing_a_stale_ack_would_settle [];
    sqlite a_blocking_handler_whose_lease_is_lost_leaves_no_effect ["OBX-058", "IBX-077"];
    durable an_async_handler_whose_lease_is_lost_leaves_no_effect ["OBX-058", "IBX-077"];
    durable with_the_ack_outside_an_effect_would_stay [];
}

/// A backend whose guards can be taken away, and whose handlers leave effects.
trait Guarded: Testable {
    async fn open_without(stage: &Stage<Self>, sabotage: Option<Sabotage>) -> anyhow::Result<Self::Store>;

    /// An async handler that leaves an effect.
    async fn handlers(stage: &Stage<Self>) -> anyhow::Result<Handlers<Self>>;

    async fn effects(stage: &Stage<Self>) -> anyhow::Result<usize>;
}

impl Guarded for Sqlite {
    async fn open_without(stage: &Stage<Self>, sabotage: Option<Sabotage>) -> anyhow::Result<SqliteStore> {
        Ok(stage.place.sqlite_options().sabotage(sabotage).open().await?)
    }

    async fn handlers(stage: &Stage<Self>) -> anyhow::Result<Handlers<Self>> {
        stage.store.write(|tx| Ok(tx.execute_batch("CREATE TABLE effects (id TEXT)")?)).await?;
        Ok(Handlers::new().on_topic("a", with_effect))
    }

    async fn effects(stage: &Stage<Self>) -> anyhow::Result<usize> {
        let count = "SELECT count(*) FROM effects";
        let count: u32 = stage.store.read(move |conn| Ok(conn.query_row(count, [], |row| row.get(0))?)).await?;
        Ok(usize::try_from(count)?)
    }
}

macro_rules! guarded_by_wire {
    ($backend:ty) => {
        impl Guarded for $backend {
            async fn open_without(stage: &Stage<Self>, sabotage: Option<Sabotage>) -> anyhow::Result<Self::Store> {
                Ok(Self::open_by(&stage.place, &servers::url(Self::VARIABLE), sabotage).await?)
            }

            async fn handlers(stage: &Stage<Self>) -> anyhow::Result<Handlers<Self>> {
                Ok(Handlers::new().state(stage.create_effects().await?).on_topic("a", with_effect_by_wire::<Self>))
            }

            async fn effects(stage: &Stage<Self>) -> anyhow::Result<usize> {
                Ok(stage.effects().await?.len())
            }
        }
    };
}

guarded_by_wire!(Postgres);
guarded_by_wire!(MySql);
guarded_by_wire!(Mssql);

async fn without_fencing_a_stale_ack_would_settle<B: Guarded>(stage: &Stage<B>) -> Verdict {
    for (sabotage, applied) in [(None, 0), (Some(Sabotage::Fencing), 1)] {
        let inbox = Inbox::new(B::open_without(stage, sabotage).await?);
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

async fn with_effect_by_wire<B: ByWire>(ctx: &mut Ctx<B>, _: Arc<Message>) -> HandlerResult<Option<String>> {
    let effects = ctx.state::<Effects>()?;
    effects.note(ctx).await?;
    Ok(None)
}

fn with_effect_blocking(ctx: &mut BlockingCtx<'_>) -> HandlerResult<Option<String>> {
    ctx.tx().execute("INSERT INTO effects VALUES (?1)", [ctx.message().id()])?;
    Ok(None)
}

/// Stops a worker between its claim and its handler until another worker has the message; returns the effects.
async fn effects_of_a_late_handler<B: Guarded>(
    stage: &Stage<B>,
    handlers: Handlers<B>,
    sabotage: Option<Sabotage>,
) -> anyhow::Result<usize> {
    let store = B::open_without(stage, sabotage).await?;
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
    B::effects(stage).await
}

async fn a_blocking_handler_whose_lease_is_lost_leaves_no_effect(stage: &Stage<Sqlite>) -> Verdict {
    drop(Sqlite::handlers(stage).await?);
    let blocking = Handlers::new().on_topic_blocking("a", with_effect_blocking);
    assert_eq!(effects_of_a_late_handler(stage, blocking, None).await?, 0);
    Ok(())
}

async fn an_async_handler_whose_lease_is_lost_leaves_no_effect<B: Guarded>(stage: &Stage<B>) -> Verdict {
    let handlers = B::handlers(stage).await?;
    assert_eq!(effects_of_a_late_handler(stage, handlers, None).await?, 0);
    Ok(())
}

async fn with_the_ack_outside_an_effect_would_stay<B: Guarded>(stage: &Stage<B>) -> Verdict {
    let handlers = B::handlers(stage).await?;
    assert_eq!(effects_of_a_late_handler(stage, handlers, Some(Sabotage::AckOutside)).await?, 1);
    Ok(())
}

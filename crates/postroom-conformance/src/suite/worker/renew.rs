//! Leases of handlers that take long.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::FutureExt;
use postroom::queue::{Queue, State};
use postroom::testing::{Point, Probe};
use postroom::{HandlerError, WorkerOptions};
use tokio::sync::{Notify, mpsc};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Stage, Testable, eventually, soon};
use crate::script::{Call, Script};

cases! { renew:
    worker a_slow_handler_keeps_its_lease [];
    worker a_lost_lease_breaks_the_handler_off [];
    worker a_lost_lease_breaks_off_only_its_own_message [];
    worker a_handler_that_is_told_to_stop_has_a_moment_to_end_well [];
    sqlite a_lease_that_cannot_be_renewed_breaks_the_handler_off [];
    durable an_effect_is_single_though_the_handler_ran_twice ["OBX-058", "IBX-077"];
}

/// Short enough to be renewed within a test, by the machine's clock.
const SHORT: Duration = Duration::from_secs(3);

/// A handler that says that it has begun and waits until it is let go.
fn gated(begun: &mpsc::UnboundedSender<Call>, gate: &Arc<Notify>) -> Script {
    let (begun, gate) = (begun.clone(), gate.clone());
    Script::new(move |call| {
        let gate = gate.clone();
        begun.send(call).ok();
        async move {
            gate.notified().await;
            Ok(None)
        }
    })
}

async fn a_slow_handler_keeps_its_lease<B: Testable>(stage: &Stage<B>) -> Verdict {
    // Long enough that a busy machine renews it in time.
    let long = SHORT * 2;
    for side in stage.sides() {
        let (begun, mut beginning) = mpsc::unbounded_channel();
        let gate = Arc::new(Notify::new());
        let worker = stage.work(side.queue, &gated(&begun, &gate), WorkerOptions::default().lease(long));
        let seq = side.add("slow").await?;
        soon("the handler begins", beginning.recv()).await?;
        for _ in 0..2 {
            // By the store's clock the lease is nearly over; the worker renews it from there.
            stage.clock.advance(long - Duration::from_millis(1));
            let whole = Some(stage.clock.now().plus(long));
            let renewed = || async move { Ok(side.record(seq).await?.locked_until() == whole) };
            eventually("the lease is renewed", renewed).await?;
            assert!(side.claim(10).await?.is_empty());
        }
        gate.notify_one();
        eventually("it is done", || async move { Ok(side.state(seq).await? == State::Done) }).await?;
        worker.stop().await?;
        assert_eq!(side.record(seq).await?.claim_no(), 1);
    }
    Ok(())
}

async fn a_lost_lease_breaks_the_handler_off<B: Testable>(stage: &Stage<B>) -> Verdict {
    let side = stage.side(Queue::Inbox);
    let (begun, mut beginning) = mpsc::unbounded_channel();
    let gate = Arc::new(Notify::new());
    let worker = stage.work(side.queue, &gated(&begun, &gate), WorkerOptions::default().lease(SHORT));
    let draft = Draft::new("slow");
    let seq = side.put(&draft).await?;
    let call = soon("the handler begins", beginning.recv()).await?;
    assert!(stage.inbox.mark_processed(&draft.key()?).await?);
    let cancelled = call.map(|call| call.cancelled).ok_or_else(|| anyhow::anyhow!("no call"))?;
    soon("the handler is told", cancelled).await?;
    worker.stop().await?;
    assert_eq!(side.state(seq).await?, State::Done);
    Ok(())
}

async fn a_lost_lease_breaks_off_only_its_own_message<B: Testable>(stage: &Stage<B>) -> Verdict {
    let side = stage.side(Queue::Inbox);
    let (begun, mut beginning) = mpsc::unbounded_channel();
    let gate = Arc::new(Notify::new());
    let (lost, kept) = (Draft::new("lost"), Draft::new("kept"));
    for draft in [&lost, &kept] {
        side.put(draft).await?;
    }
    let script = gated(&begun, &gate);
    let worker = stage.work(side.queue, &script, WorkerOptions::default().lease(SHORT));
    let (mut lost_call, mut kept_call) = (None, None);
    for _ in 0..2 {
        let call = soon("both handlers begin", beginning.recv()).await?.context("the handlers are gone")?;
        *(if call.message.topic == "lost" { &mut lost_call } else { &mut kept_call }) = Some(call.cancelled);
    }
    assert!(stage.inbox.mark_processed(&lost.key()?).await?);
    soon("one handler is told", lost_call.context("it did not begin")?).await?;
    let told = kept_call.context("it did not begin")?.now_or_never();
    assert!(told.is_none(), "the neighbour's handler was broken off too");
    let key = kept.key()?;
    let done = || async {
        gate.notify_one();
        Ok(stage.inbox.get(&key).await?.is_some_and(|record| record.state() == State::Done))
    };
    eventually("the other one is done", done).await?;
    worker.stop().await?;
    let calls = script.calls().iter().filter(|message| message.topic == "kept").count();
    assert_eq!(calls, 1, "the neighbour's handler was broken off and called again");
    Ok(())
}

/// The worker stops before the handler is done: it ends by itself, and the message has spent no attempt.
async fn a_handler_that_is_told_to_stop_has_a_moment_to_end_well<B: Testable>(stage: &Stage<B>) -> Verdict {
    let side = stage.side(Queue::Inbox);
    let (begun, mut beginning) = mpsc::unbounded_channel();
    let (ended, mut ending) = mpsc::unbounded_channel();
    let script = Script::new(move |call| {
        let ended = ended.clone();
        begun.send(()).ok();
        async move {
            call.cancelled.await;
            tokio::task::yield_now().await;
            ended.send(()).ok();
            Err(HandlerError::retry("told to stop"))
        }
    });
    let worker = stage.work(side.queue, &script, WorkerOptions::default().grace(Duration::from_millis(1)));
    let seq = side.add("slow").await?;
    soon("the handler begins", beginning.recv()).await?;
    worker.stop().await?;
    assert!(ending.try_recv().is_ok(), "the handler was dropped at once");
    let row = side.record(seq).await?;
    assert_eq!((row.state(), row.attempts(), row.last_error()), (State::Ready, 0, None));
    Ok(())
}

/// Somebody else writes for longer than the lease lasts: the worker stops believing in it before it is over.
async fn a_lease_that_cannot_be_renewed_breaks_the_handler_off(stage: &Stage<postroom::sqlite::Sqlite>) -> Verdict {
    let side = stage.side(Queue::Inbox);
    let (begun, mut beginning) = mpsc::unbounded_channel();
    let gate = Arc::new(Notify::new());
    let worker = stage.work(side.queue, &gated(&begun, &gate), WorkerOptions::default().lease(SHORT));
    let seq = side.add("slow").await?;
    let call = soon("the handler begins", beginning.recv()).await?.context("the handler is gone")?;
    let conn = rusqlite::Connection::open(stage.place.path("store.db"))?;
    conn.busy_timeout(Duration::from_secs(5))?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    soon("the handler is told while nobody can write", call.cancelled).await?;
    conn.execute_batch("ROLLBACK")?;
    eventually("it is handled again", || async {
        gate.notify_one();
        Ok(side.state(seq).await? == State::Done)
    })
    .await?;
    worker.stop().await?;
    assert_eq!(side.record(seq).await?.attempts(), 0, "that was no failure of the message");
    Ok(())
}

/// The first call outlives its lease: another worker handles the message, and the first one's ack is refused.
async fn an_effect_is_single_though_the_handler_ran_twice<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let before = stage.outbox.queue().list(postroom::operator::Filter::all().topic("effect")).await?.len();
        let (begun, mut beginning) = mpsc::unbounded_channel();
        let gate = Arc::new(Notify::new());
        let (lost, mut losing) = mpsc::unbounded_channel();
        let probe = Probe(Arc::new(move |point| {
            if point == Point::LeaseLost {
                lost.send(()).ok();
            }
        }));
        let slow = gated(&begun, &gate);
        let hour = Duration::from_secs(3600);
        let options = WorkerOptions::default().lease(Duration::from_secs(30)).poll(hour).poll_max(hour);
        let handlers = postroom::Handlers::new().state(slow.clone()).on_topic("twice", with_effect::<B>);
        let sleepy = stage.worker(side.queue, handlers).options(options.clone().probe(probe));
        let sleepy = crate::script::Running::start(sleepy);
        let seq = side.add("twice").await?;
        soon("the first call begins", beginning.recv()).await?;
        // The sleepy worker's lease runs out by the store's clock before it can renew it.
        stage.clock.advance(Duration::from_secs(32));
        let quick = Script::succeed();
        let handlers = postroom::Handlers::new().state(quick.clone()).on_topic("twice", with_effect::<B>);
        // In another process: in this one nobody takes away what the sleepy worker still works on.
        let store = B::open_again(&stage.store, &stage.place).await?;
        let other = match side.queue {
            postroom::queue::Queue::Outbox => postroom::Worker::<B>::outbox(store, handlers),
            postroom::queue::Queue::Inbox => postroom::Worker::<B>::inbox(store, handlers),
        };
        let other = crate::script::Running::start(other.options(options));
        eventually("it is taken over", || async move { Ok(side.record(seq).await?.claim_no() == 2) }).await?;
        gate.notify_one();
        soon("the first worker learns that its lease is lost", losing.recv()).await?;
        let done = || async {
            // Should the first worker have won it back, its second call waits here.
            gate.notify_one();
            Ok(side.state(seq).await? == State::Done)
        };
        eventually("it is handled again", done).await?;
        sleepy.stop().await?;
        other.stop().await?;
        assert_eq!(slow.count() + quick.count(), 2, "the handler ran twice");
        let effects = stage.outbox.queue().list(postroom::operator::Filter::all().topic("effect")).await?.len();
        assert_eq!(effects - before, 1, "and its effect is there once");
    }
    Ok(())
}

async fn with_effect<B: Testable>(
    ctx: &mut postroom::Ctx<B>,
    message: Arc<postroom::Message>,
) -> Result<Option<String>, HandlerError> {
    let answer = crate::script::play(ctx, message).await?;
    let later = postroom::clock::Timestamp::from_micros(i64::MAX);
    ctx.enqueue(postroom::NewMessage::new("effect", "").due_at(later)).await?;
    Ok(answer)
}

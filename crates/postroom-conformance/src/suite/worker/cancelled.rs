//! Messages that are cancelled while a worker has them in progress.

use std::sync::Arc;

use anyhow::Context;
use postroom::message::WorkItemId;
use postroom::operator::{Filter, Operator};
use postroom::queue::{Cancelled, Cause, Fault, Queue, State};
use postroom::sqlite::Sqlite;
use postroom::store::BoxFuture;
use postroom::worker::{Delivery, Transport};
use postroom::{HandlerError, Handlers, Message, NewMessage, Worker, WorkerOptions};
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::case::{Verdict, cases};
use crate::harness::{Harness, Stage, Testable, eventually, soon};
use crate::script::{Call, Running, Script};

cases! { cancelled:
    worker a_handler_that_is_asked_to_stop_ends_and_is_not_called_again [];
    worker a_handler_in_another_process_is_asked_to_stop [];
    worker a_handler_that_succeeds_all_the_same_is_done [];
    worker a_handler_that_has_not_begun_is_not_called [];
    worker a_message_that_is_being_sent_is_not_sent_again [];
    worker a_lane_is_cancelled_under_a_worker_and_goes_on [];
    sqlite nothing_is_left_of_a_cancel_when_the_message_has_ended [];
}

/// A handler that says that it has begun, and fails when it is asked to stop.
fn obedient(begun: &mpsc::UnboundedSender<Arc<Message>>) -> Script {
    let begun = begun.clone();
    Script::new(move |call| {
        begun.send(call.message).ok();
        async move {
            call.cancelled.await;
            Err(HandlerError::retry("asked to stop"))
        }
    })
}

/// A handler that says that it has begun, and succeeds when it may, whatever it is asked.
fn stubborn(begun: &mpsc::UnboundedSender<Call>, may_end: &Arc<Semaphore>) -> Script {
    let (begun, may_end) = (begun.clone(), may_end.clone());
    Script::new(move |call| {
        let may_end = may_end.clone();
        begun.send(call).ok();
        async move {
            may_end.acquire().await?.forget();
            Ok(None)
        }
    })
}

async fn is_cancelled(h: &Harness, queue: Queue, seq: i64) -> Verdict {
    let side = h.side(queue);
    eventually("it is cancelled", || async move { Ok(side.state(seq).await? == State::Dismissed) }).await?;
    let record = side.record(seq).await?;
    assert_eq!(record.dismissal().and_then(Operator::why), Some("cancelled"));
    assert_eq!((record.claim_no(), record.attempts()), (1, 0), "it is no failure of the message");
    Ok(())
}

async fn a_handler_that_is_asked_to_stop_ends_and_is_not_called_again<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let (begun, mut beginning) = mpsc::unbounded_channel();
        let script = obedient(&begun);
        let worker = stage.work(side.queue, &script, WorkerOptions::default());
        let seq = side.add("slow").await?;
        soon("the handler begins", beginning.recv()).await?;
        assert_eq!(side.verbs().cancel(seq).await?, Cancelled::Asked);
        is_cancelled(stage, side.queue, seq).await?;
        worker.stop().await?;
        assert_eq!(script.count(), 1);
    }
    Ok(())
}

async fn a_handler_in_another_process_is_asked_to_stop<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let (begun, mut beginning) = mpsc::unbounded_channel();
        let script = obedient(&begun);
        let store = B::open_again(&stage.store, &stage.place).await?;
        let worker = match side.queue {
            Queue::Outbox => Worker::<B>::outbox(store, script.handlers()),
            Queue::Inbox => Worker::<B>::inbox(store, script.handlers()),
        };
        let worker = Running::start(worker);
        let seq = side.add("slow").await?;
        soon("the handler begins", beginning.recv()).await?;
        assert_eq!(side.verbs().cancel(seq).await?, Cancelled::Asked);
        is_cancelled(stage, side.queue, seq).await?;
        worker.stop().await?;
        assert_eq!(script.count(), 1);
    }
    Ok(())
}

async fn a_handler_that_succeeds_all_the_same_is_done<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let (begun, mut beginning) = mpsc::unbounded_channel();
        let may_end = Arc::new(Semaphore::new(0));
        let worker = stage.work(side.queue, &stubborn(&begun, &may_end), WorkerOptions::default());
        let seq = side.add("slow").await?;
        let call = soon("the handler begins", beginning.recv()).await?.context("the handler is gone")?;
        assert_eq!(side.verbs().cancel(seq).await?, Cancelled::Asked);
        soon("the handler is told", call.cancelled).await?;
        // It is not dropped, and others are worked on meanwhile.
        let other = side.add("slow").await?;
        soon("the next handler begins", beginning.recv()).await?;
        may_end.add_permits(2);
        for seq in [seq, other] {
            eventually("it is done", || async move { Ok(side.state(seq).await? == State::Done) }).await?;
        }
        worker.stop().await?;
        assert_eq!(side.record(seq).await?.claim_no(), 1);
    }
    Ok(())
}

async fn a_handler_that_has_not_begun_is_not_called<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let (begun, mut beginning) = mpsc::unbounded_channel();
        let may_end = Arc::new(Semaphore::new(0));
        let script = stubborn(&begun, &may_end);
        let (first, second) = (side.add("slow").await?, side.add("slow").await?);
        let worker = stage.work(side.queue, &script, WorkerOptions::default().concurrency(1).batch(2));
        soon("the first handler begins", beginning.recv()).await?;
        let is_held = || async move { Ok(side.state(second).await? == State::Leased) };
        eventually("the second message is in progress", is_held).await?;
        assert_eq!(side.verbs().cancel(second).await?, Cancelled::Asked);
        is_cancelled(stage, side.queue, second).await?;
        may_end.add_permits(1);
        eventually("the first one is done", || async move { Ok(side.state(first).await? == State::Done) }).await?;
        worker.stop().await?;
        assert_eq!(script.count(), 1);
    }
    Ok(())
}

/// A way to another service on which everything takes until it may fail.
#[derive(Clone)]
struct Slow {
    begun: mpsc::UnboundedSender<()>,
    may_fail: Arc<Notify>,
}

impl Transport for Slow {
    fn send<'a>(&'a self, _: &'a Message) -> BoxFuture<'a, Delivery> {
        Box::pin(async {
            self.begun.send(()).ok();
            self.may_fail.notified().await;
            Fault::new(Cause::HandlerFailed, "the handler failed there").into()
        })
    }
}

async fn a_message_that_is_being_sent_is_not_sent_again<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (begun, mut beginning) = mpsc::unbounded_channel();
    let wire = Slow { begun, may_fail: Arc::new(Notify::new()) };
    let worker = Worker::<B>::outbox(stage.store.clone(), Handlers::new()).transport(wire.clone());
    let worker = Running::start(worker);
    let id: WorkItemId = stage.outbox.enqueue(NewMessage::new("a", "x").to("billing")).await?.id();
    soon("it is being sent", beginning.recv()).await?;
    assert_eq!(stage.outbox.cancel(id).await?, Cancelled::Asked);
    wire.may_fail.notify_one();
    let side = stage.side(Queue::Outbox);
    let seq = side.verbs().list(Filter::all()).await?.remove(0).seq();
    eventually("it is cancelled", || async move { Ok(side.state(seq).await? == State::Dismissed) }).await?;
    worker.stop().await?;
    let record = side.record(seq).await?;
    assert_eq!((record.claim_no(), record.last_error()), (1, Some("the handler failed there")));
    assert!(beginning.try_recv().is_err(), "it was sent again");
    Ok(())
}

async fn a_lane_is_cancelled_under_a_worker_and_goes_on<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let (begun, mut beginning) = mpsc::unbounded_channel();
        let in_lane = || crate::harness::Draft::new("slow").lane("order-7");
        let script = obedient(&begun);
        let worker = stage.work(side.queue, &script, WorkerOptions::default());
        let first = side.put(&in_lane()).await?;
        soon("the first one begins", beginning.recv()).await?;
        let second = side.put(&in_lane()).await?;
        let cancelled = side.verbs().cancel_lane("order-7").await?;
        assert_eq!((cancelled.waiting, cancelled.asked), (1, 1));
        assert_eq!(side.state(second).await?, State::Dismissed);
        let third = side.put(&in_lane()).await?;
        is_cancelled(stage, side.queue, first).await?;
        soon("the third one begins", beginning.recv()).await?;
        assert_eq!(side.verbs().cancel_lane("order-7").await?.asked, 1);
        is_cancelled(stage, side.queue, third).await?;
        worker.stop().await?;
        assert_eq!(script.count(), 2);
    }
    Ok(())
}

fn left(stage: &Stage<Sqlite>) -> anyhow::Result<i64> {
    let rows = "SELECT (SELECT count(*) FROM outbox_messages_stops) + (SELECT count(*) FROM inbox_messages_stops)";
    let conn = rusqlite::Connection::open(stage.place.path("store.db"))?;
    Ok(conn.query_row(rows, [], |row| row.get(0))?)
}

async fn nothing_is_left_of_a_cancel_when_the_message_has_ended(stage: &Stage<Sqlite>) -> Verdict {
    for side in stage.sides() {
        let (done, failed) = (side.leased("a").await?, side.leased("a").await?);
        for lease in [&done, &failed] {
            assert_eq!(side.verbs().cancel(lease.seq()).await?, Cancelled::Asked);
        }
        assert_eq!(left(stage)?, 2);
        side.fail(failed, "no").await?;
        side.ack(done).await?;
        assert_eq!(left(stage)?, 1, "an ack does not look for it");
        // A worker does, while it has something in progress.
        let (begun, mut beginning) = mpsc::unbounded_channel();
        let may_end = Arc::new(Semaphore::new(0));
        let worker = stage.work(side.queue, &stubborn(&begun, &may_end), WorkerOptions::default());
        side.add("slow").await?;
        soon("the handler begins", beginning.recv()).await?;
        eventually("it is swept away", || async { Ok(left(stage)? == 0) }).await?;
        may_end.add_permits(1);
        worker.stop().await?;
    }
    Ok(())
}

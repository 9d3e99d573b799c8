//! Nobody waits for somebody else: neither for slow handlers or destinations, nor for what a worker crashed with, nor
//! for memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postroom::queue::{Queue, State};
use postroom::store::BoxFuture;
use postroom::worker::{Delivery, Endpoint, Limits, Transport};
use postroom::{Handlers, Message, NewMessage, Worker, WorkerOptions};
use tokio::sync::Semaphore;

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Stage, Testable, eventually};
use crate::script::{Running, Script};

cases! { fair:
    worker a_topic_that_hangs_holds_up_no_other [];
    worker a_destination_that_hangs_holds_up_no_other [];
    worker a_topic_never_takes_more_than_its_share [];
    worker an_endpoint_that_hangs_with_many_topics_holds_up_no_other [];
    worker a_flood_of_one_topic_is_worked_off [];
    worker payloads_in_hand_stay_within_the_memory [];
    worker a_message_larger_than_the_memory_comes_alone [];
    worker what_waits_for_a_place_is_tried_when_it_is_due_though_nothing_else_happens [];
    worker a_worker_never_reaps_what_it_still_holds [];
}

/// Hangs with messages of the topic `slow` until it is let go.
fn gated(open: &Arc<Semaphore>) -> Script {
    let open = open.clone();
    Script::new(move |call| {
        let open = open.clone();
        async move {
            if call.message.topic == "slow"
                && let Ok(permit) = open.acquire().await
            {
                permit.forget();
            }
            Ok(None)
        }
    })
}

async fn a_topic_that_hangs_holds_up_no_other<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let open = Arc::new(Semaphore::new(0));
        side.add_many("slow", 300).await?;
        let worker = stage.work(side.queue, &gated(&open), WorkerOptions::default());
        eventually("slow ones are in hand", || async move { Ok(side.verbs().stats().await?.leased >= 50) }).await?;
        side.add_many("fast", 30).await?;
        eventually("the fast ones are done", || async move { Ok(side.verbs().stats().await?.done == 30) }).await?;
        assert!(side.verbs().stats().await?.leased <= 60, "about a second's work is held, and not the whole line");
        open.add_permits(300);
        eventually("the slow ones follow", || async move { Ok(side.verbs().stats().await?.done == 330) }).await?;
        worker.stop().await?;
    }
    Ok(())
}

/// Hangs with messages to `slow`.
struct Roads(Arc<Semaphore>);

impl Transport for Roads {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        Box::pin(async move {
            if message.destination() == Some("slow")
                && let Ok(permit) = self.0.acquire().await
            {
                permit.forget();
            }
            Delivery::Accepted { response: None }
        })
    }
}

async fn a_destination_that_hangs_holds_up_no_other<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (open, side) = (Arc::new(Semaphore::new(0)), stage.side(Queue::Outbox));
    let send = |to: &'static str, messages: usize| {
        stage.outbox.enqueue_many((0..messages).map(move |_| NewMessage::new("a", "{}").to(to)))
    };
    send("slow", 300).await?;
    let worker = Worker::<B>::outbox(stage.store.clone(), Handlers::new()).transport(Roads(open.clone()));
    let worker = Running::start(worker);
    eventually("slow ones are in hand", || async move { Ok(side.verbs().stats().await?.leased >= 50) }).await?;
    send("fast", 30).await?;
    eventually("the fast ones are sent", || async move { Ok(side.verbs().stats().await?.done == 30) }).await?;
    open.add_permits(300);
    eventually("the slow ones follow", || async move { Ok(side.verbs().stats().await?.done == 330) }).await?;
    worker.stop().await
}

/// Long enough for the worker to look for other things in vain.
const LEFT_ALONE: Duration = Duration::from_millis(1500);

/// Out of reach at first.
struct Late(AtomicUsize);

impl Transport for Late {
    fn send<'a>(&'a self, _: &'a Message) -> BoxFuture<'a, Delivery> {
        Box::pin(async move {
            match self.0.fetch_add(1, Ordering::SeqCst) {
                0 => Delivery::unreachable("connection refused"),
                _ => Delivery::Accepted { response: None },
            }
        })
    }

    fn limits(&self, _: &str) -> Limits {
        Limits::default().breaker(1, LEFT_ALONE, LEFT_ALONE)
    }
}

/// It becomes due after the place was to be tried, when nothing waited for it.
async fn what_waits_for_a_place_is_tried_when_it_is_due_though_nothing_else_happens<B: Testable>(
    stage: &Stage<B>,
) -> Verdict {
    let side = stage.side(Queue::Outbox);
    stage.outbox.enqueue(NewMessage::new("a", "{}").to("late")).await?;
    let worker = Worker::<B>::outbox(stage.store.clone(), Handlers::new()).transport(Late(AtomicUsize::new(0)));
    let soon = Duration::from_millis(10);
    let worker = Running::start(worker.options(WorkerOptions::default().poll(soon).poll_max(soon)));
    eventually("it was out of reach", || async move {
        let rows = side.verbs().list(postroom::operator::Filter::all()).await?;
        Ok(rows.iter().all(|row| row.state() == State::Ready && row.last_error().is_some()))
    })
    .await?;
    // The place is tried in vain meanwhile.
    tokio::time::sleep_until(tokio::time::Instant::now() + LEFT_ALONE + LEFT_ALONE / 4).await; // tidy: time itself
    stage.clock.advance(Duration::from_secs(60));
    eventually("it is sent", || async move { Ok(side.verbs().stats().await?.done == 1) }).await?;
    worker.stop().await
}

async fn a_topic_never_takes_more_than_its_share<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let seen = most.clone();
        let script = Script::new(move |_| {
            let (now, most) = (now.clone(), most.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(None)
            }
        });
        let worker = stage.work(side.queue, &script, WorkerOptions::default().concurrency(8));
        side.add_many("a", 60).await?;
        eventually("all are done", || async move { Ok(side.verbs().stats().await?.done == 60) }).await?;
        worker.stop().await?;
        assert!((1..=2).contains(&seen.load(Ordering::SeqCst)), "a quarter of eight");
    }
    Ok(())
}

/// Each of its topics alone stays within its share; together they would take everything.
async fn an_endpoint_that_hangs_with_many_topics_holds_up_no_other<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let (open, begun) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let (gate, calls) = (open.clone(), begun.clone());
        let script = Script::new(move |call| {
            let (gate, calls) = (gate.clone(), calls.clone());
            async move {
                if call.message.topic.starts_with("slow") {
                    calls.fetch_add(1, Ordering::SeqCst);
                    gate.acquire().await?.forget();
                }
                Ok(None)
            }
        });
        for topic in 0..8 {
            side.add_many(&format!("slow.{topic}"), 10).await?;
        }
        let options = WorkerOptions::default().concurrency(8);
        let options = options.endpoints(|topic| topic.starts_with("slow").then(|| Endpoint::new("slow", 2)));
        let worker = stage.work(side.queue, &script, options);
        eventually("slow ones run", || async { Ok(begun.load(Ordering::SeqCst) == 2) }).await?;
        side.add_many("fast", 30).await?;
        eventually("the fast ones are done", || async move { Ok(side.verbs().stats().await?.done == 30) }).await?;
        assert_eq!(begun.load(Ordering::SeqCst), 2);
        open.add_permits(80);
        eventually("the slow ones follow", || async move { Ok(side.verbs().stats().await?.done == 110) }).await?;
        worker.stop().await?;
    }
    Ok(())
}

async fn a_flood_of_one_topic_is_worked_off<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let worker = stage.work(side.queue, &Script::succeed(), WorkerOptions::default().batch(5));
        side.add_many("flood", 120).await?;
        side.add_many("other", 5).await?;
        eventually("all are done", || async move { Ok(side.verbs().stats().await?.done == 125) }).await?;
        side.add("flood").await?;
        eventually("and what comes later", || async move { Ok(side.verbs().stats().await?.done == 126) }).await?;
        worker.stop().await?;
    }
    Ok(())
}

const KIB: usize = 1024;

async fn payloads_in_hand_stay_within_the_memory<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        for _ in 0..30 {
            side.put(&Draft::new("slow").payload("x".repeat(100 * KIB))).await?;
        }
        let open = Arc::new(Semaphore::new(0));
        let options = WorkerOptions::default().memory(1024 * KIB as u64).grace(Duration::from_millis(10));
        let worker = stage.work(side.queue, &gated(&open), options);
        eventually("some are in hand", || async move { Ok(side.verbs().stats().await?.leased > 0) }).await?;
        for done in 1..=30 {
            let leased = side.verbs().stats().await?.leased;
            assert!(leased <= 10, "{leased} payloads of 100 KiB in hand, and 1 MiB is allowed");
            open.add_permits(1);
            eventually("the next is done", || async move { Ok(side.verbs().stats().await?.done >= done) }).await?;
        }
        worker.stop().await?;
    }
    Ok(())
}

async fn a_message_larger_than_the_memory_comes_alone<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        for _ in 0..3 {
            side.put(&Draft::new("slow").payload("x".repeat(300 * KIB))).await?;
        }
        let open = Arc::new(Semaphore::new(0));
        let worker = stage.work(side.queue, &gated(&open), WorkerOptions::default().memory(200 * KIB as u64));
        for done in 1..=3 {
            eventually("one is in hand", || async move { Ok(side.verbs().stats().await?.leased == 1) }).await?;
            open.add_permits(1);
            eventually("it is done", || async move { Ok(side.verbs().stats().await?.done == done) }).await?;
        }
        worker.stop().await?;
    }
    Ok(())
}

async fn a_worker_never_reaps_what_it_still_holds<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let open = Arc::new(Semaphore::new(0));
        let seq = side.add("slow").await?;
        let worker = stage.work(side.queue, &gated(&open), WorkerOptions::default());
        eventually("it is in hand", || async move { Ok(side.state(seq).await? == State::Leased) }).await?;
        // The machine slept, or its clock was set.
        stage.advance(Duration::from_secs(3600));
        side.add_many("fast", 10).await?;
        eventually("others are done", || async move { Ok(side.verbs().stats().await?.done == 10) }).await?;
        assert_eq!(side.verbs().reap(10).await?.total(), 0, "nor does anybody else in this process");
        open.add_permits(1);
        eventually("it is done", || async move { Ok(side.state(seq).await? == State::Done) }).await?;
        worker.stop().await?;
        let record = side.record(seq).await?;
        assert_eq!((record.claim_no(), record.crashes()), (1, 0), "it was never taken away");
    }
    Ok(())
}

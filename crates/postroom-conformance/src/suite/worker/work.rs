//! How a worker goes about its work.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postroom::queue::Queue;
use postroom::store::Store;
use postroom::{Outbox, WorkerOptions};
use tokio::sync::{Barrier, Semaphore, mpsc};

use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Stage, Testable, eventually, soon};
use crate::script::Script;

cases! { work:
    worker different_messages_are_handled_at_once ["OBX-060", "IBX-079"];
    worker no_more_than_the_limit_are_handled_at_once [];
    worker one_message_is_never_handled_twice_at_once ["OBX-059", "IBX-078"];
    worker many_workers_share_the_work ["OBX-083", "OBX-084", "IBX-105", "IBX-106"];
    worker the_defaults_are_fifty_rows_for_half_a_minute [
        "OBX-097", "OBX-098", "IBX-119", "IBX-120", "SQM-3.3.1", "SQM-3.5"];
    worker stores_are_cheap_clones_of_one ["OBX-102", "IBX-123"];
    worker suspects_run_one_at_a_time_beside_the_others [];
}

async fn different_messages_are_handled_at_once<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        // Each waits for the seven others: one at a time would never end.
        let barrier = Arc::new(Barrier::new(8));
        let script = Script::new(move |_| {
            let barrier = barrier.clone();
            async move {
                barrier.wait().await;
                Ok(None)
            }
        });
        let worker = stage.work(side.queue, &script, WorkerOptions::default().concurrency(8).per_place(8));
        side.add_many("a", 8).await?;
        eventually("all eight are done", || async move { Ok(side.verbs().stats().await?.done == 8) }).await?;
        worker.stop().await?;
    }
    Ok(())
}

async fn no_more_than_the_limit_are_handled_at_once<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let most_seen = most.clone();
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
        let worker = stage.work(side.queue, &script, WorkerOptions::default().concurrency(3));
        side.add_many("a", 100).await?;
        eventually("all are done", || async move { Ok(side.verbs().stats().await?.done == 100) }).await?;
        worker.stop().await?;
        let most = most_seen.load(Ordering::SeqCst);
        assert!((1..=3).contains(&most), "{most} at once");
    }
    Ok(())
}

/// A handler that fails the case when a message is in two hands.
fn watched(clashes: &Arc<AtomicUsize>) -> Script {
    let (held, clashes) = (Arc::new(Mutex::new(HashSet::new())), clashes.clone());
    Script::new(move |call| {
        let (held, clashes) = (held.clone(), clashes.clone());
        async move {
            let id = call.message.id();
            if !held.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone()) {
                clashes.fetch_add(1, Ordering::SeqCst);
            }
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            held.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            if fastrand::u8(..) < 40 { Err(postroom::HandlerError::retry("by chance")) } else { Ok(None) }
        }
    })
}

async fn one_message_is_never_handled_twice_at_once<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let clashes = Arc::new(AtomicUsize::new(0));
        let script = watched(&clashes);
        let workers: Vec<_> = (0..3).map(|_| stage.work(side.queue, &script, WorkerOptions::default())).collect();
        side.add_many("a", 200).await?;
        let done = || async move {
            stage.skip_pause(side.queue).await?;
            Ok(side.verbs().stats().await?.done == 200)
        };
        eventually("all are done", done).await?;
        for worker in workers {
            worker.stop().await?;
        }
        assert_eq!(clashes.load(Ordering::SeqCst), 0);
    }
    Ok(())
}

async fn many_workers_share_the_work<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let script = Script::succeed();
        let options = WorkerOptions::default().batch(10);
        let workers: Vec<_> = (0..4).map(|_| stage.work(side.queue, &script, options.clone())).collect();
        side.add_many("a", 400).await?;
        eventually("all are done", || async move { Ok(side.verbs().stats().await?.done == 400) }).await?;
        for worker in workers {
            worker.stop().await?;
        }
        let mut calls: HashMap<String, usize> = HashMap::new();
        script.calls().iter().for_each(|message| *calls.entry(message.id()).or_default() += 1);
        assert_eq!(calls.len(), 400);
        assert!(calls.values().all(|count| *count == 1), "a message was handled twice without need");
    }
    Ok(())
}

/// How many rows each claim brought that brought any, the smallest first.
fn claimed<B: Testable>(stage: &Stage<B>, queue: Queue) -> Vec<u32> {
    let claims = stage.setup.logs.saying("messages claimed");
    let claims = claims.iter().filter(|line| line.field("queue") == Some(queue.as_str()));
    let counts = claims.filter_map(|line| line.field("count")?.parse().ok());
    let mut counts: Vec<u32> = counts.filter(|count| *count > 0).collect();
    counts.sort_unstable();
    counts
}

async fn the_defaults_are_fifty_rows_for_half_a_minute<B: Testable>(stage: &Stage<B>) -> Verdict {
    stage.setup.logs.listen();
    for side in stage.sides() {
        for topic in ["a", "b", "c"] {
            side.add_many(topic, 40).await?;
        }
        let (begun, mut beginning) = mpsc::unbounded_channel();
        let script = Script::new(move |_| {
            begun.send(()).ok();
            std::future::pending()
        });
        let options = WorkerOptions::default().grace(Duration::from_millis(10));
        let worker = stage.work(side.queue, &script, options);
        soon("a handler begins", beginning.recv()).await?;
        eventually("more is fetched", || async move { Ok(side.verbs().stats().await?.leased == 120) }).await?;
        let held = side.verbs().list(postroom::operator::Filter::all().state(postroom::queue::State::Leased)).await?;
        let until = Some(stage.now().plus(LEASE));
        assert!(held.iter().all(|record| record.locked_until() == until));
        // Several claims are under way at once; one may still find what the worker gives back when it stops.
        eventually("all claims are told", || async { Ok(claimed(stage, side.queue).iter().sum::<u32>() == 120) })
            .await?;
        // Claims that run at once share what is ready, and may each get less than a batch; none gets more.
        assert_eq!(claimed(stage, side.queue).last(), Some(&50));
        worker.stop().await?;
        let owners: HashSet<_> = held.iter().filter_map(postroom::operator::Record::owner).collect();
        assert_eq!(owners.len(), 1, "a worker has one token");
    }
    Ok(())
}

async fn stores_are_cheap_clones_of_one<B: Testable>(stage: &Stage<B>) -> Verdict {
    for n in 1..=200 {
        let outbox = Outbox::new(stage.store.clone());
        outbox.enqueue(postroom::NewMessage::new("a", "")).await?;
        let inbox = postroom::Inbox::new(stage.store.clone()).clone();
        inbox.enqueue(crate::harness::Draft::new("a").incoming()?).await?;
        assert_eq!(outbox.queue().store_name(), stage.store.name());
        assert_eq!(stage.outbox.queue().stats().await?.ready, n);
    }
    assert_eq!(stage.inbox.queue().stats().await?.ready, 200);
    Ok(())
}

/// What is handled at this moment, and how that was at its worst.
#[derive(Default)]
struct Company {
    suspects: AtomicUsize,
    most_suspects: AtomicUsize,
    others_meanwhile: AtomicUsize,
}

async fn suspects_run_one_at_a_time_beside_the_others<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        for _ in 0..3 {
            side.leased("suspect").await?;
        }
        stage.clock.advance(LEASE + Duration::from_secs(2));
        assert_eq!(side.verbs().reap(10).await?.freed, 3);
        let (company, open) = (Arc::new(Company::default()), Arc::new(Semaphore::new(0)));
        let (seen, gate) = (company.clone(), open.clone());
        let script = Script::new(move |call| {
            let (seen, gate) = (seen.clone(), gate.clone());
            async move {
                if call.message.topic != "suspect" {
                    seen.others_meanwhile.fetch_add(seen.suspects.load(Ordering::SeqCst), Ordering::SeqCst);
                    return Ok(None);
                }
                let now = seen.suspects.fetch_add(1, Ordering::SeqCst) + 1;
                seen.most_suspects.fetch_max(now, Ordering::SeqCst);
                if let Ok(permit) = gate.acquire().await {
                    permit.forget();
                }
                seen.suspects.fetch_sub(1, Ordering::SeqCst);
                Ok(None)
            }
        });
        let worker = stage.work(side.queue, &script, WorkerOptions::default());
        let begun = company.clone();
        eventually("a suspect runs", || async { Ok(begun.suspects.load(Ordering::SeqCst) == 1) }).await?;
        side.add_many("a", 20).await?;
        eventually("others go on beside it", || async move { Ok(side.verbs().stats().await?.done == 20) }).await?;
        assert_eq!(company.others_meanwhile.load(Ordering::SeqCst), 20);
        open.add_permits(3);
        eventually("all are done", || async move { Ok(side.verbs().stats().await?.done == 23) }).await?;
        worker.stop().await?;
        assert_eq!(company.most_suspects.load(Ordering::SeqCst), 1, "suspects are alone among themselves");
    }
    Ok(())
}

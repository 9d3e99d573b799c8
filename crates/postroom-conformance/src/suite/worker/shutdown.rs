//! How a worker stops.

use std::sync::Arc;
use std::time::Duration;

use postroom::WorkerOptions;
use postroom::queue::State;
use tokio::sync::{Notify, mpsc};

use crate::case::{Verdict, cases};
use crate::harness::{Stage, Testable, soon};
use crate::script::Script;

cases! { shutdown:
    worker what_is_in_hand_is_finished [];
    worker what_was_not_begun_is_given_back [];
    worker what_takes_too_long_is_broken_off_and_given_back [];
    sqlite blocking_handlers_that_were_not_begun_are_given_back [];
    worker an_idle_worker_stops_at_once [];
    worker a_worker_that_was_never_started_stops_before_its_first_claim [];
}

async fn what_is_in_hand_is_finished<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let (begun, mut beginning) = mpsc::unbounded_channel();
        let gate = Arc::new(Notify::new());
        let opened = gate.clone();
        let script = Script::new(move |_| {
            let gate = gate.clone();
            begun.send(()).ok();
            async move {
                gate.notified().await;
                Ok(None)
            }
        });
        let mut worker = stage.work(side.queue, &script, WorkerOptions::default());
        let seq = side.add("a").await?;
        soon("the handler begins", beginning.recv()).await?;
        worker.shut_down();
        opened.notify_one();
        soon("the worker stops", worker.stop()).await??;
        assert_eq!(side.state(seq).await?, State::Done);
    }
    Ok(())
}

async fn what_was_not_begun_is_given_back<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        side.add_many("a", 40).await?;
        let (begun, mut beginning) = mpsc::unbounded_channel();
        let gate = Arc::new(Notify::new());
        let opened = gate.clone();
        let script = Script::new(move |_| {
            let gate = gate.clone();
            begun.send(()).ok();
            async move {
                gate.notified().await;
                Ok(None)
            }
        });
        let mut worker = stage.work(side.queue, &script, WorkerOptions::default().concurrency(1));
        soon("the first handler begins", beginning.recv()).await?;
        worker.shut_down();
        // The others are given back while the first is still at work.
        let given_back = || async move { Ok(side.verbs().stats().await?.ready == 39) };
        crate::harness::eventually("the rest is given back", given_back).await?;
        opened.notify_one();
        soon("the worker stops", worker.stop()).await??;
        let stats = side.verbs().stats().await?;
        assert_eq!((stats.done, stats.ready, stats.leased), (1, 39, 0));
        let waiting = side.verbs().list(postroom::operator::Filter::all().state(State::Ready)).await?;
        assert!(waiting.iter().all(|record| record.attempts() == 0 && record.crashes() == 0));
        assert_eq!(side.claim(100).await?.len(), 39, "they can be claimed at once");
    }
    Ok(())
}

async fn what_takes_too_long_is_broken_off_and_given_back<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let (begun, mut beginning) = mpsc::unbounded_channel();
        let script = Script::new(move |_| {
            begun.send(()).ok();
            std::future::pending()
        });
        let worker = stage.work(side.queue, &script, WorkerOptions::default().grace(Duration::from_millis(10)));
        let seq = side.add("endless").await?;
        soon("the handler begins", beginning.recv()).await?;
        soon("the worker stops", worker.stop()).await??;
        let record = side.record(seq).await?;
        assert_eq!((record.state(), record.attempts()), (State::Ready, 0));
        assert_eq!(side.claim_one().await?.seq(), seq);
    }
    Ok(())
}

async fn blocking_handlers_that_were_not_begun_are_given_back(stage: &Stage<postroom::sqlite::Sqlite>) -> Verdict {
    for side in stage.sides() {
        side.add_many("a", 2000).await?;
        let (begun, mut beginning) = mpsc::unbounded_channel();
        let handlers = postroom::Handlers::<postroom::sqlite::Sqlite>::new().on_topic_blocking("a", move |_| {
            begun.send(()).ok();
            Ok(None)
        });
        let worker = crate::script::Running::start(stage.worker(side.queue, handlers));
        soon("the first handler begins", beginning.recv()).await?;
        soon("the worker stops", worker.stop()).await??;
        let stats = side.verbs().stats().await?;
        assert_eq!((stats.leased, stats.done + stats.ready), (0, 2000));
        let waiting = side.verbs().list(postroom::operator::Filter::all().state(State::Ready)).await?;
        assert!(waiting.iter().all(|record| record.attempts() == 0 && record.crashes() == 0));
    }
    Ok(())
}

async fn an_idle_worker_stops_at_once<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let worker = stage.work(side.queue, &Script::succeed(), WorkerOptions::default());
        soon("the worker stops", worker.stop()).await??;
    }
    Ok(())
}

async fn a_worker_that_was_never_started_stops_before_its_first_claim<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        side.add_many("a", 10).await?;
        let script = Script::succeed();
        let worker = stage.worker(side.queue, script.handlers());
        soon("the worker stops", worker.run(async {})).await??;
        let stats = side.verbs().stats().await?;
        assert_eq!((stats.leased, stats.ready + stats.done), (0, 10), "nothing is left in its hands");
    }
    Ok(())
}

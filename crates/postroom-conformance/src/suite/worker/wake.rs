//! When a worker looks for work.

use std::time::Duration;

use postroom::WorkerOptions;
use postroom::queue::{Queue, State, Topics};
use tokio::time::Instant;

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Stage, Testable, eventually};
use crate::script::Script;

cases! { wake:
    worker a_new_message_ends_the_wait_at_once ["SQM-13.2"];
    worker a_message_is_handled_when_it_is_due ["OBX-012", "IBX-023", "API-1.5.2"];
    worker a_lone_message_makes_one_worker_look [];
    worker a_message_reaches_the_worker_that_wants_it [];
    worker an_idle_worker_looks_less_and_less_often ["OBX-103", "IBX-124"];
    sqlite a_message_of_another_connection_is_found ["OBX-083", "IBX-105", "SQM-13.2"];
}

const HOUR: Duration = Duration::from_secs(3600);

/// A worker that would not look by itself within the test.
fn asleep() -> WorkerOptions {
    WorkerOptions::default().poll(HOUR).poll_max(HOUR)
}

async fn a_new_message_ends_the_wait_at_once<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let worker = stage.work(side.queue, &Script::succeed(), asleep());
        for n in 1..=20 {
            side.add("a").await?;
            eventually("it is handled", || async move { Ok(side.verbs().stats().await?.done == n) }).await?;
        }
        worker.stop().await?;
    }
    Ok(())
}

async fn a_message_is_handled_when_it_is_due<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let script = Script::succeed();
        let worker = stage.work(side.queue, &script, asleep());
        let seq = side.put(&Draft::new("later").due_at(stage.now().plus(HOUR))).await?;
        side.add("now").await?;
        eventually("the other one is handled", || async move { Ok(side.verbs().stats().await?.done == 1) }).await?;
        assert_eq!(side.state(seq).await?, State::Ready);
        stage.advance(HOUR);
        eventually("it is handled", || async move { Ok(side.state(seq).await? == State::Done) }).await?;
        worker.stop().await?;
    }
    Ok(())
}

/// How often workers have claimed from a queue.
fn claims<B: Testable>(stage: &Stage<B>, queue: Queue) -> usize {
    let lines = stage.setup.logs.saying("messages claimed");
    lines.iter().filter(|line| line.field("queue") == Some(queue.as_str())).count()
}

async fn a_lone_message_makes_one_worker_look<B: Testable>(stage: &Stage<B>) -> Verdict {
    const MESSAGES: usize = 20;
    stage.setup.logs.listen();
    for side in stage.sides() {
        let workers = [(); 8].map(|()| stage.work(side.queue, &Script::succeed(), asleep()));
        eventually("all have looked", || async { Ok(claims(stage, side.queue) >= workers.len()) }).await?;
        let before = claims(stage, side.queue);
        for n in 1..=MESSAGES {
            side.add("a").await?;
            eventually("it is handled", || async move { Ok(side.verbs().stats().await?.done == n as u64) }).await?;
        }
        let looked = claims(stage, side.queue) - before;
        // The one that got it looks for more, and may get the next one before the one that is woken for it. If each
        // message woke all of them, there would be about twice as many.
        let most = MESSAGES * 8 + 2 * workers.len();
        assert!(looked <= most, "{looked} claims for {MESSAGES} messages and {} workers", workers.len());
        for worker in workers {
            worker.stop().await?;
        }
    }
    Ok(())
}

async fn a_message_reaches_the_worker_that_wants_it<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let mut workers = Vec::new();
        for others in [["b", "c"], ["a", "c"], ["a", "b"]] {
            workers.push(stage.work(side.queue, &Script::succeed(), asleep().leave(&Topics::only(others)?)));
        }
        for (n, topic) in (1..).zip(["a", "b", "c", "c", "a", "b"]) {
            side.add(topic).await?;
            eventually("it is handled", || async move { Ok(side.verbs().stats().await?.done == n) }).await?;
        }
        for worker in workers {
            worker.stop().await?;
        }
    }
    Ok(())
}

async fn an_idle_worker_looks_less_and_less_often<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (first, last) = (Duration::from_millis(1), Duration::from_millis(64));
    stage.setup.logs.listen();
    for side in stage.sides() {
        let looks = || {
            // A store that can tell from outside that nothing has changed is not asked.
            let lines = ["messages claimed", "nothing has changed"].map(|line| stage.setup.logs.saying(line)).concat();
            lines.iter().filter(|line| line.field("queue") == Some(side.queue.as_str())).count()
        };
        let worker = stage.work(side.queue, &Script::succeed(), WorkerOptions::default().poll(first).poll_max(last));
        // The pause doubles with each look, so that after these it is the longest there is.
        eventually("it has looked often", || async { Ok(looks() >= 12) }).await?;
        let (begun, seen) = (Instant::now(), looks());
        eventually("it looks again", || async { Ok(looks() >= seen + 3) }).await?;
        assert!(begun.elapsed() >= last * 2, "three looks within {:?}", begun.elapsed());
        worker.stop().await?;
    }
    Ok(())
}

async fn a_message_of_another_connection_is_found(stage: &Stage<postroom::sqlite::Sqlite>) -> Verdict {
    let side = stage.side(postroom::queue::Queue::Outbox);
    let worker = stage.work(side.queue, &Script::succeed(), WorkerOptions::default());
    let conn = rusqlite::Connection::open(stage.place.path("store.db"))?;
    let past = stage.now().as_micros();
    let sql = "INSERT INTO outbox_messages (id, topic, payload, visible_at) VALUES (randomblob(16), 'a', '{}', ?1)";
    for n in 1..=5 {
        conn.execute(sql, [past])?;
        eventually("it is handled", || async move { Ok(side.verbs().stats().await?.done == n) }).await?;
    }
    worker.stop().await
}

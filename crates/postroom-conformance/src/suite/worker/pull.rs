//! Messages that are fetched by topic, handled elsewhere, and settled by a token.

use std::time::Duration;

use anyhow::Context;
use futures_util::FutureExt;
use postroom::message::{Kind, OwnerToken};
use postroom::operator::Filter;
use postroom::queue::{LeaseToken, Pull, PullRequest, Pulled, Queue, State, Topics};
use postroom::services::ReceiverOptions;
use postroom::{NewMessage, WorkerOptions};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Stage, Testable, eventually, readable, soon};
use crate::peer::Letter;
use crate::script::Script;
use crate::services::{Receives, TOPIC, asynchronous};

cases! { pull:
    both a_claim_of_topics_takes_those_and_no_other [];
    both what_goes_to_another_service_is_of_no_topic [];
    both a_topic_is_told_from_one_that_looks_like_it [];
    both a_claim_of_topics_says_when_the_next_of_them_is_due [];
    both a_claim_of_topics_leaves_the_line_as_it_was [];
    worker a_worker_leaves_what_others_fetch [];
    worker an_answer_goes_back_to_the_sender_with_the_ack [];
    worker an_ack_is_heard_once_and_may_be_said_twice [];
    worker a_token_is_void_when_its_lease_is_lost [];
    worker what_is_given_back_too_often_is_dead [];
    worker a_lease_can_be_extended_by_its_token [];
    worker no_more_is_handed_out_than_was_asked_for [];
    worker no_more_is_claimed_than_fits [];
    worker who_waits_is_woken_by_the_first_message [];
    worker what_a_caller_that_gave_up_had_fetched_is_back_in_line [];
    worker what_is_not_fetched_here_is_not_settled_here [];
    worker what_is_given_back_without_a_delay_waits_as_after_a_failure [];
    worker no_wait_is_too_long [];
}

fn topics(of: &[&str]) -> anyhow::Result<Topics> {
    Ok(Topics::only(of.iter().copied())?)
}

async fn taken(h: &Harness, queue: Queue, topics: &Topics) -> anyhow::Result<Vec<String>> {
    let claims = h.side(queue).verbs().claim_topics(OwnerToken::new(), LEASE, 10, topics).await?;
    let names = claims.claimed.into_iter().map(|claimed| claimed.message.map(|message| message.topic.clone()));
    names.map(|name| name.map_err(anyhow::Error::msg)).collect()
}

async fn a_claim_of_topics_takes_those_and_no_other(h: &Harness) -> Verdict {
    for side in h.sides() {
        for topic in ["a", "b", "c", "a", "d"] {
            side.add(topic).await?;
        }
        assert_eq!(taken(h, side.queue, &topics(&["a", "c"])?).await?, ["a", "c", "a"]);
        assert_eq!(taken(h, side.queue, &topics(&["a", "c"])?).await?, [""; 0]);
        assert_eq!(taken(h, side.queue, &Topics::except(["d"])?).await?, ["b"]);
        assert_eq!(taken(h, side.queue, &Topics::only([""; 0])?).await?, [""; 0]);
        assert_eq!(taken(h, side.queue, &topics(&["a"])?.rest()).await?, ["d"]);
    }
    Ok(())
}

async fn what_goes_to_another_service_is_of_no_topic(h: &Harness) -> Verdict {
    h.outbox.enqueue(NewMessage::new("a", "{}").to("billing")).await?;
    assert_eq!(taken(h, Queue::Outbox, &topics(&["a"])?).await?, [""; 0]);
    assert_eq!(taken(h, Queue::Outbox, &Topics::except(["b"])?).await?, [""; 0]);
    assert_eq!(taken(h, Queue::Outbox, &topics(&["a"])?.rest()).await?, ["a"]);
    Ok(())
}

async fn a_topic_is_told_from_one_that_looks_like_it(h: &Harness) -> Verdict {
    for side in h.sides() {
        for topic in ["order", "Order", "örder", "a b", "%", "orde"] {
            side.add(topic).await?;
        }
        assert_eq!(taken(h, side.queue, &topics(&["a", "b", "order", "%"])?).await?, ["order", "%"]);
        assert_eq!(taken(h, side.queue, &topics(&["örder"])?).await?, ["örder"]);
        assert_eq!(taken(h, side.queue, &Topics::except(["a", "b"])?).await?, ["Order", "a b", "orde"]);
    }
    Ok(())
}

async fn a_claim_of_topics_says_when_the_next_of_them_is_due(h: &Harness) -> Verdict {
    let due = h.now().plus(LEASE);
    for side in h.sides() {
        side.add("other").await?;
        side.put(&Draft::new("a").due_at(due)).await?;
        let claims = side.verbs().claim_topics(OwnerToken::new(), LEASE, 10, &topics(&["a"])?).await?;
        assert_eq!((claims.claimed.len(), claims.next_at), (0, Some(due)), "{}", side.queue);
    }
    Ok(())
}

async fn a_claim_of_topics_leaves_the_line_as_it_was(h: &Harness) -> Verdict {
    for side in h.sides() {
        let first = side.add("other").await?;
        h.clock.advance(Duration::from_secs(1));
        side.add("a").await?;
        assert_eq!(taken(h, side.queue, &topics(&["a"])?).await?, ["a"]);
        assert_eq!(side.claim_one().await?.seq(), first);
    }
    Ok(())
}

async fn a_worker_leaves_what_others_fetch<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let script = Script::succeed();
        side.add_many("fetched", 3).await?;
        let worker = stage.work(side.queue, &script, WorkerOptions::default().leave(&topics(&["fetched"])?));
        side.add_many("pushed", 3).await?;
        eventually("the others are done", || async move { Ok(side.verbs().stats().await?.done == 3) }).await?;
        worker.stop().await?;
        assert!(script.calls().iter().all(|message| message.topic == "pushed"), "{}", side.queue);
        assert_eq!(side.verbs().stats().await?.ready, 3);
    }
    Ok(())
}

fn pull<B: Testable>(stage: &Stage<B>, queue: Queue) -> anyhow::Result<Pull<B>> {
    Ok(Pull::new(stage.store.clone(), queue, WorkerOptions::default())?)
}

async fn fetched<B: Testable>(pull: &Pull<B>, topic: &str) -> anyhow::Result<Pulled> {
    let mut pulled = pull.claim(&PullRequest::new(topics(&[topic])?)).await?;
    assert_eq!(pulled.len(), 1);
    pulled.pop().context("one was fetched")
}

async fn an_answer_goes_back_to_the_sender_with_the_ack<B: Receives>(stage: &Stage<B>) -> Verdict {
    let desk = stage.desk(asynchronous::<B>(&Script::succeed()), ReceiverOptions::default().queued())?;
    assert_eq!(desk.send(&Letter::new(TOPIC)).await?.status, 202);
    let pull = pull(stage, Queue::Inbox)?;
    let pulled = fetched(&pull, TOPIC).await?;
    assert_eq!(pull.ack(&pulled.token, Some("[7]".into())).await?, Some(State::Done));
    let sent = stage.outbox.queue().list(Filter::all()).await?;
    assert_eq!(sent.len(), 1);
    let answer = readable(&sent[0])?;
    assert_eq!((answer.kind, answer.payload.as_str()), (Kind::Response, "[7]"));
    assert_eq!(answer.destination(), pulled.message.source());
    let kept = stage.side(Queue::Inbox).verbs().list(Filter::all()).await?;
    assert_eq!((kept[0].state(), kept[0].response()), (State::Done, Some("[7]")));
    Ok(())
}

async fn an_ack_is_heard_once_and_may_be_said_twice<B: Receives>(stage: &Stage<B>) -> Verdict {
    let desk = stage.desk(asynchronous::<B>(&Script::succeed()), ReceiverOptions::default().queued())?;
    assert_eq!(desk.send(&Letter::new(TOPIC)).await?.status, 202);
    let pull = pull(stage, Queue::Inbox)?;
    let pulled = fetched(&pull, TOPIC).await?;
    for _ in 0..2 {
        assert_eq!(pull.ack(&pulled.token, Some("7".into())).await?, Some(State::Done));
    }
    assert_eq!(stage.outbox.queue().stats().await?.total(), 1, "one answer");
    assert_eq!(pull.fail(&pulled.token, "too late").await?, None);
    Ok(())
}

async fn a_token_is_void_when_its_lease_is_lost<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let pull = pull(stage, side.queue)?;
        let seq = side.add("a").await?;
        let stale = fetched(&pull, "a").await?.token;
        stage.clock.advance(LEASE + Duration::from_secs(60));
        let _ = side.verbs().reap(10).await?;
        stage.clock.advance(Duration::from_secs(60));
        let fresh = fetched(&pull, "a").await?.token;
        let forged: LeaseToken = stale.to_string().parse()?;
        assert_eq!(pull.ack(&forged, None).await?, None);
        assert_eq!(pull.abandon(&forged, "x", None).await?, None);
        assert_eq!(pull.fail(&forged, "x").await?, None);
        assert_eq!(pull.extend(&[forged, fresh.clone()], LEASE).await?, [false, true]);
        assert_eq!(side.state(seq).await?, State::Leased);
        assert_eq!(pull.fail(&fresh, "no such order").await?, Some(State::Dead));
        let why = side.record(seq).await?.last_error().unwrap_or_default().to_owned();
        assert_eq!(why, "the service that pulled it marked it dead\nno such order");
    }
    Ok(())
}

async fn what_is_given_back_too_often_is_dead<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let pull = pull(stage, side.queue)?;
        let seq = side.put(&Draft::new("a").max_attempts(2)).await?;
        let delay = Duration::from_secs(90);
        assert_eq!(pull.abandon(&fetched(&pull, "a").await?.token, "", Some(delay)).await?, Some(State::Ready));
        assert_eq!(side.record(seq).await?.next_attempt_at(), Some(stage.now().plus(delay)));
        stage.clock.advance(delay);
        let pulled = fetched(&pull, "a").await?;
        assert_eq!(pulled.message.attempts, 1);
        assert_eq!(pull.abandon(&pulled.token, "", Some(delay)).await?, Some(State::Dead));
    }
    Ok(())
}

async fn a_lease_can_be_extended_by_its_token<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let pull = pull(stage, side.queue)?;
        side.add("a").await?;
        let pulled = fetched(&pull, "a").await?;
        assert_eq!(pulled.until, stage.now().plus(LEASE));
        assert_eq!(pull.extend(std::slice::from_ref(&pulled.token), LEASE * 3).await?, [true]);
        stage.clock.advance(LEASE * 2);
        assert!(pull.claim(&PullRequest::new(topics(&["a"])?)).await?.is_empty());
        assert_eq!(pull.ack(&pulled.token, None).await?, Some(State::Done));
    }
    Ok(())
}

async fn no_more_is_handed_out_than_was_asked_for<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let pull = pull(stage, side.queue)?;
        for _ in 0..5 {
            side.put(&Draft::new("a").payload("x".repeat(1000))).await?;
        }
        let request = PullRequest::new(topics(&["a"])?);
        assert_eq!(pull.claim(&request.clone().limit(4).bytes_max(2500)).await?.len(), 2);
        assert_eq!((side.verbs().stats().await?.leased, side.verbs().stats().await?.ready), (2, 3));
        assert_eq!(pull.claim(&request.bytes_max(1)).await?.len(), 1, "one that is larger is handed out alone");
    }
    Ok(())
}

async fn who_waits_is_woken_by_the_first_message<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        // It never looks without being woken.
        let options = WorkerOptions::default().poll(Duration::from_secs(3600));
        let pull = Pull::<B>::new(stage.store.clone(), side.queue, options)?;
        let request = PullRequest::new(topics(&["a"])?).wait(Duration::from_secs(600));
        let waiting = soon("it is fetched", pull.claim(&request));
        let (pulled, added) = tokio::join!(waiting, async {
            side.add("b").await?;
            side.add("a").await
        });
        added?;
        assert_eq!(pulled??.len(), 1);
        assert!(pull.claim(&request.wait(Duration::ZERO)).await?.is_empty());
    }
    Ok(())
}

async fn no_more_is_claimed_than_fits<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let pull = pull(stage, side.queue)?;
        for _ in 0..40 {
            side.put(&Draft::new("large").payload("x".repeat(1000))).await?;
        }
        let request = PullRequest::new(topics(&["large"])?).limit(100);
        assert_eq!(pull.claim(&request.clone().bytes_max(2500)).await?.len(), 2);
        let claimed = side.verbs().list(Filter::all()).await?.into_iter().filter(|row| row.claim_no() > 0);
        assert_eq!(claimed.count(), 2);
        assert_eq!(pull.claim(&request.clone().bytes_max(20_500)).await?.len(), 20, "the next ones are taken to fit");
        assert_eq!(pull.claim(&request).await?.len(), 18, "all that are left");
    }
    Ok(())
}

async fn what_a_caller_that_gave_up_had_fetched_is_back_in_line<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let pull = pull(stage, side.queue)?;
        let seq = side.add("a").await?;
        let request = PullRequest::new(topics(&["a"])?);
        let mut claim = Box::pin(pull.claim(&request));
        assert!((&mut claim).now_or_never().is_none(), "it is claimed in the background");
        eventually("it is claimed", || async move { Ok(side.verbs().stats().await?.leased == 1) }).await?;
        drop(claim);
        soon("it is back", pull.ended()).await?;
        let record = side.record(seq).await?;
        assert_eq!((record.state(), record.attempts(), record.crashes()), (State::Ready, 0, 0));
        assert_eq!(pull.ack(&fetched(&pull, "a").await?.token, None).await?, Some(State::Done));
    }
    Ok(())
}

async fn what_is_not_fetched_here_is_not_settled_here<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let seq = side.add("b").await?;
        let others = pull(stage, side.queue)?;
        let token = fetched(&others, "b").await?.token;
        let options = WorkerOptions::default().leave(&topics(&["a"])?);
        let here = Pull::<B>::new(stage.store.clone(), side.queue, options)?;
        assert_eq!(here.ack(&token, None).await?, None);
        assert_eq!(here.abandon(&token, "", None).await?, None);
        assert_eq!(here.fail(&token, "").await?, None);
        assert_eq!(side.state(seq).await?, State::Leased);
        assert_eq!(others.ack(&token, None).await?, Some(State::Done));
        side.add("a").await?;
        assert_eq!(here.ack(&fetched(&here, "a").await?.token, None).await?, Some(State::Done));
    }
    Ok(())
}

async fn what_is_given_back_without_a_delay_waits_as_after_a_failure<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let pull = pull(stage, side.queue)?;
        let seq = side.add("a").await?;
        assert_eq!(pull.abandon(&fetched(&pull, "a").await?.token, "", None).await?, Some(State::Ready));
        let record = side.record(seq).await?;
        let pause = record.next_attempt_at().context("it waits")?.since(stage.now());
        assert!(pause > Duration::ZERO && pause <= Duration::from_secs(60), "{pause:?}");
        assert_eq!(record.attempts(), 1);
    }
    Ok(())
}

async fn no_wait_is_too_long<B: Testable>(stage: &Stage<B>) -> Verdict {
    let side = stage.side(Queue::Outbox);
    side.add("a").await?;
    let request = PullRequest::new(topics(&["a"])?).wait(Duration::MAX);
    assert_eq!(pull(stage, side.queue)?.claim(&request).await?.len(), 1);
    Ok(())
}

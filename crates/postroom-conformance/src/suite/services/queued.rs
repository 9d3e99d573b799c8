//! The queued form: a message is enqueued, a worker handles it, and its answer goes back to the sender.

use anyhow::Context;
use postroom::message::WorkItemId;
use postroom::operator::Filter;
use postroom::queue::{Queue, State};
use postroom::services::ReceiverOptions;
use postroom::{HandlerError, MessageId, NewMessage, Outbox};

use crate::case::{Verdict, cases};
use crate::harness::{Stage, eventually, readable, soon};
use crate::pair::{Pair, Reserve};
use crate::peer::{Letter, Peer};
use crate::script::Script;
use crate::services::{Desk, Receives, TOPIC, asynchronous};

cases! { queued:
    worker a_message_is_put_in_line_and_nothing_more [];
    worker other_content_is_refused_and_the_first_stays [];
    worker the_worker_handles_it_and_its_answer_reaches_the_request ["SQM-2", "SQM-5.2.2"];
    worker an_answer_that_is_no_json_reaches_the_request_as_text [];
    worker an_answer_of_nothing_reaches_the_request [];
    worker an_answer_is_found_by_another_program_after_a_restart [];
    worker an_answer_that_comes_before_the_ack_is_kept [];
    worker answers_are_deduplicated_and_the_first_one_stays ["SQM-5.2.2"];
    worker an_answer_by_another_service_is_not_taken [];
    worker no_answer_is_sent_to_who_wants_none [];
    worker a_handler_that_fails_sends_no_answer [];
}

fn queued<B: Receives>(stage: &Stage<B>) -> anyhow::Result<Desk<B>> {
    stage.desk(asynchronous::<B>(&Script::succeed()), ReceiverOptions::default().queued())
}

async fn a_message_is_put_in_line_and_nothing_more<B: Receives>(stage: &Stage<B>) -> Verdict {
    let script = Script::new(|_| async { Ok(Some("7".into())) });
    let desk = stage.desk(asynchronous::<B>(&script), ReceiverOptions::default().queued())?;
    let letter = Letter::new(TOPIC);
    for is_known in [false, true] {
        let said = desk.send(&letter).await?;
        assert_eq!((said.status, said.is_duplicate(), said.payload()), (202, is_known, ().into()));
    }
    let row = stage.row(&desk, &letter).await?.map(|row| row.state());
    assert_eq!((row, script.count()), (Some(State::Ready), 0));
    let worker = stage.work(Queue::Inbox, &script, postroom::WorkerOptions::default());
    let side = stage.side(Queue::Inbox);
    eventually("the worker handles it", || async move { Ok(side.verbs().stats().await?.done == 1) }).await?;
    worker.stop().await?;
    let said = desk.send(&letter).await?;
    assert_eq!((said.status, said.is_duplicate(), script.count()), (202, true, 1));
    Ok(())
}

async fn other_content_is_refused_and_the_first_stays<B: Receives>(stage: &Stage<B>) -> Verdict {
    let (desk, letter) = (queued(stage)?, Letter::new(TOPIC));
    assert_eq!(desk.send(&letter).await?.status, 202);
    assert_eq!(desk.send(&letter.saying("1")).await?.status, 422);
    let row = stage.row(&desk, &letter).await?.context("it is stored")?;
    assert_eq!((row.state(), readable(&row)?.payload.as_str()), (State::Ready, "{}"));
    Ok(())
}

/// What a request is answered by a worker that plays this script.
async fn answered<B: Receives, R: serde::de::DeserializeOwned>(stage: &Stage<B>, script: Script) -> anyhow::Result<R> {
    let pair = Pair::in_process(stage, &script, ReceiverOptions::default().queued()).await?;
    let pending = Reserve { order: 7 }.ask::<R>(&pair.orders.outbox).await?;
    let answer = soon("the answer comes", pending.answer()).await??;
    assert_eq!(script.count(), 1);
    pair.end().await?;
    Ok(answer)
}

async fn the_worker_handles_it_and_its_answer_reaches_the_request<B: Receives>(stage: &Stage<B>) -> Verdict {
    let script = Script::new(|call| async move { Ok(Some(call.message.payload.clone())) });
    let answer: Reserve = answered(stage, script).await?;
    assert_eq!(answer.order, 7);
    Ok(())
}

async fn an_answer_that_is_no_json_reaches_the_request_as_text<B: Receives>(stage: &Stage<B>) -> Verdict {
    let answer: String = answered(stage, Script::new(|_| async { Ok(Some("on shelf 7".into())) })).await?;
    assert_eq!(answer, "on shelf 7");
    Ok(())
}

async fn an_answer_of_nothing_reaches_the_request<B: Receives>(stage: &Stage<B>) -> Verdict {
    answered::<B, ()>(stage, Script::succeed()).await
}

async fn an_answer_is_found_by_another_program_after_a_restart<B: Receives>(stage: &Stage<B>) -> Verdict {
    let answering = Answering::new(stage).await?;
    let again = Outbox::new(B::open_again(&stage.store, &stage.place).await?);
    let pending = again.requested::<u32>(answering.id, "inventory");
    let letter = answering.letter("7");
    let (answer, said) = tokio::join!(soon("the answer comes", pending.answer()), answering.desk.send(&letter));
    assert_eq!((answer??, said?.status), (7, 200));
    Ok(())
}

/// `inventory` answers a message that `orders` has in its outbox.
struct Answering<B: Receives> {
    desk: Desk<B>,
    id: MessageId,
}

impl<B: Receives> Answering<B> {
    async fn new(stage: &Stage<B>) -> anyhow::Result<Self> {
        let peer = Peer::new(stage.clock.clone()).turned_round();
        let handlers = asynchronous::<B>(&Script::succeed());
        let desk = Desk::open(stage.store.clone(), peer, handlers, ReceiverOptions::default())?;
        let message = NewMessage::of(&Reserve { order: 7 })?.to("inventory");
        let id = message.message_id();
        stage.outbox.enqueue(message).await?;
        Ok(Self { desk, id })
    }

    fn letter(&self, answer: &str) -> Letter {
        let correlation_id = Some(self.id.to_string());
        Letter { kind: "Response", correlation_id, ..Letter::new(TOPIC).saying(answer) }
    }

    async fn kept(&self, stage: &Stage<B>) -> anyhow::Result<Option<String>> {
        let row = WorkItemId::of(self.id, Some("inventory"));
        let found = stage.outbox.find(row.as_uuid()).await?.pop();
        Ok(found.and_then(|record| record.response().map(str::to_owned)))
    }
}

async fn an_answer_that_comes_before_the_ack_is_kept<B: Receives>(stage: &Stage<B>) -> Verdict {
    let answering = Answering::new(stage).await?;
    let side = stage.side(Queue::Outbox);
    let lease = side.claim_one().await?;
    assert_eq!(answering.desk.send(&answering.letter("7")).await?.status, 200);
    assert_eq!(side.state(lease.seq()).await?, State::Leased, "it is still being sent");
    side.ack(lease).await?;
    assert_eq!(answering.kept(stage).await?.as_deref(), Some("7"));
    let answer = stage.outbox.requested::<u32>(answering.id, "inventory").answer().await?;
    assert_eq!(answer, 7);
    Ok(())
}

async fn answers_are_deduplicated_and_the_first_one_stays<B: Receives>(stage: &Stage<B>) -> Verdict {
    let answering = Answering::new(stage).await?;
    let first = answering.letter("7");
    assert!(!answering.desk.send(&first).await?.is_duplicate());
    assert!(answering.desk.send(&first).await?.is_duplicate());
    assert_eq!(answering.desk.send(&first.saying("8")).await?.status, 422);
    assert_eq!(answering.desk.send(&answering.letter("9")).await?.status, 200, "it is taken, and changes nothing");
    assert_eq!(answering.kept(stage).await?.as_deref(), Some("7"));
    Ok(())
}

async fn an_answer_by_another_service_is_not_taken<B: Receives>(stage: &Stage<B>) -> Verdict {
    let answering = Answering::new(stage).await?;
    let mut peer = answering.desk.peer.clone();
    peer.source = "mallory".into();
    let handlers = asynchronous::<B>(&Script::succeed());
    let desk = Desk::open(stage.store.clone(), peer, handlers, ReceiverOptions::default())?;
    assert_eq!(desk.send(&answering.letter("7")).await?.status, 200);
    assert_eq!(answering.kept(stage).await?, None);
    Ok(())
}

/// How many messages are in `inventory`'s outbox once a message was handled, or is dead.
async fn sent_back<B: Receives>(
    stage: &Stage<B>,
    script: Script,
    options: ReceiverOptions,
    kind: postroom::message::Kind,
) -> anyhow::Result<usize> {
    let pair = Pair::in_process(stage, &script, options.queued()).await?;
    pair.orders.outbox.enqueue(NewMessage::new(TOPIC, "{}").kind(kind).to("inventory")).await?;
    let side = pair.inventory.side(Queue::Inbox);
    eventually("it is settled", || async move {
        let stats = side.verbs().stats().await?;
        Ok(stats.done + stats.dead == 1)
    })
    .await?;
    let answers = pair.inventory.outbox.queue().list(Filter::all().topic(TOPIC)).await?.len();
    pair.end().await?;
    Ok(answers)
}

async fn no_answer_is_sent_to_who_wants_none<B: Receives>(stage: &Stage<B>) -> Verdict {
    use postroom::message::Kind::{Command, Signal};
    let (some, none) = (|| Script::new(|_| async { Ok(Some("7".into())) }), Script::succeed);
    let options = ReceiverOptions::default;
    assert_eq!(sent_back(&stage.another("a").await?, some(), options().without_answers(), Command).await?, 0);
    assert_eq!(sent_back(&stage.another("b").await?, none(), options(), Signal).await?, 0);
    assert_eq!(sent_back(&stage.another("c").await?, some(), options(), Signal).await?, 1);
    assert_eq!(sent_back(&stage.another("d").await?, none(), options(), Command).await?, 1);
    Ok(())
}

async fn a_handler_that_fails_sends_no_answer<B: Receives>(stage: &Stage<B>) -> Verdict {
    let script = Script::new(|_| async { Err(HandlerError::terminal("no such item")) });
    let sent = sent_back(stage, script, ReceiverOptions::default(), postroom::message::Kind::Command).await?;
    assert_eq!(sent, 0);
    Ok(())
}

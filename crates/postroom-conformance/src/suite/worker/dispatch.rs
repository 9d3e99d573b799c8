//! Messages to other services, over a transport that the case controls.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postroom::operator::Record;
use postroom::queue::{Cause, Fault, Queue, State};
use postroom::store::BoxFuture;
use postroom::worker::{Delivery, Transport};
use postroom::{Handlers, Message, NewMessage, Worker, WorkerOptions};
use tokio::sync::{Notify, mpsc};

use crate::case::{Verdict, cases};
use crate::harness::{Stage, Testable, eventually, soon};
use crate::script::{Running, Script};

cases! { dispatch:
    worker what_was_accepted_is_done ["SQM-3.3.2", "SQM-7"];
    worker what_was_refused_is_dead ["SQM-7"];
    worker what_failed_is_sent_again_six_times_at_most ["SQM-3.1.2", "SQM-3.3.3", "SQM-3.4.1", "SQM-3.4.2", "API-10.1"];
    worker what_is_busy_spends_no_attempt [];
    worker what_has_no_route_waits_and_spends_nothing ["OBX-055"];
    worker what_has_no_destination_is_handled_here ["OBX-054"];
    worker without_a_transport_nothing_is_sent ["OBX-055"];
    worker what_expired_while_it_waited_is_not_sent [];
    worker the_whole_message_is_sent ["OBX-057", "SQM-7"];
}

/// Answers every message in the same way.
#[derive(Clone)]
struct Wire {
    answer: Delivery,
    sent: Arc<Mutex<Vec<Message>>>,
}

impl Wire {
    fn answering(answer: Delivery) -> Self {
        Self { answer, sent: Arc::default() }
    }

    fn sent(&self) -> Vec<Message> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Transport for Wire {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(message.clone());
        Box::pin(async { self.answer.clone() })
    }
}

/// Sends one message and waits until its row says what the condition wants.
async fn send<B: Testable>(
    stage: &Stage<B>,
    wire: &Wire,
    until: impl Fn(&Record) -> bool + Copy,
) -> anyhow::Result<Record> {
    let worker = Worker::<B>::outbox(stage.store.clone(), Handlers::new()).transport(wire.clone());
    let worker = Running::start(worker);
    stage.outbox.enqueue(NewMessage::new("a", "x").to("billing")).await?;
    let side = stage.side(Queue::Outbox);
    eventually("the message is sent", || async move { Ok(until(&side.record(1).await?)) }).await?;
    worker.stop().await?;
    side.record(1).await
}

async fn what_was_accepted_is_done<B: Testable>(stage: &Stage<B>) -> Verdict {
    let wire = Wire::answering(Delivery::Accepted { response: Some("thanks".into()) });
    let record = send(stage, &wire, |record| record.state() == State::Done).await?;
    assert_eq!((record.response(), wire.sent().len()), (Some("thanks"), 1));
    Ok(())
}

async fn what_was_refused_is_dead<B: Testable>(stage: &Stage<B>) -> Verdict {
    let wire = Wire::answering(Delivery::refused("unknown order"));
    let record = send(stage, &wire, |record| record.state() == State::Dead).await?;
    assert_eq!((record.last_error(), wire.sent().len()), (Some("unknown order"), 1));
    Ok(())
}

async fn what_failed_is_sent_again_six_times_at_most<B: Testable>(stage: &Stage<B>) -> Verdict {
    let wire = Wire::answering(Fault::new(Cause::HandlerFailed, "the handler failed there").into());
    let worker = Worker::<B>::outbox(stage.store.clone(), Handlers::new()).transport(wire.clone());
    let worker = Running::start(worker);
    stage.outbox.enqueue(NewMessage::new("a", "x").to("billing")).await?;
    let side = stage.side(Queue::Outbox);
    for (attempt, seconds) in (1..).zip([2, 4, 8, 16, 32]) {
        let failed = || async move { Ok(side.record(1).await?.attempts() == attempt) };
        eventually("the attempt fails", failed).await?;
        let record = side.record(1).await?;
        let pause = record.next_attempt_at().map(|next| next.since(stage.now())).unwrap_or_default();
        let (least, most) = (Duration::from_secs(seconds), Duration::from_millis(seconds * 1000 + 500));
        assert!((least..=most).contains(&pause), "attempt {attempt}: a pause of {pause:?}");
        stage.advance(most);
    }
    eventually("it is given up", || async move { Ok(side.state(1).await? == State::Dead) }).await?;
    worker.stop().await?;
    let ids: BTreeSet<_> = wire.sent().iter().map(Message::id).collect();
    assert_eq!((wire.sent().len(), ids.len()), (6, 1), "it has the same id each time");
    Ok(())
}

async fn what_is_busy_spends_no_attempt<B: Testable>(stage: &Stage<B>) -> Verdict {
    let pause = Duration::from_secs(77);
    let wire = Wire::answering(Fault::new(Cause::Busy, "429").retry_after(pause).of_this_message_alone().into());
    let record = send(stage, &wire, |record| record.last_error() == Some("429")).await?;
    assert_eq!((record.state(), record.attempts()), (State::Ready, 0));
    assert_eq!(record.next_attempt_at(), Some(stage.now().plus(pause)));
    Ok(())
}

async fn what_has_no_route_waits_and_spends_nothing<B: Testable>(stage: &Stage<B>) -> Verdict {
    let wire = Wire::answering(Delivery::no_route(Some("billing")));
    let record = send(stage, &wire, |record| record.last_error().is_some()).await?;
    assert_eq!((record.state(), record.attempts()), (State::Ready, 0));
    assert!(record.last_error().is_some_and(|error| error.contains("billing")));
    Ok(())
}

async fn what_has_no_destination_is_handled_here<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (script, wire) = (Script::succeed(), Wire::answering(Delivery::Accepted { response: None }));
    let worker = Worker::<B>::outbox(stage.store.clone(), script.handlers()).transport(wire.clone());
    let worker = Running::start(worker);
    let messages = vec![
        NewMessage::new("here", ""),
        NewMessage::new("there", "").to("billing"),
        NewMessage::new("here", ""),
        NewMessage::new("there", "").to("shipping"),
    ];
    stage.outbox.enqueue_many(messages).await?;
    let side = stage.side(Queue::Outbox);
    eventually("all are done", || async move { Ok(side.verbs().stats().await?.done == 4) }).await?;
    worker.stop().await?;
    assert!(script.calls().iter().all(|message| message.topic == "here"));
    assert!(wire.sent().iter().all(|message| message.topic == "there"));
    assert_eq!((script.count(), wire.sent().len()), (2, 2));
    Ok(())
}

async fn without_a_transport_nothing_is_sent<B: Testable>(stage: &Stage<B>) -> Verdict {
    let script = Script::succeed();
    let worker = Running::start(Worker::<B>::outbox(stage.store.clone(), script.handlers()));
    stage.outbox.enqueue(NewMessage::new("a", "").to("billing")).await?;
    let side = stage.side(Queue::Outbox);
    eventually("it is put back", || async move { Ok(side.record(1).await?.last_error().is_some()) }).await?;
    worker.stop().await?;
    assert_eq!((side.state(1).await?, side.record(1).await?.attempts(), script.count()), (State::Ready, 0, 0));
    Ok(())
}

/// Keeps the first message until it is let go.
struct Slow {
    wire: Wire,
    begun: mpsc::UnboundedSender<()>,
    gate: Arc<Notify>,
}

impl Transport for Slow {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        Box::pin(async {
            if message.topic == "first" {
                self.begun.send(()).ok();
                self.gate.notified().await;
            }
            self.wire.send(message).await
        })
    }
}

async fn what_expired_while_it_waited_is_not_sent<B: Testable>(stage: &Stage<B>) -> Verdict {
    let wire = Wire::answering(Delivery::Accepted { response: None });
    let (begun, mut beginning) = mpsc::unbounded_channel();
    let gate = Arc::new(Notify::new());
    let slow = Slow { wire: wire.clone(), begun, gate: gate.clone() };
    let messages = vec![
        NewMessage::new("first", "").to("billing"),
        NewMessage::new("second", "").to("billing").expires_after(Duration::from_secs(5)),
    ];
    stage.outbox.enqueue_many(messages).await?;
    let worker = Worker::<B>::outbox(stage.store.clone(), Handlers::new()).transport(slow);
    let worker = Running::start(worker.options(WorkerOptions::default().concurrency(1)));
    soon("the first is being sent", beginning.recv()).await?;
    let side = stage.side(Queue::Outbox);
    eventually("both are in hand", || async move { Ok(side.verbs().stats().await?.leased == 2) }).await?;
    stage.advance(Duration::from_secs(10));
    gate.notify_one();
    eventually("the second expires", || async move { Ok(side.verbs().stats().await?.expired == 1) }).await?;
    worker.stop().await?;
    assert_eq!(wire.sent().iter().map(|message| message.topic.clone()).collect::<Vec<_>>(), ["first"]);
    Ok(())
}

async fn the_whole_message_is_sent<B: Testable>(stage: &Stage<B>) -> Verdict {
    let wire = Wire::answering(Delivery::Accepted { response: None });
    send(stage, &wire, |record| record.state() == State::Done).await?;
    let sent = wire.sent().remove(0);
    assert_eq!((sent.topic.as_str(), sent.payload.as_str()), ("a", "x"));
    assert_eq!(sent.destination(), Some("billing"));
    Ok(())
}

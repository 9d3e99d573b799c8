//! Which handler a message goes to.

use std::sync::{Arc, Mutex};

use anyhow::Context;
use postroom::handler::Handle;
use postroom::queue::{Cause, Queue, State};
use postroom::worker::Limits;
use postroom::{Ctx, HandlerResult, Handlers, Message, Payload, WorkerOptions};
use serde::{Deserialize, Serialize};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Stage, Testable, eventually, soon};
use crate::script::{Running, Script, play};

cases! { route:
    worker by_topic ["OBX-054", "IBX-073", "API-1.5.1", "API-2.1"];
    worker topics_differ_by_case ["OBX-010", "OBX-054", "IBX-021", "IBX-073"];
    worker a_handler_is_given_the_whole_message ["OBX-057", "IBX-076", "API-2.2.1"];
    worker a_handler_is_told_when_its_work_is_in_vain ["OBX-057", "IBX-076", "API-2.2.2"];
    worker an_unknown_topic_is_put_back_with_a_warning ["OBX-055", "IBX-074"];
    worker an_unknown_topic_never_kills ["OBX-055", "IBX-074"];
    worker typed_payloads_are_read_and_answers_are_kept [];
    worker an_object_can_be_a_handler [];
}

type Seen = Arc<Mutex<Vec<String>>>;

fn note(seen: &Seen, what: &str) {
    seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(what.to_owned());
}

fn noted(seen: &Seen) -> Vec<String> {
    let mut noted = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    noted.sort();
    noted
}

async fn first<B: Testable>(ctx: &mut Ctx<B>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let seen = ctx.state::<Seen>()?;
    note(&seen, &format!("first {}", message.topic));
    Ok(None)
}

async fn second<B: Testable>(ctx: &mut Ctx<B>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let seen = ctx.state::<Seen>()?;
    note(&seen, &format!("second {}", message.topic));
    Ok(None)
}

async fn routed<B: Testable>(stage: &Stage<B>, topics: [&str; 2]) -> anyhow::Result<Vec<Vec<String>>> {
    let mut all = Vec::new();
    for side in stage.sides() {
        let seen = Seen::default();
        let handlers = Handlers::new().state(seen.clone());
        let handlers = handlers.on_topic(topics[0], first::<B>).on_topic(topics[1], second::<B>);
        let worker = Running::start(stage.worker(side.queue, handlers));
        for topic in topics {
            side.add(topic).await?;
        }
        eventually("both are handled", || async move { Ok(side.verbs().stats().await?.done == 2) }).await?;
        worker.stop().await?;
        all.push(noted(&seen));
    }
    Ok(all)
}

async fn by_topic<B: Testable>(stage: &Stage<B>) -> Verdict {
    for seen in routed(stage, ["order.placed", "order.paid"]).await? {
        assert_eq!(seen, ["first order.placed", "second order.paid"]);
    }
    Ok(())
}

async fn topics_differ_by_case<B: Testable>(stage: &Stage<B>) -> Verdict {
    for seen in routed(stage, ["Order.Placed", "order.placed"]).await? {
        assert_eq!(seen, ["first Order.Placed", "second order.placed"]);
    }
    Ok(())
}

async fn a_handler_is_given_the_whole_message<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let script = Script::succeed();
        let draft = Draft::new("order.placed").payload("seven").max_attempts(4);
        let worker = stage.work(side.queue, &script, WorkerOptions::default());
        side.put(&draft).await?;
        eventually("it is handled", || async move { Ok(side.verbs().stats().await?.done == 1) }).await?;
        worker.stop().await?;
        let message = script.calls().remove(0);
        assert_eq!((message.topic.as_str(), message.payload.as_str()), ("order.placed", "seven"));
        assert_eq!((message.id(), message.max_attempts), (draft.id.to_string(), Some(4)));
        assert_eq!((message.created_at, message.attempts), (stage.now(), 0));
        assert_eq!(message.source(), (side.queue == Queue::Inbox).then_some("shop"));
    }
    Ok(())
}

async fn a_handler_is_told_when_its_work_is_in_vain<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let (give, mut given) = tokio::sync::mpsc::unbounded_channel();
        let script = Script::new(move |call| {
            give.send(call.cancelled).ok();
            std::future::pending()
        });
        let options = WorkerOptions::default().grace(std::time::Duration::from_millis(20));
        let worker = stage.work(side.queue, &script, options);
        let seq = side.add("slow").await?;
        let cancelled = soon("the handler begins", given.recv()).await?.context("the handler is gone")?;
        worker.stop().await?;
        soon("the handler is told", cancelled).await?;
        assert_eq!(side.state(seq).await?, State::Ready);
    }
    Ok(())
}

async fn an_unknown_topic_is_put_back_with_a_warning<B: Testable>(stage: &Stage<B>) -> Verdict {
    stage.setup.logs.listen();
    for side in stage.sides() {
        let handlers = Handlers::new().state(Script::succeed()).on_topic("known", play::<B>);
        let worker = Running::start(stage.worker(side.queue, handlers));
        let seq = side.add("unknown").await?;
        let put_back = || async move { Ok(side.record(seq).await?.last_error().is_some()) };
        eventually("the message is put back", put_back).await?;
        worker.stop().await?;
        let record = side.record(seq).await?;
        assert_eq!((record.state(), record.attempts()), (State::Ready, 0));
        assert!(record.next_attempt_at() > Some(stage.now()));
        assert!(record.last_error().is_some_and(|error| error.contains("unknown")));
        let warned = stage.setup.logs.saying("no handler for this topic; the message is released");
        let warned = warned.iter().filter(|line| line.field("queue") == Some(side.queue.as_str()));
        assert!(warned.clone().count() >= 1);
        assert!(
            warned.clone().all(|line| line.level == tracing::Level::WARN && line.field("topic") == Some("unknown"))
        );
    }
    Ok(())
}

async fn an_unknown_topic_never_kills<B: Testable>(stage: &Stage<B>) -> Verdict {
    let minute = std::time::Duration::from_secs(60);
    // It is never held for long, so the message is tried each time.
    let limits = Limits::default().breaker(1, std::time::Duration::ZERO, std::time::Duration::ZERO);
    for side in stage.sides() {
        let worker = stage.worker(side.queue, Handlers::new());
        let worker = Running::start(worker.options(WorkerOptions::default().handler_limits(limits)));
        let seq = side.put(&Draft::new("unknown").max_attempts(2)).await?;
        for claim in 1..=15 {
            let again = || async move { Ok(side.record(seq).await?.claim_no() >= claim) };
            eventually("it is tried again", again).await?;
            let waits = || async move { Ok(side.state(seq).await? == State::Ready) };
            eventually("it is put back", waits).await?;
            stage.advance(minute * 60);
        }
        worker.stop().await?;
        let record = side.record(seq).await?;
        assert_eq!((record.state(), record.attempts()), (State::Ready, 0));
        let failures = side.verbs().failures(seq).await?;
        assert_eq!(
            failures.iter().map(|failure| failure.cause).collect::<Vec<_>>(),
            [Some(Cause::NoHandler)],
            "said once"
        );
    }
    Ok(())
}

#[derive(Serialize, Deserialize)]
struct Add {
    left: u32,
    right: u32,
}

impl Payload for Add {
    const TOPIC: &'static str = "add";
    type Reply = u32;
}

async fn add<B: Testable>(_: &mut Ctx<B>, sum: Add) -> HandlerResult<u32> {
    Ok(sum.left + sum.right)
}

async fn typed_payloads_are_read_and_answers_are_kept<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let worker = Running::start(stage.worker(side.queue, Handlers::new().on(add::<B>)));
        let seq = side.put(&Draft::new("add").payload(r#"{"left":3,"right":4}"#)).await?;
        let broken = side.put(&Draft::new("add").payload("broken")).await?;
        let done = || async move { Ok(side.state(seq).await? == State::Done) };
        eventually("the sum is done", done).await?;
        let retried = || async move { Ok(side.record(broken).await?.attempts() == 1) };
        eventually("what cannot be read is tried again", retried).await?;
        worker.stop().await?;
        assert_eq!(side.record(seq).await?.response(), Some("7"));
        assert_eq!(side.state(broken).await?, State::Ready);
    }
    Ok(())
}

struct Adder {
    more: u32,
}

impl<B: Testable> Handle<B, Add> for Adder {
    async fn handle(&self, ctx: &mut Ctx<B>, sum: Add) -> HandlerResult<u32> {
        assert_eq!(ctx.attempt(), 1);
        Ok(sum.left + sum.right + self.more)
    }
}

async fn an_object_can_be_a_handler<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let handlers = Handlers::<B>::new().with::<Add>(Adder { more: 10 });
        let worker = Running::start(stage.worker(side.queue, handlers));
        let seq = side.put(&Draft::new("add").payload(r#"{"left":3,"right":4}"#)).await?;
        let done = || async move { Ok(side.state(seq).await? == State::Done) };
        eventually("the sum is done", done).await?;
        worker.stop().await?;
        assert_eq!(side.record(seq).await?.response(), Some("17"));
    }
    Ok(())
}

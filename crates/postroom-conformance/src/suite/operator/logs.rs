//! What is logged, at which level, and what never is.

use std::sync::Arc;
use std::time::Duration;

use postroom::message::{OwnerToken, hash_bytes};
use postroom::queue::{Queue, State};
use postroom::{Ctx, HandlerError, HandlerResult, Handlers, Incoming, Message, NewMessage, Payload, WorkerOptions};
use serde::{Deserialize, Serialize};
use tracing::Level;

use crate::capture::Line;
use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Stage, Testable, eventually};
use crate::script::{Running, Script};

cases! { logs:
    both an_enqueue_is_told_with_topic_and_correlation_id ["OBX-085"];
    worker an_enqueue_inside_a_handler_is_told_too ["OBX-085"];
    both an_arrival_is_told_with_topic_source_and_id ["IBX-108"];
    both a_check_is_told_with_its_result ["IBX-107"];
    both other_content_for_a_seen_message_is_warned_of ["IBX-008"];
    both a_claim_is_told_with_its_count ["OBX-086", "IBX-109"];
    worker a_handlers_call_is_told_with_topic_and_id ["OBX-087", "IBX-110"];
    worker a_handlers_failure_is_told_with_its_error_and_id ["OBX-088", "IBX-111"];
    both a_reap_is_told_with_its_count ["OBX-089", "IBX-112"];
    worker every_line_names_its_store ["OBX-090", "IBX-113"];
    worker no_line_shows_a_payload ["OBX-106", "IBX-127"];
    worker no_line_shows_a_payload_that_cannot_be_read ["OBX-106", "IBX-127"];
}

fn one(lines: &[Line], level: Level) -> anyhow::Result<&Line> {
    match lines {
        [line] if line.level == level => Ok(line),
        other => anyhow::bail!("not one line at {level}: {other:?}"),
    }
}

async fn an_enqueue_is_told_with_topic_and_correlation_id(h: &Harness) -> Verdict {
    h.setup.logs.listen();
    let message = NewMessage::new("order.placed", "").correlation_id("order-7");
    let id = message.message_id().to_string();
    h.outbox.enqueue(message).await?;
    let lines = h.setup.logs.saying("outbox: message enqueued");
    let line = one(&lines, Level::INFO)?;
    assert_eq!((line.field("topic"), line.field("correlation_id")), (Some("order.placed"), Some("order-7")));
    assert_eq!(line.field("message_id"), Some(id.as_str()));
    Ok(())
}

async fn forward<B: Testable>(ctx: &mut Ctx<B>, _: Arc<Message>) -> HandlerResult<Option<String>> {
    ctx.enqueue(NewMessage::new("forwarded", "")).await?;
    Ok(None)
}

async fn an_enqueue_inside_a_handler_is_told_too<B: Testable>(stage: &Stage<B>) -> Verdict {
    stage.setup.logs.listen();
    let side = stage.side(Queue::Inbox);
    let worker = Running::start(stage.worker(side.queue, Handlers::new().on_topic("a", forward::<B>)));
    side.add("a").await?;
    eventually("it is handled", || async move { Ok(side.verbs().stats().await?.done == 1) }).await?;
    worker.stop().await?;
    let lines = stage.setup.logs.saying("outbox: message enqueued");
    assert_eq!(one(&lines, Level::INFO)?.field("topic"), Some("forwarded"));
    Ok(())
}

async fn an_arrival_is_told_with_topic_source_and_id(h: &Harness) -> Verdict {
    h.setup.logs.listen();
    let draft = Draft::new("order.placed");
    h.inbox.enqueue(draft.incoming()?).await?;
    h.inbox.accept(draft.incoming()?).await?;
    let lines = h.setup.logs.saying("inbox: message enqueued");
    assert_eq!(lines.len(), 2);
    for line in &lines {
        assert_eq!((line.level, line.field("topic")), (Level::INFO, Some("order.placed")));
        assert_eq!(line.field("source"), Some("shop"));
        assert_eq!(line.field("message_id"), Some(draft.id.to_string().as_str()));
    }
    Ok(())
}

async fn a_check_is_told_with_its_result(h: &Harness) -> Verdict {
    h.setup.logs.listen();
    let key = Draft::new("a").key()?;
    assert!(!h.inbox.already_processed(&key).await?);
    assert!(h.inbox.mark_processed(&key).await?);
    assert!(h.inbox.already_processed(&key).await?);
    let lines = h.setup.logs.saying("inbox: checked");
    let results: Vec<_> = lines.iter().map(|line| (line.level, line.field("already_processed"))).collect();
    assert_eq!(results, [(Level::DEBUG, Some("false")), (Level::DEBUG, Some("true"))]);
    assert!(lines.iter().all(|line| line.field("message_id") == Some(key.message_id())));
    Ok(())
}

async fn other_content_for_a_seen_message_is_warned_of(h: &Harness) -> Verdict {
    h.setup.logs.listen();
    let draft = Draft::new("a");
    assert!(!h.inbox.already_processed_hash(&draft.key()?, Some(hash_bytes("a"))).await?);
    h.inbox.enqueue(draft.incoming()?.hash(hash_bytes("b"))).await?;
    let lines = h.setup.logs.saying("inbox: the same id arrived with different content");
    one(&lines, Level::WARN)?;
    Ok(())
}

async fn a_claim_is_told_with_its_count(h: &Harness) -> Verdict {
    h.setup.logs.listen();
    for side in h.sides() {
        side.add_many("a", 3).await?;
        side.claim(2).await?;
        side.claim(2).await?;
        side.claim(2).await?;
        let lines = h.setup.logs.saying("messages claimed");
        let lines = lines.iter().filter(|line| line.field("queue") == Some(side.queue.as_str()));
        let counts: Vec<_> = lines.map(|line| (line.level, line.field("count"))).collect();
        assert_eq!(counts, [2, 1, 0].map(|n| (Level::DEBUG, Some(["0", "1", "2"][n]))));
    }
    Ok(())
}

async fn a_handlers_call_is_told_with_topic_and_id<B: Testable>(stage: &Stage<B>) -> Verdict {
    stage.setup.logs.listen();
    for side in stage.sides() {
        let draft = Draft::new("order.placed");
        let worker = stage.work(side.queue, &Script::succeed(), WorkerOptions::default());
        side.put(&draft).await?;
        eventually("it is handled", || async move { Ok(side.verbs().stats().await?.done == 1) }).await?;
        worker.stop().await?;
        for message in ["handling", "handled"] {
            let lines = stage.setup.logs.saying(message);
            let lines: Vec<_> =
                lines.into_iter().filter(|line| line.field("queue") == Some(side.queue.as_str())).collect();
            let line = one(&lines, Level::INFO)?;
            assert_eq!(line.field("topic"), Some("order.placed"));
            assert_eq!(line.field("message_id"), Some(draft.id.to_string().as_str()));
        }
    }
    Ok(())
}

async fn a_handlers_failure_is_told_with_its_error_and_id<B: Testable>(stage: &Stage<B>) -> Verdict {
    stage.setup.logs.listen();
    for side in stage.sides() {
        for (topic, script) in [
            ("error", Script::new(|_| async { Err(HandlerError::retry("disk on fire")) })),
            ("panic", Script::new(|_| async { std::panic::panic_any("disk on fire") })),
        ] {
            let draft = Draft::new(topic);
            let worker = stage.work(side.queue, &script, WorkerOptions::default());
            let seq = side.put(&draft).await?;
            eventually("it fails", || async move { Ok(side.record(seq).await?.attempts() == 1) }).await?;
            worker.stop().await?;
            let id = draft.id.to_string();
            let lines = stage.setup.logs.lines();
            let lines = lines.into_iter().filter(|line| line.level == Level::ERROR);
            let lines: Vec<_> = lines.filter(|line| line.field("message_id") == Some(id.as_str())).collect();
            let told: Vec<_> = lines.iter().filter(|line| line.field("queue") == Some(side.queue.as_str())).collect();
            assert_eq!(told.len(), 1, "{lines:?}");
            assert!(told[0].field("error").is_some_and(|error| error.contains("disk on fire")));
        }
    }
    Ok(())
}

async fn a_reap_is_told_with_its_count(h: &Harness) -> Verdict {
    h.setup.logs.listen();
    for side in h.sides() {
        side.add_many("a", 3).await?;
        assert_eq!(side.claim(3).await?.len(), 3);
        h.clock.advance(LEASE);
        assert_eq!(side.verbs().reap(10).await?.freed, 3);
        let lines = h.setup.logs.saying("expired leases reaped");
        let lines: Vec<_> = lines.into_iter().filter(|line| line.field("queue") == Some(side.queue.as_str())).collect();
        assert_eq!(one(&lines, Level::INFO)?.field("freed"), Some("3"));
    }
    Ok(())
}

/// Does everything that is logged, with this payload.
async fn everything<B: Testable>(stage: &Stage<B>, payload: &str) -> Verdict {
    let failing = Script::new(|call| async move {
        match call.message.topic.as_str() {
            "fails" => Err(HandlerError::retry("no")),
            "dies" => Err(HandlerError::terminal("never")),
            "panics" => std::panic::panic_any("out of cheese"),
            _ => Ok(Some(call.message.payload.clone())),
        }
    });
    for side in stage.sides() {
        let worker = stage.work(side.queue, &failing, WorkerOptions::default());
        let mut seqs = Vec::new();
        for topic in ["works", "fails", "dies", "panics"] {
            seqs.push(side.put(&Draft::new(topic).payload(payload)).await?);
        }
        for seq in seqs {
            let ended = || async move {
                let record = side.record(seq).await?;
                Ok(record.state() == State::Done || record.attempts() > 0)
            };
            eventually("each is handled", ended).await?;
        }
        worker.stop().await?;
        let worker = Running::start(stage.worker(side.queue, Handlers::new()));
        let unknown = side.put(&Draft::new("unknown").payload(payload)).await?;
        let put_back = || async move { Ok(side.record(unknown).await?.last_error().is_some()) };
        eventually("an unknown topic is put back", put_back).await?;
        worker.stop().await?;
        let stale = side.leased("stale").await?;
        stage.clock.advance(Duration::from_secs(3600));
        let _ = side.verbs().reap(100).await?;
        let _ = side.verbs().fail([stale], "stale").await?;
        side.verbs().purge(Duration::ZERO, 100).await?;
        side.verbs().revive(postroom::operator::Filter::all(), Some(LEASE)).await?;
    }
    let draft = Draft::new("a").payload(payload);
    for payload in [payload, "other", payload] {
        let incoming = Incoming::new(draft.key()?, "a", payload).header("secret", payload);
        h_ignore(stage.inbox.enqueue(incoming).await?);
    }
    stage.outbox.enqueue(draft.outgoing().header("secret", payload).expires_after(LEASE)).await?;
    stage.clock.advance(LEASE);
    stage.outbox.queue().expire(10).await?;
    assert!(stage.outbox.enqueue(NewMessage::new("", payload)).await.is_err());
    assert!(stage.outbox.enqueue(NewMessage::new("a", format!("{payload}\0"))).await.is_err());
    assert!(stage.outbox.queue().claim(OwnerToken::new(), Duration::ZERO, 1).await.is_err());
    Ok(())
}

fn h_ignore<T>(_: T) {}

async fn every_line_names_its_store<B: Testable>(stage: &Stage<B>) -> Verdict {
    stage.setup.logs.listen();
    everything(stage, "{}").await?;
    let lines = stage.setup.logs.lines();
    let ours = lines.iter().filter(|line| !line.message.is_empty() && line.target.starts_with("postroom"));
    let name = postroom::store::Store::name(&stage.store);
    for line in ours {
        assert_eq!(line.field("store"), Some(name), "{line:?}");
    }
    assert!(lines.len() > 50, "only {} lines were caught", lines.len());
    Ok(())
}

const CANARY: &str = "tweety-8d1f5c";

fn no_canary(lines: &[Line]) {
    for line in lines {
        assert!(!format!("{line:?}").contains(CANARY), "a payload is in the log: {line:?}");
    }
}

async fn no_line_shows_a_payload<B: Testable>(stage: &Stage<B>) -> Verdict {
    stage.setup.logs.listen();
    everything(stage, CANARY).await?;
    no_canary(&stage.setup.logs.lines());
    Ok(())
}

#[derive(Serialize, Deserialize)]
struct Typed {
    order: u64,
}

impl Payload for Typed {
    const TOPIC: &'static str = "typed";
    type Reply = u64;
}

async fn typed<B: Testable>(_: &mut Ctx<B>, typed: Typed) -> HandlerResult<u64> {
    Ok(typed.order)
}

/// JSON libraries quote a value in their errors that does not match its type.
async fn no_line_shows_a_payload_that_cannot_be_read<B: Testable>(stage: &Stage<B>) -> Verdict {
    stage.setup.logs.listen();
    for side in stage.sides() {
        let worker = Running::start(stage.worker(side.queue, Handlers::new().on(typed::<B>)));
        let mut seqs = Vec::new();
        for payload in [format!("{{\"order\":\"{CANARY}\"}}"), format!("\"{CANARY}\""), format!("{{\"{CANARY}\":1}}")] {
            seqs.push(side.put(&Draft::new("typed").payload(payload)).await?);
        }
        for seq in seqs {
            eventually("it fails", || async move { Ok(side.record(seq).await?.attempts() == 1) }).await?;
        }
        worker.stop().await?;
    }
    no_canary(&stage.setup.logs.lines());
    Ok(())
}

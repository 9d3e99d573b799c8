//! Messages that arrive by some other way than the inbox: each handler has each of them once.

mod embedded;
mod killed;
mod marking;
mod overlooked;
mod sets;
mod unanswered;

pub(in crate::suite) use killed::{ROLES, play_part};

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use postroom::clock::Timestamp;
use postroom::idempotent::{Idempotent, IdempotentOptions, Once, Unhandled};
use postroom::operator::Filter;
use postroom::store::Store;
use postroom::{Ctx, HandlerError, HandlerResult, Incoming, Message, NewMessage, Payload};
use tokio::task::JoinSet;
use tracing::Level;

use crate::by_wire::ByWire;
use crate::case::{Case, Verdict, cases};
use crate::harness::{Draft, Harness, Stage, Testable, soon};
use crate::script::{Gate, Script, play};

cases! { idempotent:
    worker of_64_deliveries_at_once_one_is_handled ["PLN-3.1", "PLN-4.1", "PLN-9.7"];
    worker of_64_deliveries_in_two_processes_one_is_handled ["PLN-0.2", "PLN-3.1", "PLN-9.2"];
    server deliveries_that_wait_for_their_twin_hold_no_connection [];
    worker each_handler_of_a_message_runs_once ["PLN-1.1", "PLN-9.1"];
    worker a_typed_handler_is_given_its_payload ["PLN-7.1"];
    worker a_delivery_after_a_failure_is_handled_again ["PLN-0.1"];
    worker a_panic_is_a_failure [];
    worker a_failure_says_whether_to_deliver_again ["PLN-4.2"];
    worker what_a_handler_enqueues_is_stored_only_with_the_mark [];
    worker a_run_that_is_dropped_leaves_nothing [];
    worker a_duplicate_is_told_and_counted ["SQM-11.1.6", "PLN-4.3"];
}

/// With those about marks and how long they are kept, SQLite's writer, killed processes, commits without an answer, and
/// errors that nobody looked at.
pub(super) const PROMISES: [&[Case]; 7] =
    [CASES, marking::CASES, sets::CASES, embedded::CASES, killed::CASES, unanswered::CASES, overlooked::CASES];

const NEVER: Timestamp = Timestamp::from_micros(i64::MAX);

/// Leaves a message in the outbox, which is the effect that shows on every backend; then plays the script.
async fn forward<B: Testable>(ctx: &mut Ctx<B>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    ctx.enqueue(NewMessage::new("forwarded", "").due_at(NEVER)).await?;
    play(ctx, message).await
}

async fn forwarded(h: &Harness) -> anyhow::Result<usize> {
    Ok(h.outbox.queue().list(Filter::all().topic("forwarded")).await?.len())
}

fn handler<B: Testable>(store: &B::Store, name: &str, script: &Script) -> anyhow::Result<Idempotent<B>> {
    with(store, name, script, IdempotentOptions::default())
}

fn with<B: Testable>(
    store: &B::Store,
    name: &str,
    script: &Script,
    options: IdempotentOptions,
) -> anyhow::Result<Idempotent<B>> {
    Ok(Idempotent::with(store.clone(), name, options)?.state(script.clone())?)
}

fn delivery() -> anyhow::Result<Incoming> {
    Draft::new("order.placed").incoming()
}

/// Fails until it was called this often.
fn fails_before(call: usize) -> Script {
    let failures = Arc::new(tokio::sync::Semaphore::new(call - 1));
    Script::new(move |_| {
        let fails = failures.try_acquire().map(tokio::sync::SemaphorePermit::forget).is_ok();
        async move { if fails { Err(HandlerError::retry("not yet")) } else { Ok(None) } }
    })
}

/// Delivers one message 64 times at once; one is handled, the others are duplicates.
async fn one_of_64<B: Testable>(stage: &Stage<B>, consumers: &[Idempotent<B>], script: &Script) -> Verdict {
    let incoming = delivery()?;
    let mut deliveries = JoinSet::new();
    for n in 0..64 {
        let (consumer, incoming) = (consumers[n % consumers.len()].clone(), incoming.clone());
        deliveries.spawn(async move { consumer.run_message(incoming, forward::<B>).await });
    }
    let ended: Result<Vec<_>, _> = soon("all are answered", deliveries.join_all()).await?.into_iter().collect();
    assert_eq!(ended?.iter().filter(|once| !once.is_duplicate()).count(), 1);
    assert_eq!((script.count(), forwarded(stage).await?), (1, 1));
    Ok(())
}

async fn of_64_deliveries_at_once_one_is_handled<B: Testable>(stage: &Stage<B>) -> Verdict {
    let script = Script::succeed();
    one_of_64(stage, &[handler(&stage.store, "reserve", &script)?], &script).await
}

async fn of_64_deliveries_in_two_processes_one_is_handled<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (script, other) = (Script::succeed(), B::open_again(&stage.store, &stage.place).await?);
    let consumers = [handler(&stage.store, "reserve", &script)?, handler(&other, "reserve", &script)?];
    one_of_64(stage, &consumers, &script).await
}

async fn deliveries_that_wait_for_their_twin_hold_no_connection<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (mut gate, script) = (Gate::shut(), Script::succeed());
    let (slow, quick) =
        (handler::<B>(&stage.store, "reserve", &gate.script)?, handler::<B>(&stage.store, "b", &script)?);
    let incoming = delivery()?;
    let mut twins = JoinSet::new();
    for _ in 0..64 {
        let (slow, incoming) = (slow.clone(), incoming.clone());
        twins.spawn(async move { slow.run_message(incoming, play::<B>).await });
    }
    soon("the first is being handled", gate.begun.recv()).await?;
    for _ in 0..16 {
        soon("others are handled", quick.run_message(delivery()?, forward::<B>)).await??;
    }
    gate.open.add_permits(1);
    let ended: Result<Vec<_>, _> = soon("all are answered", twins.join_all()).await?.into_iter().collect();
    assert_eq!(ended?.iter().filter(|once| !once.is_duplicate()).count(), 1);
    Ok(())
}

async fn each_handler_of_a_message_runs_once<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (script, incoming) = (Script::succeed(), delivery()?);
    let consumers = [handler::<B>(&stage.store, "reserve", &script)?, handler(&stage.store, "invoice", &script)?];
    for _ in 0..3 {
        for once in join_all(consumers.iter().map(|one| one.run_message(incoming.clone(), forward::<B>))).await {
            once?;
        }
    }
    assert_eq!((script.count(), forwarded(stage).await?), (2, 2));
    Ok(())
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Placed {
    order: u64,
}

impl Payload for Placed {
    const TOPIC: &'static str = "order.placed";
    type Reply = u64;
}

async fn order<B: Testable>(ctx: &mut Ctx<B>, placed: Placed) -> HandlerResult<u64> {
    assert_eq!((ctx.message().topic.as_str(), ctx.attempt()), ("order.placed", 1));
    Ok(placed.order)
}

async fn a_typed_handler_is_given_its_payload<B: Testable>(stage: &Stage<B>) -> Verdict {
    let consumer = Idempotent::<B>::new(stage.store.clone(), "reserve")?;
    let draft = Draft::new("order.placed");
    let unreadable = consumer.run(draft.clone().payload("{}").incoming()?, order::<B>).await;
    assert!(matches!(unreadable, Err(Unhandled::Handler(failure)) if !failure.is_terminal()));
    assert_eq!(consumer.run(draft.payload(r#"{"order":7}"#).incoming()?, order::<B>).await?, Once::Ran(7));
    Ok(())
}

async fn a_delivery_after_a_failure_is_handled_again<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (script, incoming) = (fails_before(3), delivery()?);
    let consumer = handler::<B>(&stage.store, "reserve", &script)?;
    for _ in 0..2 {
        assert!(consumer.run_message(incoming.clone(), forward::<B>).await.is_err());
    }
    assert_eq!(consumer.run_message(incoming.clone(), forward::<B>).await?, Once::Ran(None));
    assert_eq!(consumer.run_message(incoming, forward::<B>).await?, Once::Duplicate);
    assert_eq!((script.count(), forwarded(stage).await?), (3, 1));
    Ok(())
}

async fn panics<B: Testable>(ctx: &mut Ctx<B>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    forward(ctx, message).await?;
    std::panic::panic_any("out of cheese")
}

async fn a_panic_is_a_failure<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (consumer, incoming) = (handler::<B>(&stage.store, "reserve", &Script::succeed())?, delivery()?);
    let failed = consumer.run_message(incoming.clone(), panics::<B>).await.err().map(|failed| failed.to_string());
    assert_eq!(failed.as_deref(), Some("the handler panicked: out of cheese"));
    assert_eq!(forwarded(stage).await?, 0);
    assert!(!consumer.run_message(incoming, forward::<B>).await?.is_duplicate());
    Ok(())
}

async fn a_failure_says_whether_to_deliver_again<B: Testable>(stage: &Stage<B>) -> Verdict {
    let later = Duration::from_secs(9);
    let script = Script::new(move |call| async move {
        match call.message.payload.as_str() {
            "dead" => Err(HandlerError::terminal("never")),
            _ => Err(HandlerError::retry_after(later, "later")),
        }
    });
    let consumer = handler::<B>(&stage.store, "reserve", &script)?;
    for (payload, is_terminal, delay) in [("dead", true, None), ("late", false, Some(later))] {
        let incoming = Draft::new("a").payload(payload).incoming()?;
        match consumer.run_message(incoming, play::<B>).await {
            Err(Unhandled::Handler(failure)) => {
                assert_eq!((failure.is_terminal(), failure.retry_delay()), (is_terminal, delay));
            }
            other => anyhow::bail!("{other:?}"),
        }
    }
    Ok(())
}

/// Says if what it enqueues can be seen before the commit.
async fn looks<B: Testable>(ctx: &mut Ctx<B>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let answer = forward(ctx, message).await?;
    let store = ctx.state::<Arc<dyn Store>>()?;
    match store.list(postroom::queue::Queue::Outbox, Filter::all()).await?.len() {
        0 => Ok(answer),
        _ => Err(HandlerError::terminal("it was seen before the commit")),
    }
}

async fn what_a_handler_enqueues_is_stored_only_with_the_mark<B: Testable>(stage: &Stage<B>) -> Verdict {
    let store: Arc<dyn Store> = Arc::new(stage.store.clone());
    let (script, incoming) = (fails_before(2), delivery()?);
    let consumer = handler::<B>(&stage.store, "reserve", &script)?.state(store)?;
    assert!(consumer.run_message(incoming.clone(), looks::<B>).await.is_err());
    assert_eq!(forwarded(stage).await?, 0);
    assert_eq!(consumer.run_message(incoming, looks::<B>).await?, Once::Ran(None));
    assert_eq!(forwarded(stage).await?, 1);
    Ok(())
}

async fn a_run_that_is_dropped_leaves_nothing<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (mut gate, incoming) = (Gate::shut(), delivery()?);
    let consumer = handler::<B>(&stage.store, "reserve", &gate.script)?;
    let mut running = JoinSet::new();
    let (dropped, first) = (consumer.clone(), incoming.clone());
    running.spawn(async move { dropped.run_message(first, forward::<B>).await });
    soon("it is being handled", gate.begun.recv()).await?;
    running.shutdown().await;
    gate.open.add_permits(1);
    let again = soon("it is handled again", consumer.run_message(incoming, forward::<B>)).await??;
    assert_eq!((again, forwarded(stage).await?), (Once::Ran(Some("7".into())), 1));
    Ok(())
}

async fn a_duplicate_is_told_and_counted<B: Testable>(stage: &Stage<B>) -> Verdict {
    stage.setup.logs.listen();
    let (consumer, incoming) = (handler::<B>(&stage.store, "reserve", &Script::succeed())?, delivery()?);
    for _ in 0..3 {
        consumer.run_message(incoming.clone(), play::<B>).await?;
    }
    let lines = stage.setup.logs.saying("duplicate: handled before");
    let told = lines.iter().map(|line| (line.level, line.field("handler"), line.field("message_id")));
    let expected = (Level::INFO, Some("reserve"), Some(incoming.key().message_id()));
    assert_eq!(told.collect::<Vec<_>>(), [expected; 2]);
    let counted = stage.setup.meters.sum(postroom::telemetry::metric::INBOX_DUPLICATES);
    assert!((counted - 2.0).abs() < f64::EPSILON, "{counted}");
    Ok(())
}

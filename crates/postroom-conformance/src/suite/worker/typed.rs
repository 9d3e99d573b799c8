//! Typed messages: what the derives and `push_call` write works on every backend.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use postroom::handler::Backend;
use postroom::message::{Headers, Kind};
use postroom::operator::Filter;
use postroom::queue::{Queue, State};
use postroom::{Command, Ctx, Event, HandlerResult, Handlers, NewMessage, Payload, Signal, WorkerOptions, push_call};
use serde::{Deserialize, Serialize};

use crate::case::{Verdict, cases};
use crate::harness::{Stage, Testable, eventually, readable};
use crate::script::Running;

cases! { typed:
    worker a_payload_reaches_the_handler_of_its_type ["SQM-10.1.3"];
    worker the_context_tells_headers_attempt_and_correlation [];
    worker what_a_handler_sends_belongs_to_what_it_handles [];
    worker an_older_version_is_upcast_step_by_step [];
    worker a_newer_version_waits_for_a_newer_program [];
    worker a_payload_that_does_not_fit_is_named_by_its_field [];
    worker a_call_runs_its_function ["SQM-5.2.1"];
    worker calls_of_methods_run_on_their_object [];
}

#[derive(Serialize, Deserialize, Signal)]
#[signal("order.approved")]
struct ApprovedV1 {
    order: u64,
}

#[derive(Serialize, Deserialize, Signal)]
#[signal("order.approved", version = 2, upcast_from = ApprovedV1)]
struct ApprovedV2 {
    order: u64,
    by: String,
}

#[derive(Clone, PartialEq, Serialize, Deserialize, Signal, Debug)]
#[signal("order.approved", version = 3, upcast_from = ApprovedV2)]
struct Approved {
    order: u64,
    by: Vec<String>,
}

impl From<ApprovedV1> for ApprovedV2 {
    fn from(old: ApprovedV1) -> Self {
        Self { order: old.order, by: "nobody".into() }
    }
}

impl From<ApprovedV2> for Approved {
    fn from(old: ApprovedV2) -> Self {
        Self { order: old.order, by: vec![old.by] }
    }
}

#[derive(Serialize, Deserialize, Event)]
#[event("order.counted")]
struct Counted(u64);

#[derive(Serialize, Deserialize, Command)]
#[command("order.count", reply = u64)]
struct Count {
    order: u64,
}

/// What was said of the messages that were handled.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn note(&self, what: impl ToString) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what.to_string());
    }

    fn all(&self) -> Vec<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.sort();
        all
    }
}

async fn approved<B: Backend>(ctx: &mut Ctx<B>, approved: Approved) -> HandlerResult<()> {
    ctx.state::<Seen>()?.note(format_args!("{} by {:?}", approved.order, approved.by));
    Ok(())
}

fn headers(headers: &Headers) -> String {
    headers.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

async fn counted<B: Backend>(ctx: &mut Ctx<B>, Counted(order): Counted) -> HandlerResult<()> {
    let (attempt, correlation) = (ctx.attempt(), ctx.correlation_id().unwrap_or("none").to_owned());
    let headers = headers(ctx.headers());
    ctx.state::<Seen>()?.note(format_args!("{order} at {attempt} for {correlation} with {headers}"));
    Ok(())
}

async fn count<B: Backend>(ctx: &mut Ctx<B>, count: Count) -> HandlerResult<u64> {
    ctx.enqueue(&Counted(count.order)).await?;
    ctx.enqueue(Counted(count.order + 1).outgoing().correlation_id("its own").message()?).await?;
    Ok(1)
}

/// Works until this many messages have reached `state`, and returns the handlers' notes.
async fn worked<B: Testable>(stage: &Stage<B>, handlers: Handlers<B>, done: u64) -> anyhow::Result<Vec<String>> {
    let seen = Seen::default();
    let worker = stage.worker(Queue::Outbox, handlers.state(seen.clone())).options(WorkerOptions::default());
    let worker = Running::start(worker);
    let queue = stage.outbox.queue();
    eventually("all are handled", || async move { Ok(queue.stats().await?.done == done) }).await?;
    worker.stop().await?;
    Ok(seen.all())
}

async fn a_payload_reaches_the_handler_of_its_type<B: Testable>(stage: &Stage<B>) -> Verdict {
    let sent = Approved { order: 7, by: vec!["ann".into(), "bob".into()] };
    let stored = stage.outbox.enqueue(sent.outgoing()).await?;
    let record = stage.outbox.find(stored.id().as_uuid()).await?.pop().context("it is stored")?;
    let message = readable(&record)?;
    assert_eq!((message.kind, message.topic.as_str()), (Kind::Signal, "order.approved"));
    assert_eq!(message.read::<Approved>()?, sent);
    let seen = worked(stage, Handlers::new().on(approved::<B>), 1).await?;
    assert_eq!(seen, [r#"7 by ["ann", "bob"]"#]);
    Ok(())
}

async fn the_context_tells_headers_attempt_and_correlation<B: Testable>(stage: &Stage<B>) -> Verdict {
    stage.outbox.enqueue(Counted(1).outgoing().header("a", "b").correlation_id("it")).await?;
    stage.outbox.enqueue(Counted(2).outgoing()).await?;
    let seen = worked(stage, Handlers::new().on(counted::<B>), 2).await?;
    assert_eq!(seen, ["1 at 1 for it with a=b", "2 at 1 for none with "]);
    Ok(())
}

async fn what_a_handler_sends_belongs_to_what_it_handles<B: Testable>(stage: &Stage<B>) -> Verdict {
    stage.outbox.enqueue(Count { order: 1 }.outgoing().correlation_id("it")).await?;
    stage.outbox.enqueue(Count { order: 5 }.outgoing()).await?;
    let seen = worked(stage, Handlers::new().on(counted::<B>).on(count::<B>), 6).await?;
    let told = ["1 at 1 for it", "2 at 1 for its own", "5 at 1 for none", "6 at 1 for its own"];
    assert_eq!(seen, told.map(|told| format!("{told} with ")));
    Ok(())
}

async fn an_older_version_is_upcast_step_by_step<B: Testable>(stage: &Stage<B>) -> Verdict {
    stage.outbox.enqueue(ApprovedV1 { order: 1 }.outgoing()).await?;
    stage.outbox.enqueue(ApprovedV2 { order: 2, by: "ann".into() }.outgoing()).await?;
    stage.outbox.enqueue(Approved { order: 3, by: Vec::new() }.outgoing()).await?;
    let seen = worked(stage, Handlers::new().on(approved::<B>), 3).await?;
    assert_eq!(seen, [r#"1 by ["nobody"]"#, r#"2 by ["ann"]"#, "3 by []"]);
    Ok(())
}

/// The error of the only message, when it was tried once.
async fn refused<B: Testable>(stage: &Stage<B>, message: NewMessage, attempts: u32) -> anyhow::Result<String> {
    stage.outbox.enqueue(message).await?;
    let worker = Running::start(stage.worker(Queue::Outbox, Handlers::new().on(approved::<B>).state(Seen::default())));
    let list = || async { anyhow::Ok(stage.outbox.queue().list(Filter::all()).await?.pop()) };
    eventually("it is tried", || async { Ok(list().await?.is_some_and(|row| row.last_error().is_some())) }).await?;
    worker.stop().await?;
    let row = list().await?.context("it is there")?;
    assert_eq!((row.state(), row.attempts()), (State::Ready, attempts));
    Ok(row.last_error().context("it was refused")?.to_owned())
}

async fn a_newer_version_waits_for_a_newer_program<B: Testable>(stage: &Stage<B>) -> Verdict {
    let newer = NewMessage::new("order.approved", "[]").header("payload-version", "4");
    let why = refused(stage, newer, 0).await?;
    assert_eq!(why, "the payload for order.approved has version 4; this program knows version 3");
    // Longer than a handler's failures would have killed it.
    let worker = Running::start(stage.worker(Queue::Outbox, Handlers::new().on(approved::<B>).state(Seen::default())));
    let row = || async { stage.outbox.queue().list(Filter::all()).await?.pop().context("it is there") };
    for claims in 2..=12 {
        stage.clock.advance(Duration::from_secs(61));
        eventually("it is tried", || async { Ok(row().await?.claim_no() >= claims) }).await?;
        eventually("it is put back", || async { Ok(row().await?.state() == State::Ready) }).await?;
    }
    worker.stop().await?;
    assert_eq!((row().await?.state(), row().await?.attempts()), (State::Ready, 0));
    Ok(())
}

async fn a_payload_that_does_not_fit_is_named_by_its_field<B: Testable>(stage: &Stage<B>) -> Verdict {
    let message = NewMessage::new("order.approved", r#"{"order":7,"by":["ann",{"password":"hunter2"}]}"#);
    let why = refused(stage, message.header("payload-version", "3"), 1).await?;
    assert_eq!(why, "the payload for order.approved does not match its type at `by[1]`: expected a string");
    Ok(())
}

#[push_call("test.note")]
async fn note<B: Backend>(ctx: &mut Ctx<B>, words: Vec<String>, #[serde(default)] times: u32) -> HandlerResult<()> {
    ctx.state::<Seen>()?.note(format_args!("{} {times}", words.join(" ")));
    Ok(())
}

async fn a_call_runs_its_function<B: Testable>(stage: &Stage<B>) -> Verdict {
    let words = vec!["a".to_owned(), "b".to_owned()];
    stage.outbox.enqueue(Note { words, times: 2 }.outgoing()).await?;
    stage.outbox.enqueue(NewMessage::new("test.note", r#"{"words":["c"]}"#).kind(Kind::PushCall)).await?;
    let seen = worked(stage, Handlers::new().call::<Note>(), 2).await?;
    assert_eq!(seen, ["a b 2", "c 0"]);
    Ok(())
}

struct Counter(AtomicU64);

#[push_call]
impl Counter {
    #[push_call("counter.add", name = Add)]
    async fn add(&self, number: u64) -> HandlerResult<u64> {
        Ok(self.0.fetch_add(number, Ordering::SeqCst) + number)
    }

    #[push_call("counter.reset", name = Reset)]
    async fn reset(&self) -> std::io::Result<()> {
        self.0.store(0, Ordering::SeqCst);
        Ok(())
    }
}

async fn calls_of_methods_run_on_their_object<B: Testable>(stage: &Stage<B>) -> Verdict {
    let counter = Arc::new(Counter(AtomicU64::new(0)));
    for number in [1, 2] {
        stage.outbox.enqueue(Add { number }.outgoing()).await?;
    }
    worked(stage, Handlers::new().calls(counter.clone()), 2).await?;
    assert_eq!(counter.0.load(Ordering::SeqCst), 3);
    stage.outbox.enqueue(Reset {}.outgoing()).await?;
    worked(stage, Handlers::new().calls(counter.clone()), 3).await?;
    assert_eq!(counter.0.load(Ordering::SeqCst), 0);
    Ok(())
}

//! Handlers as a program writes them: what they take, what they answer, and what is refused before anything runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use postroom::handler::State;
use postroom::idempotent::{Idempotent, Once, Unhandled};
use postroom::queue::Cause;
use postroom::services::Declared;
use postroom::sqlite::{BlockingCtx, Sqlite};
use postroom::store::{Memory, MemoryStore};
use postroom::testing::Workbench;
use postroom::{
    Command, Ctx, Event, HandlerResult, Handlers, InboxKey, Incoming, RetryPolicy, Worker, push_call, service,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event("mail.due")]
struct Mail {
    to: String,
}

#[derive(Serialize, Deserialize, Command)]
#[command("mail.count", reply = u32)]
struct Count;

/// Where mail goes.
#[derive(Default)]
struct Sent(Mutex<Vec<String>>);

impl Sent {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().expect("nobody panics").push(what.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().expect("nobody panics").clone()
    }
}

struct From(&'static str);

fn to(name: &str) -> Mail {
    Mail { to: name.into() }
}

async fn mail(ctx: &mut Ctx<Memory>, mail: Mail, sent: State<Arc<Sent>>, from: State<From>) -> HandlerResult<()> {
    sent.note(format!("{} to {}, attempt {}", from.0, mail.to, ctx.attempt()));
    Ok(())
}

#[tokio::test]
async fn a_handler_takes_state_as_arguments() {
    let (bench, sent) = (Workbench::memory(), Arc::new(Sent::default()));
    bench.outbox().enqueue(&to("ann")).await.unwrap();
    let handlers = Handlers::new().on(mail).state(sent.clone()).state(From("shop"));
    assert_eq!(bench.drain(handlers).await.unwrap().handled(), 1);
    assert_eq!(sent.all(), ["shop to ann, attempt 1"]);
}

#[tokio::test]
async fn a_state_that_nobody_gave_is_told_before_anything_runs() {
    let told = "the handler of the topic \"mail.due\" needs a state of type handlers::From: \
                add it with Handlers::state";
    let handlers = || Handlers::new().on(mail).state(Arc::new(Sent::default()));
    let store = MemoryStore::new();
    let refused = Worker::outbox(store.clone(), handlers()).run(std::future::pending()).await.unwrap_err();
    assert_eq!(refused.to_string(), told);
    assert_eq!(handlers().checked().unwrap_err().to_string(), told);
    let once = Idempotent::<Memory>::new(store, "mail").unwrap().state(Arc::new(Sent::default())).unwrap();
    assert_eq!(once.run(delivered("mail.due"), mail).await.unwrap_err().to_string(), told);
}

#[tokio::test]
async fn a_blocking_handler_takes_state_too() {
    fn blocking(ctx: &mut BlockingCtx<'_>, mail: Mail, sent: State<Arc<Sent>>) -> HandlerResult<()> {
        let one: i64 = ctx.tx().query_row("SELECT 1", [], |row| row.get(0))?;
        sent.note(format!("{one} to {}", mail.to));
        Ok(())
    }
    let (bench, sent) = (Workbench::<Sqlite>::sqlite().await.unwrap(), Arc::new(Sent::default()));
    bench.outbox().enqueue(&to("ann")).await.unwrap();
    let refused = bench.drain(Handlers::new().on_blocking(blocking)).await.unwrap_err();
    assert!(refused.to_string().contains("needs a state of type"), "{refused}");
    bench.drain(Handlers::new().on_blocking(blocking).state(sent.clone())).await.unwrap();
    assert_eq!(sent.all(), ["1 to ann"]);
}

#[push_call("call.send")]
async fn send(to: String, sent: State<Arc<Sent>>, subject: String) -> HandlerResult<()> {
    sent.note(format!("{subject} to {to}"));
    Ok(())
}

#[push_call("call.send_blocking")]
fn send_blocking(ctx: &mut BlockingCtx<'_>, sent: State<Arc<Sent>>, to: String) -> HandlerResult<()> {
    let one: i64 = ctx.tx().query_row("SELECT 1", [], |row| row.get(0))?;
    sent.note(format!("{one} to {to}"));
    Ok(())
}

struct Office(&'static str);

#[push_call]
impl Office {
    #[push_call("office.send", name = OfficeSend)]
    async fn send(&self, ctx: &mut Ctx<Sqlite>, to: String, sent: State<Arc<Sent>>) -> HandlerResult<()> {
        sent.note(format!("{} to {to}, attempt {}", self.0, ctx.attempt()));
        Ok(())
    }
}

#[tokio::test]
async fn a_push_call_takes_state_beside_the_arguments_that_travel() {
    let (bench, sent) = (Workbench::<Sqlite>::sqlite().await.unwrap(), Arc::new(Sent::default()));
    bench.outbox().enqueue(&Send { to: "ann".into(), subject: "news".into() }).await.unwrap();
    bench.outbox().enqueue(&SendBlocking { to: "bob".into() }).await.unwrap();
    bench.outbox().enqueue(&OfficeSend { to: "cid".into() }).await.unwrap();
    let handlers =
        || Handlers::<Sqlite>::new().call::<Send>().call::<SendBlocking>().calls(Arc::new(Office("the office")));
    let refused = handlers().checked().unwrap_err().to_string();
    assert!(refused.contains("\"call.send\" needs a state of type"), "{refused}");
    let refused = Handlers::<Sqlite>::new().calls(Arc::new(Office(""))).checked().unwrap_err().to_string();
    assert!(refused.contains("\"office.send\" needs a state of type"), "{refused}");
    assert_eq!(bench.drain(handlers().state(sent.clone())).await.unwrap().handled(), 3);
    let mut all = sent.all();
    all.sort();
    assert_eq!(all, ["1 to bob", "news to ann", "the office to cid, attempt 1"]);
}

#[tokio::test]
async fn state_from_the_context_does_not_keep_it_borrowed() {
    async fn asks(ctx: &mut Ctx<Memory>, mail: Mail) -> HandlerResult<()> {
        let sent = ctx.state::<Arc<Sent>>()?;
        ctx.tx().await?;
        sent.note(mail.to);
        Ok(())
    }
    let (bench, sent) = (Workbench::memory(), Arc::new(Sent::default()));
    bench.outbox().enqueue(&to("ann")).await.unwrap();
    bench.drain(Handlers::new().on(asks).state(sent.clone())).await.unwrap();
    assert_eq!(sent.all(), ["ann"]);
}

#[tokio::test]
async fn an_async_closure_that_captures_is_a_handler() {
    let (bench, counted) = (Workbench::memory(), Arc::new(AtomicU32::new(0)));
    for name in ["ann", "bob"] {
        bench.outbox().enqueue(&to(name)).await.unwrap();
    }
    let counter = counted.clone();
    let handlers = Handlers::new().on(async move |ctx: &mut Ctx<Memory>, _: Mail| {
        ctx.tx().await?;
        counter.fetch_add(1, SeqCst);
        HandlerResult::Ok(())
    });
    bench.drain(handlers).await.unwrap();
    assert_eq!(counted.load(SeqCst), 2);
}

#[tokio::test]
async fn an_answer_is_what_the_command_says() {
    async fn count(_: &mut Ctx<Memory>, _: Count) -> HandlerResult<u32> {
        Ok(7)
    }
    let bench = Workbench::memory();
    let id = bench.outbox().enqueue(&Count).await.unwrap().id();
    bench.drain(Handlers::new().on(count)).await.unwrap();
    let row = bench.outbox().queue().list(postroom::operator::Filter::all()).await.unwrap();
    assert_eq!((row.len(), row[0].response()), (1, Some("7")), "{id:?}");
}

fn delivered(topic: &str) -> Incoming {
    Incoming::new(InboxKey::new("broker", "1").unwrap(), topic, r#"{"to":"ann"}"#)
}

#[tokio::test]
async fn a_message_of_another_topic_is_not_the_handlers() {
    async fn mail(_: &mut Ctx<Memory>, _: Mail) -> HandlerResult<()> {
        Ok(())
    }
    let once = Idempotent::<Memory>::new(MemoryStore::new(), "mail").unwrap();
    let refused = once.run(delivered("mail.sent"), mail).await.unwrap_err();
    assert!(matches!(&refused, Unhandled::Handler(failure) if failure.cause() == Cause::NoHandler), "{refused:?}");
    assert_eq!(refused.to_string(), "the message has the topic \"mail.sent\", but the handler is for \"mail.due\"");
    // Nothing was marked.
    assert_eq!(once.run(delivered("mail.due"), mail).await.unwrap(), Once::Ran(()));
}

#[tokio::test]
async fn a_handler_is_retried_by_its_own_policy() {
    async fn never(_: &mut Ctx<Memory>, _: Mail) -> HandlerResult<()> {
        Err("no")?
    }
    let bench = Workbench::memory();
    bench.outbox().enqueue(&to("ann")).await.unwrap();
    let handlers = Handlers::new().on(never).retry(RetryPolicy::handlers().attempts(2));
    let drained = bench.drain(handlers).await.unwrap();
    assert_eq!(drained.dead().iter().map(|row| row.attempts()).collect::<Vec<_>>(), [2]);
}

async fn unwilling(_: &mut Ctx<Memory>, _: Mail) -> HandlerResult<()> {
    Err("no")?
}

#[push_call("call.refuse")]
async fn refuse() -> HandlerResult<()> {
    Err("no")?
}

service! {
    struct Unwilling for "unwilling" on Memory;
    handle Mail => unwilling { retry: RetryPolicy::handlers().attempts(2), concurrency: 1 }
    call Refuse { retry: RetryPolicy::handlers().attempts(3) }
}

#[tokio::test]
async fn a_declared_service_says_how_a_handler_is_retried() {
    let bench = Workbench::memory();
    bench.outbox().enqueue(&to("ann")).await.unwrap();
    bench.outbox().enqueue(&Refuse {}).await.unwrap();
    let drained = bench.drain(Unwilling::handlers()).await.unwrap();
    let mut attempts: Vec<_> = drained.dead().iter().map(|row| row.attempts()).collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [2, 3]);
}

#[tokio::test]
async fn a_handler_has_no_more_messages_at_once_than_it_says() {
    let (bench, most) = (Workbench::memory(), Arc::new((AtomicU32::new(0), AtomicU32::new(0))));
    for name in ["ann", "bob", "cid", "dan", "eve", "fay"] {
        bench.outbox().enqueue(&to(name)).await.unwrap();
    }
    let seen = most.clone();
    let slow = async move |_: &mut Ctx<Memory>, _: Mail| {
        let now = seen.0.fetch_add(1, SeqCst) + 1;
        seen.1.fetch_max(now, SeqCst);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        seen.0.fetch_sub(1, SeqCst);
        HandlerResult::Ok(())
    };
    assert_eq!(bench.drain(Handlers::new().on(slow).concurrency(2)).await.unwrap().handled(), 6);
    assert_eq!(most.1.load(SeqCst), 2);
}

//! What a handler does commits with its ack, or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postroom::clock::Timestamp;
use postroom::operator::Filter;
use postroom::queue::{Queue, State};
use postroom::sqlite::{BlockingCtx, Sqlite};
use postroom::store::{Identity, Store};
use postroom::{Ctx, ErrorKind, HandlerError, HandlerResult, Handlers, Message, NewMessage};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::case::{Verdict, cases};
use crate::harness::{Harness, Stage, Testable, eventually, soon};
use crate::script::Running;

cases! { effects:
    worker messages_a_handler_enqueues_commit_with_its_ack ["OBX-003"];
    worker messages_of_a_failed_handler_are_never_seen ["OBX-003"];
    worker what_a_handler_enqueues_is_single_though_it_ran_twice ["OBX-058", "IBX-077"];
    worker a_message_that_is_known_is_told_to_the_handler_too [];
    sqlite rows_an_async_handler_writes_commit_with_its_ack [];
    sqlite rows_a_blocking_handler_writes_commit_with_its_ack [];
    sqlite a_question_mark_rolls_everything_back [];
    sqlite a_panic_rolls_everything_back [];
    sqlite a_handler_that_calls_its_own_store_is_told [];
    sqlite a_handler_may_wait_before_its_first_statement [];
    sqlite a_handler_that_overlooks_that_it_was_broken_off_is_run_again [];
}

const NEVER: Timestamp = Timestamp::from_micros(i64::MAX);

async fn forward<B: Testable>(ctx: &mut Ctx<B>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let stored = ctx.enqueue(NewMessage::new("forwarded", message.payload.clone()).due_at(NEVER)).await?;
    let store = ctx.state::<Arc<dyn Store>>()?;
    if !store.find(Identity::Outbox(stored.id().as_uuid())).await?.is_empty() {
        return Err(HandlerError::terminal("it was seen before the commit"));
    }
    if message.topic == "fails" {
        return Err(HandlerError::terminal("no"));
    }
    Ok(None)
}

async fn forwarded<B: Testable>(stage: &Stage<B>, topic: &str, end: State) -> anyhow::Result<usize> {
    for side in stage.sides() {
        let store: Arc<dyn Store> = Arc::new(stage.store.clone());
        let handlers = Handlers::new().state(store).on_topic(topic, forward::<B>);
        let worker = Running::start(stage.worker(side.queue, handlers));
        let seq = side.add(topic).await?;
        settled(stage, side.queue, seq, end).await?;
        worker.stop().await?;
    }
    Ok(stage.outbox.queue().list(Filter::all().topic("forwarded")).await?.len())
}

async fn messages_a_handler_enqueues_commit_with_its_ack<B: Testable>(stage: &Stage<B>) -> Verdict {
    assert_eq!(forwarded(stage, "succeeds", State::Done).await?, 2);
    Ok(())
}

async fn messages_of_a_failed_handler_are_never_seen<B: Testable>(stage: &Stage<B>) -> Verdict {
    assert_eq!(forwarded(stage, "fails", State::Dead).await?, 0);
    Ok(())
}

async fn forwards_and_fails_once<B: Testable>(ctx: &mut Ctx<B>, _: Arc<Message>) -> HandlerResult<Option<String>> {
    ctx.enqueue(NewMessage::new("forwarded", "").due_at(NEVER)).await?;
    if ctx.attempt() == 1 { Err(HandlerError::retry("not yet")) } else { Ok(None) }
}

async fn what_a_handler_enqueues_is_single_though_it_ran_twice<B: Testable>(stage: &Stage<B>) -> Verdict {
    for (effects, side) in (1..).zip(stage.sides()) {
        let handlers = Handlers::new().on_topic("a", forwards_and_fails_once::<B>);
        let worker = Running::start(stage.worker(side.queue, handlers));
        let seq = side.add("a").await?;
        // Only its own pause is skipped: what it forwards waits for ever, and nothing done would be kept so long.
        let is_done = || async move {
            let record = side.record(seq).await?;
            if let (State::Ready, Some(at)) = (record.state(), record.visible_at()) {
                stage.advance(at.since(stage.now()));
            }
            Ok(record.state() == State::Done)
        };
        eventually("the second attempt succeeds", is_done).await?;
        worker.stop().await?;
        let forwarded = stage.outbox.queue().list(Filter::all().topic("forwarded")).await?.len();
        assert_eq!((side.record(seq).await?.attempts(), forwarded), (1, effects));
    }
    Ok(())
}

async fn says_if_known<B: Testable>(ctx: &mut Ctx<B>, _: Arc<Message>) -> HandlerResult<Option<String>> {
    let known = ctx.state::<NewMessage>()?;
    let new = NewMessage::new("new", "").due_at(NEVER);
    let answers = [ctx.enqueue((*known).clone()).await?, ctx.enqueue(new.clone()).await?, ctx.enqueue(new).await?];
    Ok(Some(format!("{:?}", answers.map(|stored| stored.is_duplicate()))))
}

async fn a_message_that_is_known_is_told_to_the_handler_too<B: Testable>(stage: &Stage<B>) -> Verdict {
    let known = NewMessage::new("known", "").due_at(NEVER);
    stage.outbox.enqueue(known.clone()).await?;
    for side in stage.sides() {
        let handlers = Handlers::new().state(known.clone()).on_topic("a", says_if_known::<B>);
        let worker = Running::start(stage.worker(side.queue, handlers));
        let seq = side.add("a").await?;
        settled(stage, side.queue, seq, State::Done).await?;
        worker.stop().await?;
        assert_eq!(side.record(seq).await?.response(), Some("[true, false, true]"));
    }
    Ok(())
}

async fn business_table(stage: &Stage<Sqlite>) -> Verdict {
    stage.store.write(|tx| Ok(tx.execute_batch("CREATE TABLE orders (id TEXT PRIMARY KEY)")?)).await?;
    Ok(())
}

async fn orders(stage: &Stage<Sqlite>) -> anyhow::Result<i64> {
    let count = stage.store.read(|conn| Ok(conn.query_row("SELECT count(*) FROM orders", [], |row| row.get(0))?));
    Ok(count.await?)
}

async fn settled(h: &Harness, queue: Queue, seq: i64, end: State) -> Verdict {
    let side = h.side(queue);
    eventually("the handler ends", || async move { Ok(side.state(seq).await? == end) }).await
}

async fn insert(ctx: &mut Ctx<Sqlite>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let id = message.id();
    ctx.tx().await?.run(move |conn| conn.execute("INSERT INTO orders VALUES (?1)", [id])).await?;
    Ok(Some("stored".into()))
}

async fn rows_an_async_handler_writes_commit_with_its_ack(stage: &Stage<Sqlite>) -> Verdict {
    business_table(stage).await?;
    for (side, count) in stage.sides().into_iter().zip(1..) {
        let worker = Running::start(stage.worker(side.queue, Handlers::new().on_topic("a", insert)));
        let seq = side.add("a").await?;
        settled(stage, side.queue, seq, State::Done).await?;
        worker.stop().await?;
        assert_eq!(orders(stage).await?, count);
        assert_eq!(side.record(seq).await?.response(), Some("stored"));
    }
    Ok(())
}

fn insert_blocking(ctx: &mut BlockingCtx<'_>) -> HandlerResult<Option<String>> {
    ctx.tx().execute("INSERT INTO orders VALUES (?1)", [ctx.message().id()])?;
    ctx.enqueue(NewMessage::new("forwarded", "").due_at(NEVER))?;
    match ctx.message().topic.as_str() {
        "fails" => Err(std::io::Error::other("disk on fire"))?,
        "panics" => std::panic::panic_any("out of cheese"),
        _ => Ok(Some("stored".into())),
    }
}

fn blocking() -> Handlers<Sqlite> {
    ["a", "fails", "panics"]
        .into_iter()
        .fold(Handlers::new(), |all, topic| all.on_topic_blocking(topic, insert_blocking))
}

async fn rows_a_blocking_handler_writes_commit_with_its_ack(stage: &Stage<Sqlite>) -> Verdict {
    business_table(stage).await?;
    for (side, count) in stage.sides().into_iter().zip(1..) {
        let worker = Running::start(stage.worker(side.queue, blocking()));
        let seq = side.add("a").await?;
        settled(stage, side.queue, seq, State::Done).await?;
        worker.stop().await?;
        assert_eq!(orders(stage).await?, count);
        assert_eq!(side.record(seq).await?.response(), Some("stored"));
    }
    assert_eq!(stage.outbox.queue().list(Filter::all().topic("forwarded")).await?.len(), 2);
    Ok(())
}

async fn rolls_back(stage: &Stage<Sqlite>, topic: &str, says: &str) -> Verdict {
    business_table(stage).await?;
    for side in stage.sides() {
        let worker = Running::start(stage.worker(side.queue, blocking()));
        let (before, seq) = (side.add("a").await?, side.add(topic).await?);
        let after = side.add("a").await?;
        for good in [before, after] {
            settled(stage, side.queue, good, State::Done).await?;
        }
        let counted = || async move { Ok(side.record(seq).await?.attempts() == 1) };
        eventually("the failure is counted", counted).await?;
        worker.stop().await?;
        let record = side.record(seq).await?;
        assert!(record.last_error().is_some_and(|error| error.contains(says)), "{:?}", record.last_error());
        assert_eq!(record.state(), State::Ready);
    }
    assert_eq!(orders(stage).await?, 4, "only what the good ones wrote is there");
    assert_eq!(stage.outbox.queue().list(Filter::all().topic("forwarded")).await?.len(), 4);
    Ok(())
}

async fn a_question_mark_rolls_everything_back(stage: &Stage<Sqlite>) -> Verdict {
    rolls_back(stage, "fails", "disk on fire").await
}

async fn a_panic_rolls_everything_back(stage: &Stage<Sqlite>) -> Verdict {
    rolls_back(stage, "panics", "out of cheese").await
}

async fn calls_itself(ctx: &mut Ctx<Sqlite>, _: Arc<Message>) -> HandlerResult<Option<String>> {
    let store = ctx.state::<postroom::sqlite::SqliteStore>()?;
    let refused = postroom::Outbox::new((*store).clone()).enqueue(NewMessage::new("a", "")).await;
    match refused {
        Err(error) if error.kind() == ErrorKind::InsideHandler => Err(HandlerError::terminal("it was told")),
        other => Err(HandlerError::terminal(format_args!("{other:?}"))),
    }
}

async fn a_handler_that_calls_its_own_store_is_told(stage: &Stage<Sqlite>) -> Verdict {
    let side = stage.side(Queue::Inbox);
    let handlers = Handlers::new().state(stage.store.clone()).on_topic("a", calls_itself);
    let worker = Running::start(stage.worker(side.queue, handlers));
    let seq = side.add("a").await?;
    settled(stage, side.queue, seq, State::Dead).await?;
    worker.stop().await?;
    assert_eq!(side.record(seq).await?.last_error(), Some("it was told"));
    Ok(())
}

struct Gate {
    begun: mpsc::UnboundedSender<()>,
    open: Notify,
}

async fn waits_first(ctx: &mut Ctx<Sqlite>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let gate = ctx.state::<Arc<Gate>>()?;
    gate.begun.send(())?;
    gate.open.notified().await;
    insert(ctx, message).await
}

/// The writer is taken by the first statement only.
async fn a_handler_may_wait_before_its_first_statement(stage: &Stage<Sqlite>) -> Verdict {
    business_table(stage).await?;
    let side = stage.side(Queue::Inbox);
    let (begun, mut beginning) = mpsc::unbounded_channel();
    let gate = Arc::new(Gate { begun, open: Notify::new() });
    let handlers = Handlers::new().state(gate.clone()).on_topic("a", waits_first);
    let worker = Running::start(stage.worker(side.queue, handlers));
    let seq = side.add("a").await?;
    soon("the handler begins", beginning.recv()).await?;
    let others = stage.outbox.enqueue(NewMessage::new("beside", "").due_at(NEVER));
    soon("others write meanwhile", others).await??;
    gate.open.notify_one();
    settled(stage, side.queue, seq, State::Done).await?;
    worker.stop().await
}

/// Holds the writer for longer than it may, the first time, and goes on as if nothing had happened.
async fn overlooks(ctx: &mut Ctx<Sqlite>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let is_first = ctx.state::<AtomicBool>()?.swap(false, Ordering::SeqCst);
    insert(ctx, message.clone()).await?;
    if is_first {
        // tidy: time itself is what is overlooked.
        tokio::time::interval_at(Instant::now() + Duration::from_millis(1500), Duration::from_secs(1)).tick().await;
    }
    for n in 0..2 {
        let id = format!("{}-{n}", message.id());
        drop(ctx.tx().await?.run(move |conn| conn.execute("INSERT INTO orders VALUES (?1)", [id])).await);
    }
    Ok(None)
}

async fn a_handler_that_overlooks_that_it_was_broken_off_is_run_again(stage: &Stage<Sqlite>) -> Verdict {
    business_table(stage).await?;
    let side = stage.side(Queue::Inbox);
    let handlers = Handlers::new().state(AtomicBool::new(true)).on_topic("a", overlooks);
    let worker = Running::start(stage.worker(side.queue, handlers));
    let seq = side.add("a").await?;
    settled(stage, side.queue, seq, State::Done).await?;
    worker.stop().await?;
    assert_eq!(orders(stage).await?, 3, "all of it, or nothing");
    Ok(())
}

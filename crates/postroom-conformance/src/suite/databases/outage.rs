//! What a handler's database does to it: deadlocks, connections that break, a server that is away. None of it is the
//! message's fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use postroom::queue::{Queue, State};
use postroom::{
    Ctx, ErrorKind, HandlerError, HandlerResult, Handlers, Message, NewMessage, Outbox, Worker, WorkerOptions,
};
use postroom_testbed::Proxy;
use tokio::sync::Barrier;
use tokio_util::sync::CancellationToken;

use crate::by_wire::{ByWire, Effects, say};
use crate::case::{Verdict, cases};
use crate::harness::{Draft, LEASE, Stage, eventually, refused, soon};
use crate::script::Running;
use crate::servers::{self, Client};

cases! { outage:
    server a_deadlock_in_a_handler_spends_no_attempt ["OBX-082", "IBX-104"];
    server a_broken_connection_in_a_handler_spends_no_attempt [];
    server a_handler_that_breaks_every_connection_is_given_up [];
    server a_deadlock_that_a_handler_overlooks_leaves_no_half [];
    server a_server_that_is_away_spends_no_attempt [];
    server a_lease_that_ran_out_in_an_outage_is_no_crash [];
    server a_server_that_never_answers_is_given_up ["API-9.2"];
    server slow_handlers_leave_connections_to_their_worker ["OBX-082", "IBX-104"];
}

/// What the handlers of a case share.
struct Shared {
    effects: Effects,
    /// A table with two rows to lock.
    locks: String,
    calls: AtomicU32,
    /// Both of a pair hold their first row.
    met: Barrier,
}

async fn shared<B: ByWire>(stage: &Stage<B>) -> anyhow::Result<Arc<Shared>> {
    let locks = stage.table("locks");
    let mut client = stage.client().await?;
    client.say(&format!("CREATE TABLE {locks} (id INT PRIMARY KEY, n INT NOT NULL)")).await?;
    client.say(&format!("INSERT INTO {locks} VALUES (1, 0), (2, 0)")).await?;
    let effects = stage.create_effects().await?;
    Ok(Arc::new(Shared { effects, locks, calls: AtomicU32::new(0), met: Barrier::new(2) }))
}

fn of<B: ByWire>(ctx: &Ctx<B>) -> HandlerResult<Arc<Shared>> {
    Ok((*ctx.state::<Arc<Shared>>()?).clone())
}

/// Runs a handler on messages with these payloads until none is ready.
async fn run<B: ByWire>(stage: &Stage<B>, handlers: Handlers<B>, payloads: &[&str]) -> anyhow::Result<Vec<i64>> {
    let side = stage.side(Queue::Inbox);
    let mut rows = Vec::new();
    for payload in payloads {
        rows.push(side.put(&Draft::new("a").payload(*payload).max_attempts(2)).await?);
    }
    let worker = Running::start(stage.worker(side.queue, handlers));
    eventually("nothing is in line", || async move {
        stage.skip_pause(side.queue).await?;
        let stats = side.verbs().stats().await?;
        Ok(stats.ready + stats.leased == 0)
    })
    .await?;
    worker.stop().await?;
    Ok(rows)
}

/// Two handlers take two locks, in opposite order.
async fn cross<B: ByWire>(ctx: &mut Ctx<B>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let shared = of(ctx)?;
    let order = if message.payload == "there" { [1, 2] } else { [2, 1] };
    let take = |row: i32| format!("UPDATE {} SET n = n + 1 WHERE id = {row}", shared.locks);
    shared.effects.note(ctx).await?;
    say(ctx, &take(order[0])).await?;
    if shared.calls.fetch_add(1, Ordering::SeqCst) < 2 {
        shared.met.wait().await;
    }
    say(ctx, &take(order[1])).await?;
    Ok(None)
}

async fn a_deadlock_in_a_handler_spends_no_attempt<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let shared = shared(stage).await?;
    let handlers = Handlers::new().state(shared.clone()).on_topic("a", cross::<B>);
    for row in run(stage, handlers, &["there", "back"]).await? {
        let record = stage.side(Queue::Inbox).record(row).await?;
        assert_eq!((record.state(), record.attempts()), (State::Done, 0), "{:?}", record.last_error());
    }
    // The one that runs again may be the first to get the lock that the other waits for.
    assert!(shared.calls.load(Ordering::SeqCst) >= 3, "neither of them ran again");
    assert_eq!(stage.effects().await?.len(), 2);
    let counted = format!("SELECT n FROM {} ORDER BY id", shared.locks);
    assert_eq!(stage.client().await?.ask(&counted).await?, [["2"], ["2"]]);
    Ok(())
}

/// Its connection ends under it, the first time or every time.
async fn cut<B: ByWire>(ctx: &mut Ctx<B>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let shared = of(ctx)?;
    shared.effects.note(ctx).await?;
    if shared.calls.fetch_add(1, Ordering::SeqCst) == 0 || message.payload == "always" {
        B::end(ctx).await?;
        // A server may answer before it ends the connection.
        shared.effects.note(ctx).await?;
        return Err(HandlerError::terminal("the connection lives"));
    }
    Ok(None)
}

async fn a_broken_connection_in_a_handler_spends_no_attempt<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let shared = shared(stage).await?;
    let handlers = Handlers::new().state(shared.clone()).on_topic("a", cut::<B>);
    let row = run(stage, handlers, &["once"]).await?[0];
    let record = stage.side(Queue::Inbox).record(row).await?;
    assert_eq!((record.state(), record.attempts()), (State::Done, 0), "{:?}", record.last_error());
    assert_eq!((shared.calls.load(Ordering::SeqCst), stage.effects().await?.len()), (2, 1));
    Ok(())
}

/// A message that breaks connections must not do so for ever.
async fn a_handler_that_breaks_every_connection_is_given_up<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let shared = shared(stage).await?;
    let handlers = Handlers::new().state(shared.clone()).on_topic("a", cut::<B>);
    let row = run(stage, handlers, &["always"]).await?[0];
    let record = stage.side(Queue::Inbox).record(row).await?;
    assert_eq!((record.state(), record.attempts()), (State::Dead, 2), "{:?}", record.last_error());
    assert!(stage.effects().await?.is_empty());
    Ok(())
}

/// As [`cross`], but it does not look at the answer.
async fn overlook<B: ByWire>(ctx: &mut Ctx<B>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let shared = of(ctx)?;
    drop(cross(ctx, message).await);
    let _ = shared.effects.note(ctx).await;
    Ok(None)
}

/// On MySQL a deadlock rolls everything back, and what follows would be a separate transaction.
async fn a_deadlock_that_a_handler_overlooks_leaves_no_half<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let shared = shared(stage).await?;
    let handlers = Handlers::new().state(shared.clone()).on_topic("a", overlook::<B>);
    for row in run(stage, handlers, &["there", "back"]).await? {
        assert_eq!(stage.side(Queue::Inbox).state(row).await?, State::Done);
    }
    assert_eq!(stage.effects().await?.len(), 4, "each notes two effects, and they stand together");
    Ok(())
}

async fn effect<B: ByWire>(ctx: &mut Ctx<B>, _: Arc<Message>) -> HandlerResult<Option<String>> {
    let shared = of(ctx)?;
    shared.calls.fetch_add(1, Ordering::SeqCst);
    if shared.calls.load(Ordering::SeqCst) == 1 {
        shared.met.wait().await;
        shared.met.wait().await;
    }
    shared.effects.note(ctx).await?;
    Ok(None)
}

async fn a_server_that_is_away_spends_no_attempt<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let shared = shared(stage).await?;
    let (proxy, store) = stage.behind_proxy().await?;
    let side = stage.side(Queue::Inbox);
    let row = side.put(&Draft::new("a").max_attempts(1)).await?;
    let handlers = Handlers::new().state(shared.clone()).on_topic("a", effect::<B>);
    let options = WorkerOptions::default().poll(Duration::from_millis(5));
    let worker = Running::start(Worker::<B>::inbox(store, handlers).options(options));
    shared.met.wait().await;
    proxy.refuse()?;
    proxy.cut_all();
    shared.met.wait().await;
    let called = || async { Ok(shared.calls.load(Ordering::SeqCst) == 1) };
    eventually("it was called", called).await?;
    proxy.admit()?;
    eventually("it is done", || async move {
        stage.skip_pause(side.queue).await?;
        Ok(!matches!(side.state(row).await?, State::Ready | State::Leased))
    })
    .await?;
    worker.stop().await?;
    let record = side.record(row).await?;
    assert_eq!((record.state(), record.attempts()), (State::Done, 0), "{:?}", record.last_error());
    assert_eq!(stage.effects().await?.len(), 1);
    Ok(())
}

/// As behind a broken network: connections stay open, and nothing comes.
async fn a_server_that_never_answers_is_given_up<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let proxy = Proxy::start(&servers::url(B::VARIABLE))?;
    let outbox = Outbox::new(B::open_impatient(&stage.place, proxy.url(), B::PATIENCE).await?);
    outbox.enqueue(NewMessage::new("a", "before")).await?;
    proxy.stall();
    for _ in 0..3 {
        let silence = soon("it is given up", outbox.enqueue(NewMessage::new("a", "meanwhile"))).await?;
        refused(silence, ErrorKind::Unavailable, "a server that does not answer")?;
    }
    proxy.cut_all();
    proxy.resume();
    outbox.enqueue(NewMessage::new("a", "after")).await?;
    // A statement that was on its way when the connection fell silent may have reached the server.
    let rows = stage.side(Queue::Outbox).rows().await?;
    assert!((2..=5).contains(&rows), "{rows} rows");
    Ok(())
}

/// Has a connection, and keeps it until the case lets it go on.
async fn keep<B: ByWire>(ctx: &mut Ctx<B>, _: Arc<Message>) -> HandlerResult<Option<String>> {
    let shared = of(ctx)?;
    shared.effects.note(ctx).await?;
    shared.calls.fetch_add(1, Ordering::SeqCst);
    ctx.state::<CancellationToken>()?.cancelled().await;
    Ok(None)
}

/// By default there are as many handlers at once as connections; leases must be renewed all the same.
async fn slow_handlers_leave_connections_to_their_worker<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (shared, go) = (shared(stage).await?, CancellationToken::new());
    let side = stage.side(Queue::Inbox);
    side.add_many("a", 16).await?;
    let handlers = Handlers::new().state(shared.clone()).state(go.clone()).on_topic("a", keep::<B>);
    let worker = Running::start(stage.worker(side.queue, handlers));
    let most_are_held = || async { Ok(shared.calls.load(Ordering::SeqCst) >= 14) };
    eventually("most connections are held", most_are_held).await?;
    let verbs = side.verbs();
    let claims = soon("a verb gets a connection", verbs.claim(postroom::message::OwnerToken::new(), LEASE, 1)).await?;
    assert!(claims?.claimed.is_empty());
    go.cancel();
    eventually("all are done", || async move { Ok(side.verbs().stats().await?.done == 16) }).await?;
    worker.stop().await?;
    assert_eq!(stage.effects().await?.len(), 16);
    Ok(())
}

/// Nobody could renew it. Otherwise a few restarts of the database would make a message dead.
async fn a_lease_that_ran_out_in_an_outage_is_no_crash<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (proxy, store) = stage.behind_proxy().await?;
    let outbox = Outbox::new(store);
    let side = stage.side(Queue::Outbox);
    side.add("a").await?;
    for (is_away, crashes) in [(true, 0), (false, 1), (true, 1)] {
        side.claim_one().await?;
        if is_away {
            proxy.cut_all();
            // Answered by another connection, or broken off in the middle: either way the cut was noticed.
            drop(outbox.queue().stats().await);
        }
        stage.clock.advance(LEASE);
        assert_eq!(outbox.queue().reap(10).await?.freed, 1);
        stage.clock.advance(Duration::from_secs(60));
        let lease = side.claim_one().await?;
        assert_eq!(lease.crashes(), crashes, "away: {is_away}");
        side.release(lease).await?;
    }
    Ok(())
}

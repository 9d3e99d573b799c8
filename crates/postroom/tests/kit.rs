//! The test kit, as a program that uses the library sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use postroom::sqlite::{BlockingCtx, Sqlite};
use postroom::store::Memory;
use postroom::testing::{CrashPoint, Twice, Workbench, assert_enqueued, assert_not_enqueued, enqueued, handle_twice};
use postroom::{Ctx, Event, HandlerError, HandlerResult, Handlers, InboxKey, Incoming, Payload, Signal};
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, Event)]
#[event("order.placed")]
struct Placed {
    order: u32,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, Signal)]
#[signal("invoice.due")]
struct InvoiceDue {
    order: u32,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, Event)]
#[event("order.reminded")]
struct Reminded {
    order: u32,
}

/// Calls of a service that no transaction undoes.
#[derive(Clone, Default)]
struct Calls(Arc<AtomicU32>);

async fn invoice(ctx: &mut Ctx<Memory>, placed: Placed) -> HandlerResult<()> {
    ctx.state::<Calls>()?.0.fetch_add(1, SeqCst);
    ctx.enqueue(InvoiceDue { order: placed.order }.outgoing().to("billing").message()?).await?;
    postroom::crash_here("after the invoice");
    Ok(())
}

fn store(ctx: &mut BlockingCtx<'_>, placed: Placed) -> HandlerResult<()> {
    ctx.tx().execute("INSERT INTO orders VALUES (?1)", [placed.order])?;
    postroom::crash_here("after the insert");
    Ok(())
}

async fn store_async(ctx: &mut Ctx<Sqlite>, placed: Placed) -> HandlerResult<()> {
    ctx.state::<Calls>()?.0.fetch_add(1, SeqCst);
    ctx.tx().await?.run(move |conn| conn.execute("INSERT INTO orders VALUES (?1)", [placed.order])).await?;
    Ok(())
}

async fn with_orders() -> postroom::Result<Workbench<Sqlite>> {
    let bench = Workbench::sqlite().await?;
    bench.store().write(|tx| Ok(tx.execute_batch("CREATE TABLE orders (id INTEGER)")?)).await?;
    Ok(bench)
}

async fn orders(bench: &Workbench<Sqlite>) -> postroom::Result<i64> {
    let count = |conn: &rusqlite::Connection| Ok(conn.query_row("SELECT count(*) FROM orders", [], |row| row.get(0))?);
    bench.store().read(count).await
}

#[tokio::test]
async fn retries_and_due_times_are_reached_without_waiting() {
    async fn third_time(ctx: &mut Ctx<Memory>, _: Placed) -> HandlerResult<()> {
        if ctx.attempt() < 3 { Err(HandlerError::retry("not yet")) } else { Ok(()) }
    }
    let bench = Workbench::memory();
    let began = bench.clock().now();
    bench.outbox().enqueue(Placed { order: 1 }.outgoing().due_after(Duration::from_secs(3600))).await.unwrap();
    let drained = bench.drain(Handlers::new().on(third_time)).await.unwrap();
    assert_eq!((drained.handled(), drained.sent().len(), drained.dead().len()), (1, 0, 0));
    assert!(bench.clock().now().since(began) > Duration::from_secs(3600));
}

#[tokio::test]
async fn what_was_handled_stays_however_far_the_clock_is_moved() {
    let bench = Workbench::memory();
    let handlers = || Handlers::new().on(invoice).state(Calls::default());
    for (order, handled) in [(1, 1), (2, 1)] {
        bench.outbox().enqueue(Placed { order }.outgoing()).await.unwrap();
        assert_eq!(bench.drain(handlers()).await.unwrap().handled(), handled);
        bench.clock().advance(Duration::from_secs(400 * 24 * 3600));
    }
    assert_enqueued(bench.outbox(), &Placed { order: 1 }).await;
}

#[tokio::test]
async fn an_effect_under_the_messages_own_id_is_single() {
    #[derive(Clone, Default)]
    struct Ids(Arc<std::sync::Mutex<std::collections::BTreeSet<String>>>);
    async fn once_per_id(ctx: &mut Ctx<Memory>, _: Placed) -> HandlerResult<()> {
        ctx.state::<Ids>()?.0.lock().expect("nobody panics").insert(ctx.message().id());
        Ok(())
    }
    let world = async || {
        let (bench, ids) = (Workbench::memory(), Ids::default());
        // Something else is in line before it.
        bench.outbox().enqueue(InvoiceDue { order: 1 }.outgoing().to("billing")).await?;
        Ok((bench, Handlers::new().on(once_per_id).state(ids.clone()), ids))
    };
    let observe = async |_: &Workbench<Memory>, ids: &Ids| Ok(ids.0.lock().expect("nobody panics").clone());
    let twice = handle_twice(&Placed { order: 1 }, world, observe).await.unwrap();
    twice.assert_single();
    assert_eq!(twice.once.len(), 1);
}

#[tokio::test]
async fn what_goes_to_services_is_noted_and_what_arrived_is_handled() {
    let (bench, calls) = (Workbench::memory(), Calls::default());
    let arrived = Incoming::new(InboxKey::new("shop", "1").unwrap(), Placed::TOPIC, r#"{"order":7}"#);
    bench.inbox().enqueue(arrived).await.unwrap();
    let drained = bench.drain(Handlers::new().on(invoice).state(calls.clone())).await.unwrap();
    assert_eq!((drained.handled(), drained.sent_to("billing").len(), calls.0.load(SeqCst)), (1, 1, 1));
    assert_eq!(drained.payloads::<InvoiceDue>().unwrap(), [InvoiceDue { order: 7 }]);
    assert_eq!(assert_enqueued(bench.outbox(), &InvoiceDue { order: 7 }).await.destination(), Some("billing"));
    assert_eq!(enqueued::<InvoiceDue>(bench.outbox()).await.unwrap().len(), 1);
    assert_not_enqueued::<Placed>(bench.outbox()).await;
}

#[tokio::test]
async fn a_payload_that_is_no_json_is_refused_by_its_place_and_not_stored() {
    #[derive(Serialize, Deserialize, Event)]
    #[event("keyed")]
    struct Keyed {
        inner: std::collections::HashMap<Vec<u8>, u8>,
    }
    let bench = Workbench::memory();
    let keyed = Keyed { inner: [(vec![1], 2)].into() };
    let refused = bench.outbox().enqueue(keyed.outgoing().correlation_id("a")).await.unwrap_err();
    assert_eq!(refused.to_string(), "the payload for keyed is not JSON at `inner`: key must be a string");
    assert_not_enqueued::<Keyed>(bench.outbox()).await;
}

#[tokio::test]
async fn a_message_that_is_given_up_is_listed() {
    async fn never(_: &mut Ctx<Memory>, _: Placed) -> HandlerResult<()> {
        Err(HandlerError::terminal("sold out"))
    }
    let bench = Workbench::memory();
    bench.outbox().enqueue(Placed { order: 1 }.outgoing()).await.unwrap();
    let drained = bench.drain(Handlers::new().on(never)).await.unwrap();
    assert_eq!(drained.dead().first().and_then(|row| row.last_error()), Some("sold out"));
}

#[tokio::test]
async fn a_message_without_a_handler_stays_in_line() {
    let (bench, calls) = (Workbench::memory(), Calls::default());
    let due = Reminded { order: 1 }.outgoing().due_after(Duration::from_secs(3600));
    bench.outbox().enqueue(due).await.unwrap();
    bench.outbox().enqueue(Placed { order: 1 }.outgoing()).await.unwrap();
    let arrived = Incoming::new(InboxKey::new("shop", "1").unwrap(), Reminded::TOPIC, r#"{"order":7}"#);
    bench.inbox().enqueue(arrived).await.unwrap();
    let drained = bench.drain(Handlers::new().on(invoice).state(calls)).await.unwrap();
    assert_eq!((drained.handled(), drained.sent().len(), drained.dead().len()), (1, 1, 0));
    let left: Vec<_> =
        drained.unhandled().iter().map(|row| (row.attempts(), row.claim_no(), row.last_error())).collect();
    assert_eq!(left, [(0, 0, None); 2]);
    assert_eq!(bench.outbox().queue().stats().await.unwrap().ready, 1);
}

#[tokio::test]
#[should_panic(expected = "no handler for order.placed")]
async fn who_wants_all_of_them_handled_asks_for_it() {
    let bench = Workbench::memory();
    bench.outbox().enqueue(Placed { order: 1 }.outgoing()).await.unwrap();
    bench.drain(Handlers::new()).await.unwrap().assert_all_handled();
}

#[tokio::test]
async fn a_handler_with_a_follow_up_is_called_twice_without_a_handler_for_that() {
    async fn remind(ctx: &mut Ctx<Memory>, placed: Placed) -> HandlerResult<()> {
        ctx.enqueue(&Reminded { order: placed.order }).await?;
        Ok(())
    }
    let world = async || Ok((Workbench::memory(), Handlers::new().on(remind), ()));
    let observe = async |bench: &Workbench<Memory>, (): &()| Ok(enqueued::<Reminded>(bench.outbox()).await?.len());
    let twice = handle_twice(&Placed { order: 1 }, world, observe).await.unwrap();
    twice.assert_single();
    assert_eq!(twice.once, 1);
}

#[tokio::test]
#[should_panic(
    expected = "order.placed {\"order\":2} is not in the outbox, which contains\n  order.placed {\"order\":1}"
)]
async fn a_failed_check_lists_what_is_there() {
    let bench = Workbench::memory();
    bench.outbox().enqueue(Placed { order: 1 }.outgoing()).await.unwrap();
    assert_enqueued(bench.outbox(), &Placed { order: 2 }).await;
}

#[tokio::test]
#[should_panic(expected = "order.placed was not expected in the outbox")]
async fn a_failed_check_for_nothing_lists_what_is_there() {
    let bench = Workbench::memory();
    bench.outbox().enqueue(Placed { order: 1 }.outgoing()).await.unwrap();
    assert_not_enqueued::<Placed>(bench.outbox()).await;
}

#[tokio::test]
async fn a_crash_undoes_the_transaction_and_the_message_is_handled_again() {
    let (bench, calls) = (Workbench::memory(), Calls::default());
    let crash = CrashPoint::arm("after the invoice");
    bench.outbox().enqueue(Placed { order: 1 }.outgoing()).await.unwrap();
    let drained = bench.drain(Handlers::new().on(invoice).state(calls.clone())).await.unwrap();
    assert!(crash.was_reached());
    assert_eq!((drained.sent().len(), calls.0.load(SeqCst)), (1, 2));
}

#[tokio::test]
async fn a_crash_on_the_writer_thread_undoes_only_its_own_transaction() {
    let bench = with_orders().await.unwrap();
    let crash = CrashPoint::arm("after the insert");
    for order in 1..=3 {
        bench.outbox().enqueue(Placed { order }.outgoing()).await.unwrap();
    }
    let drained = bench.drain(Handlers::new().on_blocking(store)).await.unwrap();
    assert!(crash.was_reached());
    assert_eq!((drained.handled(), orders(&bench).await.unwrap()), (3, 3));
}

#[tokio::test]
async fn effects_in_the_transaction_do_not_double() {
    let world = async || Ok((with_orders().await?, Handlers::new().on_blocking(store), ()));
    let twice = handle_twice(&Placed { order: 1 }, world, async |bench, ()| orders(bench).await).await.unwrap();
    twice.assert_single();
    assert_eq!(twice.once, 1);
}

async fn stored_and_called() -> postroom::Result<Twice<(i64, u32)>> {
    let world = async || {
        let calls = Calls::default();
        Ok((with_orders().await?, Handlers::new().on(store_async).state(calls.clone()), calls))
    };
    let observe = async |bench: &Workbench<Sqlite>, calls: &Calls| Ok((orders(bench).await?, calls.0.load(SeqCst)));
    handle_twice(&Placed { order: 1 }, world, observe).await
}

#[tokio::test]
async fn effects_elsewhere_double_and_the_checker_says_so() {
    let twice = stored_and_called().await.unwrap();
    assert!(twice.doubled());
    assert_eq!((twice.once, twice.twice), ((1, 1), (1, 2)));
}

#[tokio::test]
#[should_panic(expected = "the handler's effects double when a message comes twice: (1, 1) after one run, (1, 2)")]
async fn what_doubled_is_told() {
    stored_and_called().await.unwrap().assert_single();
}

#[tokio::test]
async fn the_folder_goes_with_the_bench() {
    let bench = with_orders().await.unwrap();
    let path = bench.store().path().to_owned();
    assert!(path.exists());
    drop(bench);
    assert!(!path.exists());
}

/// Runs itself as another process, which ends at the named place without a word.
#[cfg(unix)]
#[test]
fn a_process_can_be_aborted_at_a_named_place() {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    const PLACE: &str = "in another process";
    if std::env::var_os("POSTROOM_CRASH_AT").is_some() {
        postroom::crash_here("somewhere else");
        postroom::crash_here(PLACE);
        return;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "a_process_can_be_aborted_at_a_named_place"]).env("POSTROOM_CRASH_AT", PLACE);
    let ended = again.output().unwrap().status;
    assert_eq!(ended.signal(), Some(6), "{ended}");
}

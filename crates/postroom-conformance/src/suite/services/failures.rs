//! The table of failures in section 8 of the document, row by row, between two services on SQLite. That of a corrupt
//! file is elsewhere, and so are those with processes that are killed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postroom::NewMessage;
use postroom::operator::Filter;
use postroom::queue::{Queue, State};
use postroom::services::ReceiverOptions;
use postroom::sqlite::Sqlite;
use postroom_testbed::Fault;

use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Stage, eventually};
use crate::lines::{Http, Wired};
use crate::pair;
use crate::script::{Gate, Running, Script};
use crate::services::TOPIC;

cases! { failures:
    sqlite a_sender_that_crashes_before_its_outbox_write_has_done_nothing ["SQM-8.1"];
    sqlite a_sender_that_crashes_before_it_sends_does_so_after_a_restart ["SQM-1.1", "SQM-8.2"];
    sqlite a_network_failure_during_a_send_is_tried_again ["SQM-3.3.3", "SQM-8.3"];
    sqlite a_receiver_that_crashes_before_it_processes_does_so_on_the_next_attempt ["SQM-8.4"];
    sqlite a_receiver_that_crashes_before_its_inbox_write_processes_again_for_the_first_effective_time [
        "SQM-4.3.1", "SQM-8.5"];
    sqlite an_ack_that_is_lost_is_answered_from_the_inbox_without_processing_again [
        "SQM-3.3.2", "SQM-4.3.3", "SQM-8.6"];
    sqlite a_sender_that_timed_out_gets_the_cached_answer ["SQM-8.7"];
    sqlite a_message_that_expires_before_delivery_is_told_to_a_dead_letter_handler ["SQM-8.8"];
    sqlite a_sender_and_a_receiver_that_crash_together_deliver_after_both_restart ["SQM-1.1", "SQM-8.9"];
}

fn order() -> NewMessage {
    NewMessage::new(TOPIC, "{\"order\":7}").to("inventory")
}

/// Answers 7, however often it is called.
fn seven() -> Script {
    Script::new(|_| async { Ok(Some("7".into())) })
}

/// Checks a message after this many attempts: how often it was handled, with one effect, and its answer.
async fn delivered(wired: &Wired<'_, Http>, script: &Script, attempts: u32, runs: usize) -> Verdict {
    wired.until("it is delivered", |stats| stats.done == 1).await?;
    let row = wired.orders.side(Queue::Outbox).record(1).await?;
    assert_eq!((row.attempts(), row.response()), (attempts, Some("7")));
    assert_eq!((script.count(), wired.inventory.effects_of_messages().await?.len()), (runs, 1));
    assert_eq!(wired.inventory.side(Queue::Inbox).rows().await?, 1);
    Ok(())
}

async fn a_sender_that_crashes_before_its_outbox_write_has_done_nothing(stage: &Stage<Sqlite>) -> Verdict {
    stage.store.write(|tx| Ok(tx.execute_batch("CREATE TABLE orders (id INTEGER)")?)).await?;
    let crashed = stage.store.write(|tx| {
        tx.execute("INSERT INTO orders VALUES (7)", [])?;
        tx.enqueue(order())?;
        Err::<(), _>(postroom::Error::callback(std::io::Error::other("crashed")))
    });
    assert!(crashed.await.is_err());
    let orders = stage.store.read(|conn| Ok(conn.query_row("SELECT count(*) FROM orders", [], |row| row.get(0))?));
    assert_eq!((orders.await?, stage.side(Queue::Outbox).rows().await?), (0, 0));
    Ok(())
}

async fn a_sender_that_crashes_before_it_sends_does_so_after_a_restart(stage: &Stage<Sqlite>) -> Verdict {
    let (mut wired, script) = (Wired::<Http>::new(stage).await?, seven());
    wired.receive(&script, ReceiverOptions::default()).await?;
    stage.outbox.enqueue(order()).await?;
    let _died_with_its_worker = stage.side(Queue::Outbox).claim_one().await?;
    stage.clock.advance(LEASE);
    let (_, worker) = wired.send(|service| service)?;
    delivered(&wired, &script, 0, 1).await?;
    wired.end(worker).await
}

async fn a_network_failure_during_a_send_is_tried_again(stage: &Stage<Sqlite>) -> Verdict {
    let (mut wired, script) = (Wired::<Http>::new(stage).await?, seven());
    wired.receive(&script, ReceiverOptions::default()).await?;
    let (proxy, worker) = wired.send_through_proxy(Duration::from_secs(10))?;
    proxy.next(Fault::DropRequest, 1);
    stage.outbox.enqueue(order()).await?;
    let side = stage.side(Queue::Outbox);
    eventually("the attempt fails", || async move { Ok(side.record(1).await?.last_error().is_some()) }).await?;
    let row = side.record(1).await?;
    assert!(row.state() == State::Ready && row.next_attempt_at() > Some(stage.now()), "a retry is scheduled");
    delivered(&wired, &script, 0, 1).await?;
    wired.end(worker).await
}

async fn a_receiver_that_crashes_before_it_processes_does_so_on_the_next_attempt(stage: &Stage<Sqlite>) -> Verdict {
    let (mut wired, script) = (Wired::<Http>::new(stage).await?, seven());
    wired.receive(&script, ReceiverOptions::default()).await?;
    let (proxy, worker) = wired.send_through_proxy(Duration::from_millis(100))?;
    proxy.next(Fault::HalfOpen, 1);
    stage.outbox.enqueue(order()).await?;
    let side = stage.side(Queue::Outbox);
    eventually("nobody answers", || async move { Ok(side.record(1).await?.last_error().is_some()) }).await?;
    wired.office.close().await?;
    wired.receive(&script, ReceiverOptions::default()).await?;
    wired.until("it is delivered", |stats| stats.done == 1).await?;
    assert_eq!((script.count(), wired.inventory.effects_of_messages().await?.len()), (1, 1));
    wired.end(worker).await
}

async fn a_receiver_that_crashes_before_its_inbox_write_processes_again_for_the_first_effective_time(
    stage: &Stage<Sqlite>,
) -> Verdict {
    let mut wired = Wired::<Http>::new(stage).await?;
    let is_first = AtomicBool::new(true);
    let script = Script::new(move |_| {
        let crashes = is_first.swap(false, Ordering::SeqCst);
        async move { if crashes { std::panic::panic_any("crashed") } else { Ok(Some("7".into())) } }
    });
    wired.receive(&script, ReceiverOptions::default()).await?;
    let (_, worker) = wired.send(|service| service)?;
    stage.outbox.enqueue(order()).await?;
    delivered(&wired, &script, 1, 2).await?;
    wired.end(worker).await
}

async fn an_ack_that_is_lost_is_answered_from_the_inbox_without_processing_again(stage: &Stage<Sqlite>) -> Verdict {
    let (mut wired, script) = (Wired::<Http>::new(stage).await?, seven());
    wired.receive(&script, ReceiverOptions::default()).await?;
    let (proxy, worker) = wired.send_through_proxy(Duration::from_secs(10))?;
    for fault in [Fault::DropResponse, Fault::Truncate, Fault::Reset] {
        proxy.next(fault, 1);
    }
    stage.outbox.enqueue(order()).await?;
    delivered(&wired, &script, 0, 1).await?;
    wired.end(worker).await
}

async fn a_sender_that_timed_out_gets_the_cached_answer(stage: &Stage<Sqlite>) -> Verdict {
    let mut wired = Wired::<Http>::new(stage).await?;
    let Gate { script, begun: _begun, open } = Gate::shut();
    wired.receive(&script, ReceiverOptions::default()).await?;
    let (_, worker) = wired.send(|service| service.timeout(Duration::from_millis(100)))?;
    stage.outbox.enqueue(order()).await?;
    let side = stage.side(Queue::Outbox);
    eventually("the sender times out", || async move { Ok(side.record(1).await?.last_error().is_some()) }).await?;
    open.add_permits(1);
    delivered(&wired, &script, 0, 1).await?;
    wired.end(worker).await
}

async fn a_message_that_expires_before_delivery_is_told_to_a_dead_letter_handler(stage: &Stage<Sqlite>) -> Verdict {
    let (wired, script) = (Wired::<Http>::new(stage).await?, Script::succeed());
    let store = stage.place.sqlite_options().dead_letters("news").open().await?;
    let outbox = postroom::Outbox::new(store.clone());
    let message = order().expires_after(Duration::from_secs(5));
    let id = message.message_id().to_string();
    outbox.enqueue(message).await?;
    stage.clock.advance(Duration::from_secs(5));
    let courier = pair::courier(stage, wired.office.service("inventory")?)?;
    let worker = postroom::Worker::<Sqlite>::outbox(store, script.handlers::<Sqlite>()).transport(courier);
    let worker = Running::start(worker);
    eventually("it is told", || async { Ok(script.count() == 1) }).await?;
    worker.stop().await?;
    assert_eq!(outbox.queue().list(Filter::all().state(State::Expired)).await?.len(), 1);
    let news = script.calls().remove(0);
    assert!(news.topic == "news" && news.payload.contains(&id), "{}", news.payload);
    wired.inventory.close().await;
    Ok(())
}

async fn a_sender_and_a_receiver_that_crash_together_deliver_after_both_restart(stage: &Stage<Sqlite>) -> Verdict {
    let (mut wired, script) = (Wired::<Http>::new(stage).await?, seven());
    stage.outbox.enqueue(order()).await?;
    let _died_with_its_worker = stage.side(Queue::Outbox).claim_one().await?;
    assert_eq!((stage.side(Queue::Outbox).rows().await?, wired.inventory.side(Queue::Inbox).rows().await?), (1, 0));
    stage.clock.advance(LEASE);
    let (_, worker) = wired.send(|service| service)?;
    let side = stage.side(Queue::Outbox);
    eventually("the sender is back", || async move {
        stage.skip_pause(Queue::Outbox).await?;
        Ok(side.record(1).await?.claim_no() > 1 && side.state(1).await? == State::Ready)
    })
    .await?;
    wired.receive(&script, ReceiverOptions::default()).await?;
    wired.until("it is delivered", |stats| stats.done == 1).await?;
    assert_eq!((script.count(), wired.inventory.effects_of_messages().await?.len()), (1, 1));
    wired.end(worker).await
}

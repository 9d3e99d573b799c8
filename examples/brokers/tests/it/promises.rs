//! What both recipes promise.

use std::time::Duration;

use anyhow::ensure;
use libtest_mimic::Trial;
use postroom::NewMessage;
use tokio::sync::oneshot;

use crate::rig::{Raw, Rig};
use crate::shop::{Shop, next};
use crate::trial;

pub(crate) fn trials<R: Rig>() -> Vec<Trial> {
    vec![
        trial("from_the_outbox_to_the_inbox", from_the_outbox_to_the_inbox::<R>),
        trial("a_message_sent_twice_is_handled_once", a_message_sent_twice_is_handled_once::<R>),
        trial("a_consumer_that_dies_before_its_ack_doubles_nothing", a_consumer_that_dies::<R>),
        trial("poison_is_put_aside", poison_is_put_aside::<R>),
        trial("while_the_database_is_away_messages_wait_in_the_broker", the_database_is_away::<R>),
    ]
}

async fn from_the_outbox_to_the_inbox<R: Rig>(rig: R) -> anyhow::Result<()> {
    let (sender, receiver) = (Shop::open().await?, Shop::open().await?);
    let message = |n: u32| {
        let message = NewMessage::new("order.placed", format!(r#"{{"order":{n}}}"#)).to(rig.destination());
        message.header("tenant", "blue").correlation_id("basket-7")
    };
    sender.outbox.enqueue_many((0..50).map(message)).await?;
    let (sending, _deliveries) = sender.outbox_worker(rig.transport());
    let (handling, mut handled) = receiver.inbox_worker();
    let ((stop_sending, stopped), (stop_taking, taken), (stop_handling, done)) =
        (oneshot::channel::<()>(), oneshot::channel::<()>(), oneshot::channel::<()>());
    let watching = async {
        for _ in 0..50 {
            let message = next(&mut handled).await?;
            ensure!(message.headers.get("tenant").is_some_and(|tenant| tenant == "blue"), "a header was lost");
            ensure!(message.headers.len() == 1, "the broker's own headers came along");
            ensure!(message.correlation_id.as_deref() == Some("basket-7"), "the correlation id was lost");
        }
        drop((stop_sending, stop_taking, stop_handling));
        Ok(())
    };
    let (sent, (), worked, watched) = tokio::join!(
        sending.run(async { drop(stopped.await) }),
        rig.take_all(&receiver.inbox, async { drop(taken.await) }),
        handling.run(async { drop(done.await) }),
        watching,
    );
    sent?;
    worked?;
    watched?;
    ensure!(sender.outbox.queue().stats().await?.done == 50, "the outbox is not through");
    ensure!(receiver.placed().await?.len() == 50, "not every effect is there once");
    ensure!(rig.left().await? == 0, "the broker has something left");
    Ok(())
}

async fn a_message_sent_twice_is_handled_once<R: Rig>(rig: R) -> anyhow::Result<()> {
    for id in ["1", "2", "1"] {
        rig.put(Raw { id: Some(id), payload: b"{}" }).await?;
    }
    rig.put(Raw { id: Some("last"), payload: b"{}" }).await?;
    let shop = Shop::open().await?;
    take_until_last(&rig, &shop).await?;
    ensure!(shop.placed().await? == ["1", "2", "last"], "{:?}", shop.placed().await?);
    ensure!(rig.left().await? == 0, "the broker has something left");
    Ok(())
}

async fn a_consumer_that_dies<R: Rig>(rig: R) -> anyhow::Result<()> {
    let shop = Shop::open().await?;
    rig.put(Raw { id: Some("1"), payload: b"{}" }).await?;
    rig.take_one_and_die(&shop.inbox).await?;
    until(async || Ok(rig.left().await? == 1)).await?;
    rig.put(Raw { id: Some("last"), payload: b"{}" }).await?;
    take_until_last(&rig, &shop).await?;
    ensure!(shop.placed().await? == ["1", "last"], "{:?}", shop.placed().await?);
    Ok(())
}

async fn poison_is_put_aside<R: Rig>(rig: R) -> anyhow::Result<()> {
    let too_large = vec![b'x'; 512 * 1024 + 1];
    rig.put(Raw { id: None, payload: b"{}" }).await?;
    rig.put(Raw { id: Some("not text"), payload: &[0xff, 0xfe] }).await?;
    rig.put(Raw { id: Some("not storable"), payload: b"\0" }).await?;
    rig.put(Raw { id: Some("too large"), payload: &too_large }).await?;
    rig.put(Raw { id: Some(&R::bad_id()), payload: b"{}" }).await?;
    rig.put(Raw { id: Some(&"x".repeat(255)), payload: b"{}" }).await?;
    rig.put(Raw { id: Some("last"), payload: b"{}" }).await?;
    let shop = Shop::open().await?;
    take_until_last(&rig, &shop).await?;
    ensure!(shop.placed().await? == ["last".to_owned(), "x".repeat(255)], "{:?}", shop.placed().await?);
    ensure!(rig.left().await? == 0, "the broker would bring poison again");
    Ok(())
}

async fn the_database_is_away<R: Rig>(rig: R) -> anyhow::Result<()> {
    let shop = Shop::open().await?;
    rusqlite::Connection::open(&shop.path)?.execute_batch("ALTER TABLE inbox_messages RENAME TO away")?;
    rig.put(Raw { id: Some("last"), payload: b"{}" }).await?;
    let (stop, stopped) = oneshot::channel::<()>();
    let taking = rig.take_all(&shop.inbox, async { drop(stopped.await) });
    let watching = async {
        until(async || rig.was_taken().await).await?;
        drop(stop);
        anyhow::Ok(())
    };
    let ((), seen) = tokio::join!(taking, watching);
    seen?;
    until(async || Ok(rig.left().await? == 1)).await?;
    rusqlite::Connection::open(&shop.path)?.execute_batch("ALTER TABLE away RENAME TO inbox_messages")?;
    take_until_last(&rig, &shop).await?;
    ensure!(shop.placed().await? == ["last"], "{:?}", shop.placed().await?);
    Ok(())
}

/// Looks again and again: brokers count with a delay.
async fn until(condition: impl AsyncFn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let mut look = tokio::time::interval(Duration::from_millis(20));
    while !condition().await? {
        look.tick().await;
    }
    Ok(())
}

/// Takes and handles what is there, until the message `last` is handled.
async fn take_until_last<R: Rig>(rig: &R, shop: &Shop) -> anyhow::Result<()> {
    let (handling, mut handled) = shop.inbox_worker();
    let ((stop_taking, taken), (stop_handling, done)) = (oneshot::channel::<()>(), oneshot::channel::<()>());
    let watching = async {
        while next(&mut handled).await?.id() != "last" {}
        drop((stop_taking, stop_handling));
        anyhow::Ok(())
    };
    let ((), worked, watched) = tokio::join!(
        rig.take_all(&shop.inbox, async { drop(taken.await) }),
        handling.run(async { drop(done.await) }),
        watching,
    );
    worked?;
    watched
}

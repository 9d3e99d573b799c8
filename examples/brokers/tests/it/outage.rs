//! A broker that is killed and comes back: what was sent meanwhile waits in the outbox.

use std::time::Duration;

use anyhow::ensure;
use libtest_mimic::Trial;
use postroom::NewMessage;
use postroom::worker::Delivery;
use postroom_testbed::Broker;
use tokio::sync::oneshot;

use crate::rig::Rig;
use crate::shop::{Shop, next};
use crate::trial_alone;

pub(crate) fn trials<R: Rig>() -> Vec<Trial> {
    vec![trial_alone(R::KIND, "nothing_is_lost_when_the_broker_is_killed", nothing_is_lost::<R>)]
}

async fn nothing_is_lost<R: Rig>() -> anyhow::Result<()> {
    let mut broker = Broker::start(R::KIND)?;
    let rig = R::set_up(&broker.url()).await?;
    let (sender, receiver) = (Shop::open().await?, Shop::open().await?);
    let (sending, mut deliveries) = sender.outbox_worker(rig.transport());
    let (handling, mut handled) = receiver.inbox_worker();
    let ((stop_sending, stopped), (stop_taking, taken), (stop_handling, done)) =
        (oneshot::channel::<()>(), oneshot::channel::<()>(), oneshot::channel::<()>());
    let outage = async {
        let enqueue = async |n: u32| {
            let message = NewMessage::new("order.placed", format!(r#"{{"order":{n}}}"#)).to(rig.destination());
            sender.outbox.enqueue(message).await
        };
        enqueue(0).await?;
        next(&mut handled).await?;
        broker.kill()?;
        for n in 1..10 {
            enqueue(n).await?;
        }
        while !matches!(next(&mut deliveries).await?, (_, Delivery::Failed { .. })) {}
        broker.restart()?;
        for _ in 1..10 {
            next(&mut handled).await?;
        }
        // What arrived may not be known to have arrived: then it is sent once more.
        let mut look = tokio::time::interval(Duration::from_millis(5));
        while sender.outbox.queue().stats().await?.done < 10 {
            look.tick().await;
        }
        drop((stop_sending, stop_taking, stop_handling));
        anyhow::Ok(())
    };
    let (sent, (), worked, outlived) = tokio::join!(
        sending.run(async { drop(stopped.await) }),
        rig.take_all(&receiver.inbox, async { drop(taken.await) }),
        handling.run(async { drop(done.await) }),
        outage,
    );
    sent?;
    worked?;
    outlived?;
    ensure!(receiver.placed().await?.len() == 10, "not every effect is there once");
    Ok(())
}

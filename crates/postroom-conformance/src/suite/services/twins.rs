//! The same message twice at the same time, more than can be handled, senders that give up, databases that break.

use std::time::Duration;

use anyhow::Context;
use futures_util::future::join_all;
use postroom::queue::{Queue, State};
use postroom::services::ReceiverOptions;
use postroom::store::Store;
use postroom_testbed::Proxy;
use tokio::task::JoinSet;

use crate::by_wire::ByWire;
use crate::case::{Verdict, cases};
use crate::harness::{Stage, Testable, eventually, soon};
use crate::on_server::OnServer;
use crate::peer::{Letter, Peer, Said};
use crate::script::{Gate, Script};
use crate::services::{Desk, Receives, TOPIC, asynchronous};

cases! { twins:
    worker a_twin_is_told_to_come_back_while_the_first_is_handled [];
    server a_twin_in_another_process_is_told_to_come_back [];
    server a_twin_in_another_process_holds_no_connection [];
    server the_same_id_in_other_tables_is_no_twin [];
    worker of_64_at_once_one_is_handled ["SQM-1.2"];
    server of_64_at_once_in_two_processes_one_is_handled ["SQM-1.2"];
    worker more_than_can_be_handled_are_told_to_come_back [];
    worker a_sender_that_gives_up_does_not_break_the_handler_off [];
    server while_the_database_is_away_nothing_is_taken_and_nothing_lost [];
    server a_commit_that_was_carried_out_is_answered_as_such ["SQM-4.3.2"];
    server a_commit_that_was_not_carried_out_is_tried_again [];
}

/// A letter on its way.
struct Sending(JoinSet<anyhow::Result<Said>>);

impl Sending {
    fn start<B: Testable>(desk: &Desk<B>, letter: &Letter) -> Self {
        let (desk, letter, mut sending) = (desk.clone(), letter.clone(), JoinSet::new());
        sending.spawn(async move { desk.send(&letter).await });
        Self(sending)
    }

    async fn said(mut self) -> anyhow::Result<Said> {
        soon("it is answered", self.0.join_next()).await?.context("nothing was sent")??
    }
}

async fn a_twin_is_told_to_come_back_while_the_first_is_handled<B: Receives>(stage: &Stage<B>) -> Verdict {
    for way in B::WAYS {
        let mut gate = Gate::shut();
        let (desk, letter) = (stage.desk_playing(*way, &gate.script)?, Letter::new(TOPIC));
        let first = Sending::start(&desk, &letter);
        soon("the first is being handled", gate.begun.recv()).await?;
        let twin = desk.send(&letter).await?;
        assert_eq!((twin.status, twin.retry_after()), (409, Some(Duration::from_secs(1))));
        gate.open.add_permits(1);
        assert_eq!(first.said().await?.status, 200);
        assert_eq!((desk.send(&letter).await?.payload(), gate.script.count()), (7.into(), 1));
    }
    Ok(())
}

async fn elsewhere<B: Receives>(stage: &Stage<B>, script: &Script) -> anyhow::Result<Desk<B>> {
    let (store, peer) = (B::open_again(&stage.store, &stage.place).await?, Peer::new(stage.clock.clone()));
    Desk::open(store, peer, asynchronous::<B>(script), ReceiverOptions::default())
}

async fn a_twin_in_another_process_is_told_to_come_back<B: ByWire + Receives>(stage: &Stage<B>) -> Verdict {
    let mut gate = Gate::shut();
    let (here, letter) = (stage.desk_playing(asynchronous::<B>, &gate.script)?, Letter::new(TOPIC));
    let there = elsewhere(stage, &gate.script).await?;
    let first = Sending::start(&here, &letter);
    soon("the first is being handled", gate.begun.recv()).await?;
    for _ in 0..3 {
        let twin = soon("the twin is answered", there.send(&letter)).await??;
        assert_eq!((twin.status, twin.retry_after()), (409, Some(Duration::from_secs(1))));
    }
    gate.open.add_permits(1);
    assert_eq!(first.said().await?.status, 200);
    assert_eq!((there.send(&letter).await?.is_duplicate(), gate.script.count()), (true, 1));
    Ok(())
}

/// Two tenants in one database, each with tables of its own.
async fn the_same_id_in_other_tables_is_no_twin<B: OnServer + Receives>(stage: &Stage<B>) -> Verdict {
    let mut gate = Gate::shut();
    let (here, letter) = (stage.desk_playing(asynchronous::<B>, &gate.script)?, Letter::new(TOPIC));
    let tables = B::tables(&stage.place, "their_outbox", "their_inbox")?;
    let (store, script) = (B::open_tables(&stage.place, tables, true).await?, Script::succeed());
    let peer = Peer::new(stage.clock.clone());
    let there = Desk::open(store, peer, asynchronous::<B>(&script), ReceiverOptions::default())?;
    let first = Sending::start(&here, &letter);
    soon("the first is being handled", gate.begun.recv()).await?;
    let other = soon("the other is answered", there.send(&letter)).await??;
    assert_eq!((other.status, script.count()), (200, 1));
    gate.open.add_permits(1);
    assert_eq!(first.said().await?.status, 200);
    Ok(())
}

/// Were each of them to wait on a connection, no other message could be handled meanwhile.
async fn a_twin_in_another_process_holds_no_connection<B: ByWire + Receives>(stage: &Stage<B>) -> Verdict {
    let mut gate = Gate::shut();
    let (here, letter) = (stage.desk_playing(asynchronous::<B>, &gate.script)?, Letter::new(TOPIC));
    let there = elsewhere(stage, &Script::succeed()).await?;
    let first = Sending::start(&here, &letter);
    soon("the first is being handled", gate.begun.recv()).await?;
    let twins = join_all((0..64).map(|_| there.send(&letter)));
    let others = join_all((0..16).map(|_| async { there.send(&Letter::new(TOPIC)).await }));
    let (twins, others) = soon("all are answered", async { tokio::join!(twins, others) }).await?;
    for twin in twins {
        assert_eq!(twin?.status, 409);
    }
    for other in others {
        assert_eq!(other?.status, 200);
    }
    gate.open.add_permits(1);
    assert_eq!(first.said().await?.status, 200);
    Ok(())
}

/// Sends one message 64 times at once; all are answered in the end, and one was handled.
async fn one_of_64<B: Testable>(stage: &Stage<B>, desks: &[Desk<B>], script: &Script) -> Verdict {
    let letter = Letter::new(TOPIC);
    let before = script.count();
    let sent = join_all((0..64).map(|n| {
        let (desk, letter) = (&desks[n % desks.len()], &letter);
        async move {
            loop {
                match desk.send(letter).await? {
                    said if said.status == 409 => tokio::task::yield_now().await,
                    said => return anyhow::Ok(said),
                }
            }
        }
    }));
    let said: anyhow::Result<Vec<_>> = soon("all are answered", sent).await?.into_iter().collect();
    let said = said?;
    assert!(said.iter().all(|said| said.status == 200 && said.payload() == "done"), "{said:?}");
    assert_eq!(said.iter().filter(|said| !said.is_duplicate()).count(), 1);
    assert_eq!(script.count() - before, 1);
    let effects = stage.effects_of_messages().await?;
    assert_eq!(effects.iter().filter(|id| **id == letter.id.to_string()).count(), 1);
    Ok(())
}

async fn of_64_at_once_one_is_handled<B: Receives>(stage: &Stage<B>) -> Verdict {
    let script = Script::new(|_| async { Ok(Some("\"done\"".into())) });
    for way in B::WAYS {
        one_of_64(stage, &[stage.desk_playing(*way, &script)?], &script).await?;
    }
    Ok(())
}

async fn of_64_at_once_in_two_processes_one_is_handled<B: ByWire + Receives>(stage: &Stage<B>) -> Verdict {
    let script = Script::new(|_| async { Ok(Some("\"done\"".into())) });
    let desks = [stage.desk_playing(asynchronous::<B>, &script)?, elsewhere(stage, &script).await?];
    one_of_64(stage, &desks, &script).await
}

async fn more_than_can_be_handled_are_told_to_come_back<B: Receives>(stage: &Stage<B>) -> Verdict {
    for way in B::WAYS {
        let mut gate = Gate::shut();
        let desk = stage.desk(way(&gate.script), ReceiverOptions::default().in_flight(1))?;
        let first = Sending::start(&desk, &Letter::new(TOPIC));
        soon("the first is being handled", gate.begun.recv()).await?;
        let second = Letter::new(TOPIC);
        let said = desk.send(&second).await?;
        assert_eq!((said.status, said.retry_after()), (503, Some(Duration::from_secs(1))));
        gate.open.add_permits(2);
        assert_eq!(first.said().await?.status, 200);
        let again = || async { Ok(desk.send(&second).await?.status == 200) };
        eventually("the second is taken", again).await?;
        assert_eq!(gate.script.count(), 2);
    }
    Ok(())
}

async fn a_sender_that_gives_up_does_not_break_the_handler_off<B: Receives>(stage: &Stage<B>) -> Verdict {
    for (n, way) in B::WAYS.iter().enumerate() {
        let mut gate = Gate::shut();
        let (desk, letter) = (stage.desk_playing(*way, &gate.script)?, Letter::new(TOPIC));
        let mut first = Sending::start(&desk, &letter);
        soon("it is being handled", gate.begun.recv()).await?;
        first.0.shutdown().await;
        gate.open.add_permits(1);
        let side = stage.side(Queue::Inbox);
        eventually("it is handled to its end", || async move {
            Ok(side.verbs().stats().await?.done == u64::try_from(n)? + 1)
        })
        .await?;
        // It is stored a moment before its twin is let in.
        eventually("its twin is let in", || async { Ok(desk.send(&letter).await?.status != 409) }).await?;
        let retried = desk.send(&letter).await?;
        assert_eq!((retried.is_duplicate(), retried.payload(), gate.script.count()), (true, 7.into(), 1));
        assert_eq!(stage.effects_of_messages().await?.len(), n + 1);
    }
    Ok(())
}

async fn while_the_database_is_away_nothing_is_taken_and_nothing_lost<B: ByWire + Receives>(
    stage: &Stage<B>,
) -> Verdict {
    let (proxy, store) = stage.behind_proxy().await?;
    let script = Script::succeed();
    let (peer, options) = (Peer::new(stage.clock.clone()), ReceiverOptions::default());
    let desk = Desk::<B>::open(store.clone(), peer, asynchronous::<B>(&script), options)?;
    assert_eq!(desk.send(&Letter::new(TOPIC)).await?.status, 200);
    proxy.refuse()?;
    proxy.cut_all();
    let letter = Letter::new(TOPIC);
    let said = desk.send(&letter).await?;
    assert_eq!((said.status, said.retry_after()), (503, Some(Duration::from_secs(1))), "{said:?}");
    assert_eq!(script.count(), 1);
    proxy.admit()?;
    let again = || async { Ok(desk.send(&letter).await?.status == 200) };
    eventually("it is taken when the database is back", again).await?;
    assert_eq!((script.count(), stage.effects_of_messages().await?.len()), (2, 2));
    store.close().await;
    Ok(())
}

/// The first commit of each message is cut; returns how often handlers ran for ten messages.
async fn runs<B: ByWire + Receives>(stage: &Stage<B>, cut: fn(&Proxy, &str)) -> anyhow::Result<usize> {
    let (proxy, store) = stage.behind_proxy().await?;
    let script = Script::new(|_| async { Ok(Some("\"done\"".into())) });
    let (peer, options) = (Peer::new(stage.clock.clone()), ReceiverOptions::default());
    let desk = Desk::<B>::open(store, peer, asynchronous::<B>(&script), options)?;
    for n in 1..=10 {
        let letter = Letter::new(TOPIC);
        cut(&proxy, &letter.id.to_string());
        let said = desk.send(&letter).await?;
        assert_eq!((said.status, said.payload(), said.is_duplicate()), (200, "done".into(), false), "{said:?}");
        assert_eq!(stage.row(&desk, &letter).await?.map(|row| row.state()), Some(State::Done));
        assert_eq!((proxy.cuts(), stage.effects_of_messages().await?.len()), (n, usize::try_from(n)?));
        assert!(desk.send(&letter).await?.is_duplicate());
    }
    Ok(script.count())
}

async fn a_commit_that_was_carried_out_is_answered_as_such<B: ByWire + Receives>(stage: &Stage<B>) -> Verdict {
    assert_eq!(runs(stage, Proxy::cut_commit_of).await?, 10);
    Ok(())
}

async fn a_commit_that_was_not_carried_out_is_tried_again<B: ByWire + Receives>(stage: &Stage<B>) -> Verdict {
    assert_eq!(runs(stage, Proxy::lose_commit_of).await?, 20);
    Ok(())
}

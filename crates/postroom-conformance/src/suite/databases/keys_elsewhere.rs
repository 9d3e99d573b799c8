//! Unique keys, while somebody else has a transaction open.

use std::time::Duration;

use postroom::message::{Unique, WorkItemId};
use postroom::queue::{Queue, State, Stored};
use postroom::{NewMessage, Outbox};
use tokio::task::JoinSet;

use crate::by_wire::ByWire;
use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Stage, soon};
use crate::servers::Client;

cases! { keys_elsewhere:
    started messages_that_wait_for_a_key_leave_connections_for_others [];
    started one_that_has_begun_ends_beside_a_transaction_that_it_kept_out [];
    started one_that_is_locked_for_a_moment_still_has_its_key [];
    started a_message_that_is_repeated_in_a_crowd_does_not_replace_a_newer_one [];
}

fn keyed() -> NewMessage {
    NewMessage::new("page.changed", "{}").unique(Unique::while_waiting("page-7"))
}

fn store(storing: &mut JoinSet<postroom::Result<Stored>>, outbox: &Outbox, message: NewMessage) {
    let outbox = outbox.clone();
    storing.spawn(async move { outbox.enqueue(message).await });
}

/// Waits until this many transactions of the case are open.
async fn are_open<B: ByWire>(stage: &Stage<B>, count: usize) -> Verdict {
    let (transactions, mut client) = (B::open_transactions(&stage.place), stage.client().await?);
    // InnoDB returns the same list again if asked within a tenth of a second.
    let mut look = tokio::time::interval(Duration::from_millis(250));
    let open = async {
        while client.ask(&transactions).await?.len() < count {
            look.tick().await;
        }
        anyhow::Ok(())
    };
    soon(&format!("{count} transactions are open"), open).await?
}

async fn state<B: ByWire>(stage: &Stage<B>, id: WorkItemId) -> anyhow::Result<Option<State>> {
    Ok(stage.outbox.find(id.as_uuid()).await?.first().map(postroom::operator::Record::state))
}

async fn messages_that_wait_for_a_key_leave_connections_for_others<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let side = stage.side(Queue::Outbox);
    side.add_many("a", 1).await?;
    let lease = side.claim_one().await?;
    let mut other = stage.client().await?;
    other.say(B::BEGIN).await?;
    let first = stage.outbox.enqueue_in(&mut other, keyed()).await?;
    let mut storing = JoinSet::new();
    for _ in 0..12 {
        store(&mut storing, &stage.outbox, keyed());
    }
    are_open(stage, 3).await?;
    let extended = soon("the lease is extended", side.verbs().extend(&[lease], LEASE)).await??;
    assert_eq!(extended, [true]);
    other.say("COMMIT").await?;
    while let Some(stored) = storing.join_next().await {
        let stored = stored??;
        assert!(stored.is_duplicate() && stored.id() == first.id(), "{stored:?}");
    }
    Ok(())
}

/// Neither an ack nor a failure waits for it.
async fn one_that_has_begun_ends_beside_a_transaction_that_it_kept_out<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let side = stage.side(Queue::Outbox);
    let keyed = || NewMessage::new("page.changed", "{}").unique(Unique::until_done("page-7"));
    for succeeds in [false, true] {
        let first = stage.outbox.enqueue(keyed()).await?.id();
        let lease = side.claim_one().await?;
        let mut other = stage.client().await?;
        other.say(B::BEGIN).await?;
        let kept_out = stage.outbox.enqueue_in(&mut other, keyed()).await?;
        assert!(kept_out.is_duplicate() && kept_out.id() == first, "{kept_out:?}");
        match succeeds {
            true => soon("it is acknowledged", side.ack(lease)).await??,
            false => soon("it fails", side.fail(lease, "no such page")).await??,
        }
        other.say(B::ROLL_BACK).await?;
    }
    Ok(())
}

/// A claim locks messages that it then leaves, because they are too large together.
async fn one_that_is_locked_for_a_moment_still_has_its_key<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let first = stage.outbox.enqueue(keyed()).await?.id();
    let mut other = stage.client().await?;
    let line = stage.table(if B::NAME == "postgres" { "outbox_line" } else { "infra_outbox_line" });
    other.say(&format!("{}; SELECT seq FROM {line} FOR UPDATE", B::BEGIN)).await?;
    let mut storing = JoinSet::new();
    store(&mut storing, &stage.outbox, keyed());
    are_open(stage, 2).await?;
    other.say(B::ROLL_BACK).await?;
    let stored = storing.join_next().await.transpose()?.transpose()?;
    assert!(stored.is_some_and(|stored| stored.is_duplicate() && stored.id() == first), "{stored:?}");
    Ok(())
}

/// A client that got no answer sends its message again, while it and a newer one are being stored.
async fn a_message_that_is_repeated_in_a_crowd_does_not_replace_a_newer_one<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let replacing = || keyed().unique(Unique::while_waiting("page-7").or_replace());
    let (old, new) = (replacing(), replacing());
    let mut other = stage.client().await?;
    other.say(B::BEGIN).await?;
    assert!(!stage.outbox.enqueue_in(&mut other, &old).await?.is_duplicate());
    let mut storing = JoinSet::new();
    store(&mut storing, &stage.outbox, new.clone());
    are_open(stage, 2).await?;
    store(&mut storing, &stage.outbox, old.clone());
    are_open(stage, 3).await?;
    other.say("COMMIT").await?;
    while let Some(stored) = storing.join_next().await {
        stored??;
    }
    assert_eq!(state(stage, old.work_item_id()).await?, Some(State::Dismissed));
    assert_eq!(state(stage, new.work_item_id()).await?, Some(State::Ready));
    assert_eq!(stage.outbox.with_key("page-7").await?, Some(new.work_item_id()));
    Ok(())
}

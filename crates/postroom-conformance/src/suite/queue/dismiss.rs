//! Dead letters that an operator dismisses.

use postroom::operator::{Filter, Operator, Revival};
use postroom::queue::{Queue, State, WorkQueue};
use postroom::store::Arrival;
use postroom::{Incoming, NewMessage};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Side, Stage};
use crate::peer::Letter;
use crate::script::Script;
use crate::services::{Receives, TOPIC};

cases! { dismiss:
    both a_dismissed_message_is_kept_with_who_and_why [];
    both an_expired_message_is_dismissed_like_a_dead_one [];
    both only_what_was_meant_is_dismissed [];
    both messages_in_other_states_are_not_dismissed [];
    both a_dismissed_message_is_still_a_duplicate ["IBX-014"];
    both of_a_retry_and_a_dismissal_at_once_one_wins [];
    both a_dismissed_message_goes_back_only_if_it_is_asked_for [];
    both a_dismissed_message_can_only_be_marked_as_processed [];
    worker a_sender_hears_of_a_dismissed_message_what_it_heard_before [];
}

fn dismissal() -> anyhow::Result<Operator> {
    Ok(Operator::new("ada")?.because("a test order; nobody waits for it")?)
}

async fn dead(side: &Side<'_>, topic: &str) -> anyhow::Result<i64> {
    let lease = side.leased(topic).await?;
    side.fail(lease.clone(), "no such order").await?;
    Ok(lease.seq())
}

async fn dismissed(queue: &WorkQueue, filter: Filter) -> anyhow::Result<u64> {
    Ok(queue.dismiss(filter, dismissal()?).await?)
}

async fn a_dismissed_message_is_kept_with_who_and_why(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seq = dead(&side, "a").await?;
        h.clock.advance(LEASE);
        assert_eq!(side.record(seq).await?.dismissal(), None);
        assert_eq!(dismissed(side.verbs(), Filter::one(seq)).await?, 1);
        let record = side.record(seq).await?;
        assert_eq!((record.state(), record.processed_at()), (State::Dismissed, Some(h.now())));
        assert_eq!(record.dismissal(), Some(&dismissal()?));
        assert_eq!(record.last_error(), Some("no such order"), "what went wrong stays with it");
        assert_eq!(side.verbs().failures(seq).await?.len(), 1);
        let stats = side.verbs().stats().await?;
        assert_eq!((stats.dead, stats.dismissed, stats.total()), (0, 1, 1));
        assert!(side.verbs().failed_groups(10).await?.is_empty(), "it does not count as failed any more");
        assert!(side.verbs().failed(Filter::all()).await?.is_empty());
        let listed = side.verbs().failed(Filter::all().state(State::Dismissed)).await?;
        assert_eq!((listed[0].seq, listed[0].dismissal.clone()), (seq, Some(dismissal()?)));
        let listed = side.verbs().list(Filter::all().state(State::Dismissed)).await?;
        assert_eq!(listed.iter().map(postroom::operator::Record::seq).collect::<Vec<_>>(), [seq]);
        assert_eq!(dismissed(side.verbs(), Filter::one(seq)).await?, 0, "it is dismissed already");
    }
    Ok(())
}

async fn an_expired_message_is_dismissed_like_a_dead_one(h: &Harness) -> Verdict {
    h.outbox.enqueue(NewMessage::new("a", "").expires_after(LEASE)).await?;
    h.clock.advance(LEASE);
    assert_eq!(h.outbox.queue().expire(10).await?, 1);
    assert_eq!(dismissed(h.outbox.queue(), Filter::all()).await?, 1);
    let stats = h.outbox.queue().stats().await?;
    assert_eq!((stats.expired, stats.dismissed), (0, 1));
    Ok(())
}

async fn only_what_was_meant_is_dismissed(h: &Harness) -> Verdict {
    for side in h.sides() {
        for topic in ["a", "a", "a", "b"] {
            dead(&side, topic).await?;
        }
        assert_eq!(dismissed(side.verbs(), Filter::all().topic("c")).await?, 0);
        assert_eq!(dismissed(side.verbs(), Filter::all().party("nobody")).await?, 0);
        assert_eq!(dismissed(side.verbs(), Filter::all().state(State::Expired)).await?, 0);
        assert_eq!(dismissed(side.verbs(), Filter::all().topic("a").limit(2)).await?, 2);
        let stats = side.verbs().stats().await?;
        assert_eq!((stats.dead, stats.dismissed), (2, 2));
        let left: Vec<_> = side.verbs().failed(Filter::all()).await?.into_iter().map(|failed| failed.topic).collect();
        assert_eq!(left, ["a", "b"], "the oldest come first");
        assert_eq!(dismissed(side.verbs(), Filter::all()).await?, 2);
    }
    Ok(())
}

async fn messages_in_other_states_are_not_dismissed(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("done").await?;
        side.ack(lease).await?;
        side.leased("leased").await?;
        side.add("ready").await?;
    }
    for draft in [Draft::new("seen"), Draft::new("processing")] {
        assert!(!h.inbox.already_processed(&draft.key()?).await?);
        if draft.topic == "processing" {
            assert!(h.inbox.mark_processing(&draft.key()?).await?);
        }
    }
    for side in h.sides() {
        let before = side.verbs().stats().await?;
        let rows: Vec<_> =
            side.verbs().list(Filter::all()).await?.iter().map(postroom::operator::Record::seq).collect();
        assert_eq!(dismissed(side.verbs(), Filter::all()).await?, 0);
        assert_eq!(dismissed(side.verbs(), Filter::all().only(rows)).await?, 0, "not by their numbers either");
        for state in State::ALL {
            assert_eq!(dismissed(side.verbs(), Filter::all().state(state)).await?, 0);
        }
        assert_eq!(side.verbs().stats().await?, before);
    }
    Ok(())
}

async fn a_dismissed_message_is_still_a_duplicate(h: &Harness) -> Verdict {
    let draft = Draft::new("a");
    for side in h.sides() {
        let seq = side.put(&draft).await?;
        let lease = side.claim_one().await?;
        side.fail(lease, "x").await?;
        assert_eq!(dismissed(side.verbs(), Filter::all()).await?, 1);
        assert_eq!(side.put(&draft).await?, seq);
        assert_eq!(side.state(seq).await?, State::Dismissed);
        assert!(side.claim(10).await?.is_empty());
    }
    assert!(h.outbox.enqueue(draft.outgoing()).await?.is_duplicate());
    let known = |differs| Arrival::Known { done: false, differs };
    assert_eq!(h.inbox.accept(draft.incoming()?).await?, known(false));
    let other = draft.clone().payload("other");
    assert_eq!(h.inbox.accept(other.incoming()?).await?, known(true));
    assert_eq!(h.inbox.enqueue(other.incoming()?).await?, known(true), "nothing replaces what was dismissed");
    assert!(!h.inbox.already_processed(&draft.key()?).await?, "it was never handled");
    Ok(())
}

async fn of_a_retry_and_a_dismissal_at_once_one_wins(h: &Harness) -> Verdict {
    const MESSAGES: usize = 50;
    for side in h.sides() {
        side.add_many("a", MESSAGES).await?;
        let leases: Vec<_> = side.claim(MESSAGES).await?.into_iter().map(|claimed| claimed.lease).collect();
        let _ = side.verbs().fail(leases, "x").await?;
        let verbs = side.verbs();
        let (retried, dismissed) = tokio::try_join!(
            verbs.revive(Filter::all(), Revival::at_once()),
            verbs.dismiss(Filter::all(), dismissal()?)
        )?;
        assert_eq!(retried + dismissed, MESSAGES as u64, "each message is counted once");
        let stats = verbs.stats().await?;
        assert_eq!((stats.ready, stats.dismissed, stats.dead), (retried, dismissed, 0));
    }
    Ok(())
}

async fn a_dismissed_message_goes_back_only_if_it_is_asked_for(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seq = dead(&side, "a").await?;
        assert_eq!(dismissed(side.verbs(), Filter::all()).await?, 1);
        assert_eq!(side.verbs().revive(Filter::all(), None).await?, 0);
        assert_eq!(side.verbs().revive(Filter::one(seq), None).await?, 0);
        assert_eq!(side.verbs().revive(Filter::one(seq).state(State::Dismissed), None).await?, 1);
        let record = side.record(seq).await?;
        assert_eq!((record.state(), record.dismissal(), record.processed_at()), (State::Ready, None, None));
        let lease = side.claim_one().await?;
        side.ack(lease).await?;
    }
    Ok(())
}

async fn a_dismissed_message_can_only_be_marked_as_processed(h: &Harness) -> Verdict {
    let (side, draft) = (h.side(Queue::Inbox), Draft::new("a"));
    let seq = side.put(&draft).await?;
    let lease = side.claim_one().await?;
    side.fail(lease, "x").await?;
    assert_eq!(dismissed(side.verbs(), Filter::all()).await?, 1);
    assert!(!h.inbox.mark_dead(&draft.key()?, "again").await?);
    assert!(!h.inbox.mark_processing(&draft.key()?).await?);
    assert_eq!(side.state(seq).await?, State::Dismissed);
    assert!(h.inbox.mark_processed(&draft.key()?).await?);
    assert_eq!(side.state(seq).await?, State::Done);
    Ok(())
}

async fn a_sender_hears_of_a_dismissed_message_what_it_heard_before<B: Receives>(stage: &Stage<B>) -> Verdict {
    for way in B::WAYS {
        let script = Script::succeed();
        let (desk, letter) = (stage.desk_playing(*way, &script)?, Letter::new(TOPIC));
        let arrived = Incoming::new(desk.peer.key_of(&letter)?, &letter.topic, &letter.payload);
        stage.inbox.accept(arrived).await?;
        let side = stage.side(Queue::Inbox);
        side.fail(side.claim_one().await?, "disk on fire").await?;
        let before = desk.send(&letter).await?;
        assert_eq!(dismissed(side.verbs(), Filter::all()).await?, 1);
        let after = desk.send(&letter).await?;
        assert_eq!((after.status, after.error(), script.count()), (before.status, before.error(), 0));
    }
    Ok(())
}

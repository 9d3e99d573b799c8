//! Requeue, by an operator.

use std::time::Duration;

use postroom::NewMessage;
use postroom::operator::Filter;
use postroom::queue::{Queue, Settle, State};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE};

cases! { revive:
    both a_dead_message_starts_afresh ["SQM-3.4.3"];
    both an_expired_message_needs_a_new_life [];
    both only_what_was_meant_comes_back [];
    both at_most_so_many_come_back [];
    both a_lease_from_before_stays_void [];
    both what_waits_or_is_done_stays_as_it_is [];
    both redrive_sends_what_was_done_again [];
    both redrive_takes_only_what_was_finished_since [];
}

async fn a_dead_message_starts_afresh(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seq = side.add("a").await?;
        let lease = side.claim_one().await?;
        side.fail(lease, "x").await?;
        h.clock.advance(LEASE);
        assert_eq!(side.verbs().revive(Filter::one(seq), None).await?, 1);
        let record = side.record(seq).await?;
        assert_eq!((record.state(), record.attempts(), record.crashes()), (State::Ready, 0, 0));
        assert_eq!((record.processed_at(), record.processed_by(), record.next_attempt_at()), (None, None, None));
        let lease = side.claim_one().await?;
        assert_eq!((lease.claim_no(), lease.attempts()), (2, 0));
        side.ack(lease).await?;
    }
    Ok(())
}

async fn an_expired_message_needs_a_new_life(h: &Harness) -> Verdict {
    h.outbox.enqueue(NewMessage::new("a", "").expires_after(LEASE)).await?;
    h.clock.advance(LEASE);
    assert_eq!(h.outbox.queue().expire(10).await?, 1);
    assert_eq!(h.outbox.queue().revive(Filter::all(), None).await?, 0);
    assert_eq!(h.outbox.queue().revive(Filter::all(), Some(LEASE)).await?, 1);
    let record = h.outbox.queue().list(Filter::all()).await?.remove(0);
    assert_eq!((record.state(), record.expires_at()), (State::Ready, Some(h.now().plus(LEASE))));
    assert_eq!(h.side(Queue::Outbox).claim(10).await?.len(), 1);
    Ok(())
}

async fn only_what_was_meant_comes_back(h: &Harness) -> Verdict {
    for side in h.sides() {
        for topic in ["a", "a", "b"] {
            let lease = side.leased(topic).await?;
            side.fail(lease, "x").await?;
        }
        assert_eq!(side.verbs().revive(Filter::all().topic("b"), None).await?, 1);
        assert_eq!(side.verbs().revive(Filter::all().topic("c"), None).await?, 0);
        assert_eq!(side.verbs().revive(Filter::all().party("nobody"), None).await?, 0);
        let stats = side.verbs().stats().await?;
        assert_eq!((stats.ready, stats.dead), (1, 2));
    }
    Ok(())
}

async fn at_most_so_many_come_back(h: &Harness) -> Verdict {
    for _ in 0..2 {
        h.outbox.enqueue(NewMessage::new("a", "").expires_after(LEASE)).await?;
    }
    h.clock.advance(LEASE);
    assert_eq!(h.outbox.queue().expire(10).await?, 2);
    for _ in 0..2 {
        let lease = h.side(Queue::Outbox).leased("b").await?;
        h.side(Queue::Outbox).fail(lease, "x").await?;
    }
    let revived = h.outbox.queue().revive(Filter::all().limit(3), Some(LEASE)).await?;
    assert_eq!(revived, 3, "two were dead and two expired, and three were asked for");
    Ok(())
}

async fn a_lease_from_before_stays_void(h: &Harness) -> Verdict {
    for side in h.sides() {
        let stale = side.leased("a").await?;
        h.clock.advance(LEASE + Duration::from_secs(2));
        let lease = side.claim_one().await?;
        side.fail(lease.clone(), "x").await?;
        assert_eq!(side.verbs().revive(Filter::all(), None).await?, 1);
        let fresh = side.claim_one().await?;
        assert_eq!(side.verbs().ack([stale, lease]).await?.lost, 2);
        side.ack(fresh).await?;
    }
    Ok(())
}

async fn what_waits_or_is_done_stays_as_it_is(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("done").await?;
        side.ack(lease).await?;
        side.leased("leased").await?;
        side.add("ready").await?;
        assert_eq!(side.verbs().revive(Filter::all(), Some(LEASE)).await?, 0);
    }
    assert!(!h.inbox.already_processed(&Draft::new("a").key()?).await?);
    assert_eq!(h.inbox.queue().revive(Filter::all(), None).await?, 0);
    Ok(())
}

async fn redrive_sends_what_was_done_again(h: &Harness) -> Verdict {
    let side = h.side(Queue::Outbox);
    h.outbox.enqueue(NewMessage::new("a", "").to("billing").expires_after(LEASE)).await?;
    let lease = side.claim_one().await?;
    side.settle(Settle::ack_with(lease.clone(), Some("answer".into()))).await?;
    h.clock.advance(LEASE);
    assert_eq!(h.outbox.redrive(Filter::all().party("shipping"), Some(LEASE)).await?, 0);
    assert_eq!(h.outbox.redrive(Filter::all().party("billing"), None).await?, 0, "its time is over");
    assert_eq!(h.outbox.redrive(Filter::all().party("billing"), Some(LEASE)).await?, 1);
    let record = side.record(lease.seq()).await?;
    assert_eq!((record.state(), record.response(), record.processed_at()), (State::Ready, None, None));
    side.claim_one().await?;
    Ok(())
}

async fn redrive_takes_only_what_was_finished_since(h: &Harness) -> Verdict {
    let side = h.side(Queue::Outbox);
    let lease = side.leased("before").await?;
    side.ack(lease).await?;
    h.clock.advance(LEASE);
    let restored_to = h.now();
    let lease = side.leased("after").await?;
    side.ack(lease.clone()).await?;
    assert_eq!(h.outbox.redrive(Filter::all().finished_since(restored_to), None).await?, 1);
    assert_eq!(side.state(lease.seq()).await?, State::Ready);
    Ok(())
}

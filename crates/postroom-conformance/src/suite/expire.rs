//! Messages whose time is over.

use std::time::Duration;

use postroom::{Filter, MessageId, NewMessage, OwnerToken, Queue, State};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE};

cases! { expire:
    both a_message_past_its_time_is_not_claimed [];
    both expire_moves_waiting_messages_only ["SQM-6.1.2"];
    both a_leased_message_expires_when_it_is_abandoned [];
    both a_leased_message_expires_when_it_is_released_or_reaped [];
    both an_acked_message_does_not_expire [];
    both a_message_to_a_service_lives_a_day_after_it_is_due ["SQM-3.2.2"];
    both expires_at_most_so_many [];
    both the_inbox_does_not_expire [];
    both a_revived_inbox_message_does_not_expire [];
}

const TTL: Duration = Duration::from_secs(60);

async fn with_ttl(h: &Harness) -> anyhow::Result<MessageId> {
    let message = NewMessage::new("a", "").expires_after(TTL);
    let id = message.message_id();
    h.outbox.enqueue(message).await?;
    Ok(id)
}

async fn state(h: &Harness, id: MessageId) -> anyhow::Result<State> {
    Ok(h.outbox.find(id.as_uuid()).await?.remove(0).state())
}

async fn a_message_past_its_time_is_not_claimed(h: &Harness) -> Verdict {
    let side = h.side(Queue::Outbox);
    let id = with_ttl(h).await?;
    h.clock.advance(TTL - Duration::from_micros(1));
    let lease = side.claim_one().await?;
    side.release(lease).await?;
    h.clock.advance(Duration::from_micros(1));
    assert!(side.claim(10).await?.is_empty());
    let record = h.outbox.find(id.as_uuid()).await?.remove(0);
    assert_eq!((record.state(), record.visible_at()), (State::Expired, None));
    assert_eq!(record.processed_at(), Some(h.now()));
    Ok(())
}

async fn expire_moves_waiting_messages_only(h: &Harness) -> Verdict {
    let side = h.side(Queue::Outbox);
    let leased = with_ttl(h).await?;
    let lease = side.claim_one().await?;
    let waiting = with_ttl(h).await?;
    side.add("without").await?;
    h.clock.advance(TTL);
    assert_eq!(h.outbox.queue().expire(100).await?, 1);
    assert_eq!((state(h, waiting).await?, state(h, leased).await?), (State::Expired, State::Leased));
    side.ack(lease).await
}

async fn a_leased_message_expires_when_it_is_abandoned(h: &Harness) -> Verdict {
    let side = h.side(Queue::Outbox);
    let id = with_ttl(h).await?;
    let lease = side.claim_one().await?;
    h.clock.advance(TTL);
    let settled = side.verbs().abandon([lease], "x", None).await?;
    assert_eq!((settled.applied, settled.expired), (1, 1));
    assert_eq!(state(h, id).await?, State::Expired);
    Ok(())
}

async fn a_leased_message_expires_when_it_is_released_or_reaped(h: &Harness) -> Verdict {
    let side = h.side(Queue::Outbox);
    let released = with_ttl(h).await?;
    let lease = side.verbs().claim(OwnerToken::new(), TTL * 2, 1).await?.claimed.remove(0).lease;
    let reaped = with_ttl(h).await?;
    side.claim_one().await?;
    h.clock.advance(TTL);
    side.release(lease).await?;
    assert_eq!(side.verbs().reap(10).await?.dead, 0);
    assert_eq!((state(h, released).await?, state(h, reaped).await?), (State::Expired, State::Expired));
    Ok(())
}

async fn an_acked_message_does_not_expire(h: &Harness) -> Verdict {
    let side = h.side(Queue::Outbox);
    let id = with_ttl(h).await?;
    let lease = side.claim_one().await?;
    side.ack(lease).await?;
    h.clock.advance(TTL * 2);
    assert_eq!(h.outbox.queue().expire(100).await?, 0);
    assert_eq!(state(h, id).await?, State::Done);
    Ok(())
}

async fn a_message_to_a_service_lives_a_day_after_it_is_due(h: &Harness) -> Verdict {
    let day = Duration::from_secs(24 * 3600);
    let to_billing = |message: NewMessage| message.to("billing");
    let later = to_billing(NewMessage::new("a", "").due_after(day * 2));
    let overdue = to_billing(NewMessage::new("a", "").due_at(h.now().minus(day * 2)));
    let asked = to_billing(NewMessage::new("a", "").due_after(day * 2)).expires_after(day);
    for (message, lives) in [(later, day * 3), (overdue, day), (asked, day)] {
        let id = message.message_id();
        h.outbox.enqueue(message).await?;
        let row = h.outbox.find(id.as_uuid()).await?.remove(0);
        assert_eq!(row.expires_at(), Some(h.now().plus(lives)));
    }
    Ok(())
}

async fn expires_at_most_so_many(h: &Harness) -> Verdict {
    for _ in 0..5 {
        with_ttl(h).await?;
    }
    h.clock.advance(TTL);
    assert_eq!(h.outbox.queue().expire(2).await?, 2);
    assert_eq!(h.outbox.queue().expire(2).await?, 2);
    assert_eq!(h.outbox.queue().expire(2).await?, 1);
    Ok(())
}

async fn the_inbox_does_not_expire(h: &Harness) -> Verdict {
    let side = h.side(Queue::Inbox);
    side.add("a").await?;
    h.clock.advance(Duration::from_secs(365 * 24 * 3600));
    assert_eq!(h.inbox.queue().expire(100).await?, 0);
    assert_eq!(side.claim(10).await?.len(), 1);
    Ok(())
}

async fn a_revived_inbox_message_does_not_expire(h: &Harness) -> Verdict {
    let side = h.side(Queue::Inbox);
    let seq = side.put(&Draft::new("a")).await?;
    let lease = side.claim_one().await?;
    side.fail(lease, "x").await?;
    assert_eq!(h.inbox.queue().revive(Filter::one(seq), Some(LEASE)).await?, 1);
    h.clock.advance(LEASE * 2);
    let lease = side.claim_one().await?;
    side.abandon(lease, "x").await?;
    assert_eq!(side.state(seq).await?, State::Ready, "inbox rows have no time to live");
    Ok(())
}

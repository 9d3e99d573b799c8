//! Messages whose time is over.

use std::time::Duration;

use postroom::message::OwnerToken;
use postroom::operator::{Filter, Record};
use postroom::queue::{Queue, Settle, State};
use postroom::store::Arrival;
use postroom::{ErrorKind, NewMessage};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Side, readable, refused};

cases! { expire:
    both a_message_past_its_time_is_not_claimed [];
    both expire_moves_waiting_messages_only ["SQM-6.1.2"];
    both a_message_that_waits_for_a_retry_expires [];
    both a_leased_message_expires_when_it_is_abandoned [];
    both a_leased_message_expires_when_it_is_released_or_reaped [];
    both an_acked_message_does_not_expire [];
    both a_message_to_a_service_lives_a_day_after_it_is_due ["SQM-3.2.2"];
    both expires_at_most_so_many [];
    both a_message_without_a_time_to_live_does_not_expire [];
    both a_revived_message_lives_as_long_as_it_was_given [];
    both a_life_of_zero_is_refused [];
    both what_expired_is_known_when_it_arrives_again [];
    both the_life_of_a_message_begins_when_it_first_arrives [];
    both other_content_has_a_life_of_its_own [];
    both a_message_that_was_only_seen_has_the_life_it_is_put_in_line_with [];
    both a_message_that_arrives_too_late_is_not_handled [];
}

const TTL: Duration = Duration::from_secs(60);

async fn with_ttl(side: &Side<'_>) -> anyhow::Result<i64> {
    side.put(&Draft::new("a").ttl(TTL)).await
}

async fn get(h: &Harness, draft: &Draft) -> anyhow::Result<Record> {
    h.inbox.get(&draft.key()?).await?.ok_or_else(|| anyhow::anyhow!("it is not known"))
}

async fn a_message_past_its_time_is_not_claimed(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seq = with_ttl(&side).await?;
        assert_eq!(side.record(seq).await?.expires_at(), Some(h.now().plus(TTL)));
        h.clock.advance(TTL - Duration::from_micros(1));
        let lease = side.claim_one().await?;
        side.release(lease).await?;
        h.clock.advance(Duration::from_micros(1));
        assert!(side.claim(10).await?.is_empty());
        let record = side.record(seq).await?;
        assert_eq!((record.state(), record.visible_at()), (State::Expired, None));
        assert_eq!(record.processed_at(), Some(h.now()));
        assert_eq!((side.verbs().stats().await?.expired, record.state().name(side.queue)), (1, "Expired"));
        assert_eq!(side.verbs().failed(Filter::all()).await?.len(), 1, "it is among those that were given up");
    }
    Ok(())
}

async fn expire_moves_waiting_messages_only(h: &Harness) -> Verdict {
    for side in h.sides() {
        let leased = with_ttl(&side).await?;
        let lease = side.claim_one().await?;
        let waiting = with_ttl(&side).await?;
        side.add("without").await?;
        h.clock.advance(TTL);
        assert_eq!(side.verbs().overdue(100).await?, 1);
        assert_eq!(side.verbs().expire(100).await?, 1);
        assert_eq!((side.state(waiting).await?, side.state(leased).await?), (State::Expired, State::Leased));
        side.ack(lease).await?;
    }
    Ok(())
}

async fn a_message_that_waits_for_a_retry_expires(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seq = with_ttl(&side).await?;
        let lease = side.claim_one().await?;
        let settle = Settle::abandon(lease, TTL * 2, "no stock")?;
        assert_eq!(side.verbs().settle(vec![settle]).await?.applied, 1);
        assert_eq!(side.state(seq).await?, State::Ready);
        h.clock.advance(TTL);
        assert_eq!(side.verbs().expire(100).await?, 1, "its next attempt would come too late");
        let record = side.record(seq).await?;
        assert_eq!((record.state(), record.attempts()), (State::Expired, 1));
        assert_eq!(record.last_error(), Some("no stock"), "what went wrong stays with it");
        assert_eq!(side.verbs().failures(seq).await?.len(), 1);
    }
    Ok(())
}

async fn a_leased_message_expires_when_it_is_abandoned(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seq = with_ttl(&side).await?;
        let lease = side.claim_one().await?;
        h.clock.advance(TTL);
        let settled = side.verbs().abandon([lease], "x", None).await?;
        assert_eq!((settled.applied, settled.expired), (1, 1));
        assert_eq!(side.state(seq).await?, State::Expired);
    }
    Ok(())
}

async fn a_leased_message_expires_when_it_is_released_or_reaped(h: &Harness) -> Verdict {
    for side in h.sides() {
        let released = with_ttl(&side).await?;
        let lease = side.verbs().claim(OwnerToken::new(), TTL * 2, 1).await?.claimed.remove(0).lease;
        let reaped = with_ttl(&side).await?;
        side.claim_one().await?;
        h.clock.advance(TTL);
        side.release(lease).await?;
        assert_eq!(side.verbs().reap(10).await?.dead, 0);
        assert_eq!((side.state(released).await?, side.state(reaped).await?), (State::Expired, State::Expired));
    }
    Ok(())
}

async fn an_acked_message_does_not_expire(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seq = with_ttl(&side).await?;
        let lease = side.claim_one().await?;
        side.ack(lease).await?;
        h.clock.advance(TTL * 2);
        assert_eq!(side.verbs().expire(100).await?, 0);
        assert_eq!(side.state(seq).await?, State::Done);
    }
    Ok(())
}

async fn a_message_to_a_service_lives_a_day_after_it_is_due(h: &Harness) -> Verdict {
    let day = Duration::from_secs(24 * 3600);
    let to_billing = |message: NewMessage| message.to("billing");
    let later = to_billing(NewMessage::new("a", "").due_after(day * 2));
    let overdue = to_billing(NewMessage::new("a", "").due_at(h.now().minus(day * 2)));
    let asked = to_billing(NewMessage::new("a", "").due_after(day / 2)).expires_after(day);
    for (message, lives) in [(later, day * 3), (overdue, day), (asked, day)] {
        let id = message.message_id();
        h.outbox.enqueue(message).await?;
        let row = h.outbox.find(id.as_uuid()).await?.remove(0);
        assert_eq!(row.expires_at(), Some(h.now().plus(lives)));
    }
    Ok(())
}

async fn expires_at_most_so_many(h: &Harness) -> Verdict {
    for side in h.sides() {
        for _ in 0..5 {
            with_ttl(&side).await?;
        }
        h.clock.advance(TTL);
        for expired in [2, 2, 1] {
            assert_eq!(side.verbs().expire(2).await?, expired);
        }
    }
    Ok(())
}

async fn a_message_without_a_time_to_live_does_not_expire(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add("a").await?;
        h.clock.advance(Duration::from_secs(365 * 24 * 3600));
        assert_eq!(side.verbs().expire(100).await?, 0);
        assert_eq!(side.claim(10).await?.len(), 1);
    }
    Ok(())
}

async fn a_revived_message_lives_as_long_as_it_was_given(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seq = with_ttl(&side).await?;
        h.clock.advance(TTL);
        assert_eq!(side.verbs().expire(10).await?, 1);
        assert_eq!(side.verbs().revive(Filter::one(seq), None).await?, 0, "it needs a new time to live");
        assert_eq!(side.verbs().revive(Filter::one(seq), Some(LEASE * 2)).await?, 1);
        assert_eq!(side.record(seq).await?.expires_at(), Some(h.now().plus(LEASE * 2)));
        let lease = side.claim_one().await?;
        side.release(lease).await?;
        h.clock.advance(LEASE * 2);
        assert_eq!((side.claim(10).await?.len(), side.state(seq).await?), (0, State::Expired));
    }
    Ok(())
}

async fn a_life_of_zero_is_refused(h: &Harness) -> Verdict {
    let draft = Draft::new("a").ttl(Duration::ZERO);
    refused(h.outbox.enqueue(draft.outgoing()).await, ErrorKind::InvalidInput, "no life at all")?;
    refused(h.inbox.enqueue(draft.incoming()?).await, ErrorKind::InvalidInput, "no life at all")?;
    refused(h.inbox.accept(draft.incoming()?).await, ErrorKind::InvalidInput, "no life at all")?;
    for side in h.sides() {
        assert_eq!(side.rows().await?, 0);
    }
    Ok(())
}

async fn what_expired_is_known_when_it_arrives_again(h: &Harness) -> Verdict {
    let (side, draft) = (h.side(Queue::Inbox), Draft::new("a").ttl(TTL));
    side.put(&draft).await?;
    h.clock.advance(TTL);
    assert!(side.claim(10).await?.is_empty());
    assert!(!h.inbox.already_processed(&draft.key()?).await?, "it was not handled");
    let again = Arrival::Known { done: false, differs: false };
    assert_eq!(h.inbox.accept(draft.incoming()?).await?, again);
    assert_eq!(h.inbox.enqueue(draft.incoming()?).await?, again);
    assert_eq!(get(h, &draft).await?.state(), State::Expired);
    assert!(side.claim(10).await?.is_empty(), "coming again does not put it back in line");
    assert_eq!(side.rows().await?, 1);
    Ok(())
}

async fn the_life_of_a_message_begins_when_it_first_arrives(h: &Harness) -> Verdict {
    let draft = Draft::new("a").ttl(TTL);
    let ends = h.now().plus(TTL);
    for _ in 0..3 {
        h.inbox.accept(draft.incoming()?).await?;
        h.inbox.enqueue(draft.incoming()?).await?;
        assert_eq!(get(h, &draft).await?.expires_at(), Some(ends));
        h.clock.advance(TTL / 3);
    }
    assert!(h.side(Queue::Inbox).claim(10).await?.is_empty());
    Ok(())
}

async fn other_content_has_a_life_of_its_own(h: &Harness) -> Verdict {
    let (side, draft) = (h.side(Queue::Inbox), Draft::new("a").ttl(TTL));
    side.put(&draft).await?;
    h.clock.advance(TTL / 2);
    assert_eq!(h.inbox.enqueue(draft.clone().payload("[]").incoming()?).await?, Arrival::Replaced);
    let record = get(h, &draft).await?;
    assert_eq!(record.expires_at(), Some(h.now().plus(TTL)));
    assert_eq!(readable(&record)?.expires_at, record.expires_at());
    h.clock.advance(TTL);
    assert_eq!(side.verbs().expire(10).await?, 1);
    let forever = Draft { ttl: None, ..draft.clone().payload("7") };
    assert_eq!(h.inbox.enqueue(forever.incoming()?).await?, Arrival::Replaced);
    let record = get(h, &draft).await?;
    assert_eq!((record.state(), record.expires_at()), (State::Expired, None), "only an operator wakes it");
    assert_eq!(side.verbs().revive(Filter::one(record.seq()), None).await?, 1);
    assert_eq!(side.claim(10).await?.len(), 1);
    Ok(())
}

async fn a_message_that_was_only_seen_has_the_life_it_is_put_in_line_with(h: &Harness) -> Verdict {
    for first_wins in [true, false] {
        let draft = Draft::new("a").ttl(TTL);
        assert!(!h.inbox.already_processed(&draft.key()?).await?);
        h.clock.advance(TTL * 2);
        let incoming = draft.incoming()?;
        let arrival = if first_wins { h.inbox.accept(incoming).await? } else { h.inbox.enqueue(incoming).await? };
        assert_eq!(arrival, Arrival::Seen { hash_differs: false });
        assert_eq!(get(h, &draft).await?.expires_at(), Some(h.now().plus(TTL)));
    }
    Ok(())
}

async fn a_message_that_arrives_too_late_is_not_handled(h: &Harness) -> Verdict {
    let (side, draft) = (h.side(Queue::Inbox), Draft::new("a"));
    let late = draft.incoming()?.expires_at(h.now().minus(TTL));
    assert_eq!(h.inbox.accept(late.clone()).await?, Arrival::First);
    assert!(side.claim(10).await?.is_empty());
    assert_eq!(get(h, &draft).await?.state(), State::Expired);
    assert!(h.inbox.accept(late).await?.is_duplicate(), "it stays known");
    Ok(())
}

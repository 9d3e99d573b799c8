//! Urgent messages go ahead, and nothing waits for ever.

use std::time::Duration;

use postroom::message::OwnerToken;
use postroom::queue::{Lease, Queue, Topics};
use postroom::{ErrorKind, MessageId, NewMessage};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, Side, refused};

cases! { head_start:
    both an_urgent_message_goes_ahead_of_what_came_since [];
    both a_message_that_has_waited_for_longer_comes_first [];
    both nothing_waits_for_ever_behind_urgent_messages [];
    both a_head_start_is_at_most_a_day [];
    both a_message_that_is_given_back_keeps_its_head_start [];
    both a_message_that_is_retried_has_no_head_start [];
    both a_head_start_changes_nothing_about_the_order_of_a_lane [];
    both a_claim_of_its_topic_finds_an_urgent_message [];
}

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

async fn urgent(side: Side<'_>, h: &Harness, ahead: Duration) -> anyhow::Result<i64> {
    side.put(&Draft::new("urgent").due_at(h.now().minus(ahead))).await
}

async fn next(side: Side<'_>) -> anyhow::Result<Lease> {
    Ok(side.claim(1).await?.pop().ok_or_else(|| anyhow::anyhow!("nothing is ready"))?.lease)
}

async fn an_urgent_message_goes_ahead_of_what_came_since(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add_many("a", 300).await?;
        h.clock.advance(5 * SECOND);
        let later = urgent(side, h, 10 * SECOND).await?;
        let first = urgent(side, h, 20 * SECOND).await?;
        assert_eq!((next(side).await?.seq(), next(side).await?.seq()), (first, later));
        assert_eq!(side.claim(1000).await?.len(), 300);
    }
    // The same by the store's clock.
    h.outbox.enqueue(NewMessage::new("a", "{}")).await?;
    let id = h.outbox.enqueue(NewMessage::new("urgent", "{}").head_start(SECOND)).await?.id();
    let lease = next(h.side(Queue::Outbox)).await?;
    assert_eq!(h.outbox.find(id.as_uuid()).await?[0].seq(), lease.seq());
    Ok(())
}

async fn a_message_that_has_waited_for_longer_comes_first(h: &Harness) -> Verdict {
    for side in h.sides() {
        let old = side.add("a").await?;
        h.clock.advance(5 * SECOND);
        let urgent = urgent(side, h, 4 * SECOND).await?;
        assert_eq!((next(side).await?.seq(), next(side).await?.seq()), (old, urgent));
    }
    Ok(())
}

async fn nothing_waits_for_ever_behind_urgent_messages(h: &Harness) -> Verdict {
    for side in h.sides() {
        let plain = side.add("a").await?;
        let mut passed = 0;
        loop {
            h.clock.advance(SECOND);
            urgent(side, h, 10 * SECOND).await?;
            if next(side).await?.seq() == plain {
                break;
            }
            passed += 1;
        }
        assert_eq!(passed, 9, "until the others have come later by their head start");
    }
    Ok(())
}

async fn a_head_start_is_at_most_a_day(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seq = urgent(side, h, 400 * DAY).await?;
        assert_eq!(side.record(seq).await?.visible_at(), Some(h.now().minus(DAY)));
    }
    let too_long = NewMessage::new("a", "{}").head_start(DAY + SECOND);
    refused(h.outbox.enqueue(too_long).await, ErrorKind::InvalidInput, "a head start of more than a day")
}

async fn a_message_that_is_given_back_keeps_its_head_start(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add("a").await?;
        let seq = urgent(side, h, SECOND).await?;
        side.release(next(side).await?).await?;
        assert_eq!(next(side).await?.seq(), seq);
    }
    Ok(())
}

async fn a_message_that_is_retried_has_no_head_start(h: &Harness) -> Verdict {
    for side in h.sides() {
        let plain = side.add("a").await?;
        urgent(side, h, SECOND).await?;
        side.abandon(next(side).await?, "no").await?;
        h.clock.advance(2 * SECOND);
        assert_eq!(next(side).await?.seq(), plain);
    }
    Ok(())
}

async fn a_head_start_changes_nothing_about_the_order_of_a_lane(h: &Harness) -> Verdict {
    for side in h.sides() {
        let draft = Draft::new("a").lane("order-7");
        let first = side.put(&draft).await?;
        let second = side.put(&Draft { id: MessageId::new(), ..draft.clone() }).await?;
        let urgent = Draft { id: MessageId::new(), ..draft }.due_at(h.now().minus(SECOND));
        let third = side.put(&urgent).await?;
        let free = side.add("a").await?;
        let lease = next(side).await?;
        assert_eq!((lease.seq(), next(side).await?.seq()), (first, free));
        side.ack(lease).await?;
        let lease = next(side).await?;
        assert_eq!(lease.seq(), second);
        side.ack(lease).await?;
        // It counts when it has its turn.
        side.add("a").await?;
        assert_eq!(next(side).await?.seq(), third);
    }
    Ok(())
}

async fn a_claim_of_its_topic_finds_an_urgent_message(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add_many("a", 5).await?;
        let seq = urgent(side, h, SECOND).await?;
        assert_eq!(side.verbs().stats().await?.ready, 6);
        let topics = Topics::only(["urgent"])?;
        let claims = side.verbs().claim_topics(OwnerToken::new(), DAY, 10, &topics).await?;
        let [claimed] = &claims.claimed[..] else { anyhow::bail!("{} were claimed", claims.claimed.len()) };
        assert_eq!(claimed.lease.seq(), seq);
    }
    Ok(())
}

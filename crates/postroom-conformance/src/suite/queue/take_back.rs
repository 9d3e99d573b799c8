//! Messages that the program takes back before anybody handles them.

use std::time::Duration;

use postroom::NewMessage;
use postroom::message::WorkItemId;
use postroom::operator::Operator;
use postroom::queue::{Cancelled, Queue, State};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE};

cases! { take_back:
    both a_waiting_message_is_taken_back [];
    both a_message_that_failed_and_waits_is_taken_back [];
    both a_message_that_has_ended_is_not_touched [];
    both only_the_row_to_one_destination_is_taken_back [];
    both a_message_that_was_taken_back_is_a_duplicate_until_it_is_purged [];
    both of_a_claim_and_a_cancel_at_once_one_wins [];
    both what_was_taken_back_can_be_put_in_line_again [];
}

async fn a_waiting_message_is_taken_back(h: &Harness) -> Verdict {
    let side = h.side(Queue::Outbox);
    let now = Draft::new("a");
    let later = Draft::new("a").due_at(h.now().plus(LEASE));
    for draft in [now, later] {
        let (seq, id) = (side.put(&draft).await?, draft.outgoing().work_item_id());
        h.clock.advance(Duration::from_secs(1));
        assert_eq!(h.outbox.cancel(id).await?, Cancelled::Waiting);
        let record = side.record(seq).await?;
        assert_eq!((record.state(), record.processed_at()), (State::Dismissed, Some(h.now())));
        assert_eq!((record.visible_at(), record.dismissal().and_then(Operator::why)), (None, Some("cancelled")));
        assert_eq!(h.outbox.cancel(id).await?, Cancelled::TooLate, "it was taken back before");
    }
    h.clock.advance(LEASE * 2);
    assert!(side.claim(10).await?.is_empty());
    let stats = side.verbs().stats().await?;
    assert_eq!((stats.ready, stats.dismissed, stats.total()), (0, 2, 2));
    assert!(side.verbs().audit(10).await?.is_empty(), "the trail is for what people do");
    Ok(())
}

async fn a_message_that_failed_and_waits_is_taken_back(h: &Harness) -> Verdict {
    let (side, draft) = (h.side(Queue::Outbox), Draft::new("a"));
    let seq = side.put(&draft).await?;
    side.abandon(side.claim_one().await?, "billing is down").await?;
    assert_eq!(h.outbox.cancel(draft.outgoing().work_item_id()).await?, Cancelled::Waiting);
    let record = side.record(seq).await?;
    assert_eq!((record.state(), record.last_error()), (State::Dismissed, Some("billing is down")));
    h.clock.advance(LEASE * 100);
    assert!(side.claim(10).await?.is_empty());
    Ok(())
}

async fn a_message_that_has_ended_is_not_touched(h: &Harness) -> Verdict {
    let side = h.side(Queue::Outbox);
    let unknown = Draft::new("unknown").outgoing().work_item_id();
    assert_eq!(h.outbox.cancel(unknown).await?, Cancelled::Unknown);
    for end in [State::Done, State::Dead, State::Expired] {
        let draft = Draft::new("a").ttl(LEASE * 3);
        let (seq, id) = (side.put(&draft).await?, draft.outgoing().work_item_id());
        let lease = side.claim_one().await?;
        match end {
            State::Done => side.ack(lease).await?,
            State::Dead => side.fail(lease, "no such order").await?,
            _ => {
                side.release(lease).await?;
                h.clock.advance(LEASE * 3);
                assert_eq!(side.verbs().expire(10).await?, 1);
            }
        }
        assert_eq!(h.outbox.cancel(id).await?, Cancelled::TooLate, "{end:?}");
        let record = side.record(seq).await?;
        assert_eq!((record.state(), record.dismissal()), (end, None));
    }
    Ok(())
}

async fn only_the_row_to_one_destination_is_taken_back(h: &Harness) -> Verdict {
    let message = NewMessage::new("a", "");
    let to = |service| message.clone().to(service);
    h.outbox.enqueue_many(vec![to("billing"), to("shipping")]).await?;
    let to_nobody = WorkItemId::of(message.message_id(), None);
    assert_eq!(h.outbox.cancel(to_nobody).await?, Cancelled::Unknown, "there is none without one");
    assert_eq!(h.outbox.cancel(WorkItemId::of(message.message_id(), Some("billing"))).await?, Cancelled::Waiting);
    let claimed = h.side(Queue::Outbox).claim(10).await?;
    let left = claimed.iter().filter_map(|claimed| claimed.message.as_ref().ok()?.destination());
    assert_eq!(left.collect::<Vec<_>>(), ["shipping"]);
    Ok(())
}

async fn a_message_that_was_taken_back_is_a_duplicate_until_it_is_purged(h: &Harness) -> Verdict {
    let (side, draft) = (h.side(Queue::Outbox), Draft::new("a"));
    side.put(&draft).await?;
    assert_eq!(h.outbox.cancel(draft.outgoing().work_item_id()).await?, Cancelled::Waiting);
    assert!(h.outbox.enqueue(draft.outgoing()).await?.is_duplicate());
    assert!(side.claim(10).await?.is_empty());
    h.clock.advance(LEASE * 2);
    assert_eq!(side.verbs().purge_state(State::Dismissed, LEASE, 10).await?, 1);
    assert!(h.outbox.enqueue(draft.outgoing()).await?.is_new());
    Ok(())
}

async fn of_a_claim_and_a_cancel_at_once_one_wins(h: &Harness) -> Verdict {
    const MESSAGES: usize = 40;
    let side = h.side(Queue::Outbox);
    let messages: Vec<_> = (0..MESSAGES).map(|_| NewMessage::new("a", "")).collect();
    let ids: Vec<_> = messages.iter().map(NewMessage::work_item_id).collect();
    h.outbox.enqueue_many(messages).await?;
    let cancelling = async {
        let mut cancelled = 0;
        for id in ids.into_iter().rev() {
            cancelled += usize::from(h.outbox.cancel(id).await? == Cancelled::Waiting);
        }
        anyhow::Ok(cancelled)
    };
    let claiming = async {
        let mut claimed = 0;
        for _ in 0..MESSAGES / 2 {
            claimed += side.claim(1).await?.len();
        }
        anyhow::Ok(claimed)
    };
    let (cancelled, claimed) = tokio::try_join!(cancelling, claiming)?;
    let left = side.claim(MESSAGES).await?.len();
    assert_eq!(cancelled + claimed + left, MESSAGES, "each message has one fate");
    let stats = side.verbs().stats().await?;
    assert_eq!((stats.leased, stats.dismissed), ((claimed + left) as u64, cancelled as u64));
    Ok(())
}

async fn what_was_taken_back_can_be_put_in_line_again(h: &Harness) -> Verdict {
    let (side, draft) = (h.side(Queue::Outbox), Draft::new("a"));
    let seq = side.put(&draft).await?;
    assert_eq!(h.outbox.cancel(draft.outgoing().work_item_id()).await?, Cancelled::Waiting);
    let taken_back = postroom::operator::Filter::one(seq).state(State::Dismissed);
    assert_eq!(side.verbs().revive(taken_back, None).await?, 1);
    side.ack(side.claim_one().await?).await?;
    assert_eq!(side.state(seq).await?, State::Done);
    Ok(())
}

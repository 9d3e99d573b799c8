//! Messages that arrive, once or again.

use std::time::Duration;

use postroom::Incoming;
use postroom::message::{Origin, hash_bytes};
use postroom::operator::Record;
use postroom::queue::{Lease, Queue, Settle, State};
use postroom::store::Arrival;
use tokio::task::JoinSet;

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, readable};

cases! { arrive:
    both the_first_time_it_gets_in_line ["IBX-013", "IBX-027", "API-1.5.1"];
    both many_at_once_make_one_row ["IBX-014"];
    both the_same_content_again_moves_last_seen_and_nothing_else ["IBX-014", "IBX-026", "API-4.1"];
    both a_done_message_is_left_alone ["IBX-028"];
    both a_seen_message_gets_in_line ["IBX-029"];
    both a_seen_message_takes_the_attempts_it_is_enqueued_with [];
    both other_content_replaces_a_waiting_one ["IBX-029"];
    both other_content_shortens_no_backoff ["IBX-029"];
    both other_content_voids_a_running_lease ["IBX-029"];
    both other_content_for_a_message_handled_elsewhere_is_stored ["IBX-029"];
    both other_content_for_a_dead_message_leaves_it_dead ["IBX-029"];
    both another_due_time_is_other_content ["IBX-029"];
    both another_hash_replaces_the_first ["IBX-029", "IBX-008"];
    both accepting_keeps_the_first_content [];
    both accepting_a_seen_message_puts_it_in_line [];
}

async fn get(h: &Harness, draft: &Draft) -> anyhow::Result<Record> {
    h.inbox.get(&draft.key()?).await?.ok_or_else(|| anyhow::anyhow!("it is not known"))
}

fn payload(record: &Record) -> anyhow::Result<&str> {
    Ok(&readable(record)?.payload)
}

fn other(draft: &Draft) -> anyhow::Result<Incoming> {
    let mut other = draft.clone().payload("other");
    other.topic = "other.topic".into();
    Ok(other.incoming()?.hash(hash_bytes("other")))
}

async fn is_other(h: &Harness, draft: &Draft) -> Verdict {
    let record = get(h, draft).await?;
    let message = readable(&record)?;
    assert_eq!((message.topic.as_str(), message.payload.as_str()), ("other.topic", "other"));
    assert!(matches!(&message.origin, Origin::Inbox { hash: Some(hash), .. } if *hash == hash_bytes("other").into()));
    Ok(())
}

async fn the_first_time_it_gets_in_line(h: &Harness) -> Verdict {
    let draft = Draft::new("a");
    assert_eq!(h.inbox.enqueue(draft.incoming()?).await?, Arrival::First);
    let record = get(h, &draft).await?;
    assert_eq!((record.state(), record.attempts(), record.visible_at()), (State::Ready, 0, Some(h.now())));
    Ok(())
}

async fn many_at_once_make_one_row(h: &Harness) -> Verdict {
    let draft = Draft::new("a");
    let mut arriving = JoinSet::new();
    for n in 0..32 {
        let (inbox, incoming) = (h.inbox.clone(), draft.incoming()?);
        arriving.spawn(
            async move { if n % 2 == 0 { inbox.enqueue(incoming).await } else { inbox.accept(incoming).await } },
        );
    }
    let mut first = 0;
    while let Some(arrival) = arriving.join_next().await {
        first += usize::from(!arrival??.is_duplicate());
    }
    assert_eq!(first, 1);
    assert_eq!(h.inbox.queue().stats().await?.total(), 1);
    Ok(())
}

async fn the_same_content_again_moves_last_seen_and_nothing_else(h: &Harness) -> Verdict {
    let draft = Draft::new("a");
    let seq = h.side(Queue::Inbox).put(&draft).await?;
    let lease = h.side(Queue::Inbox).claim_one().await?;
    h.clock.advance(Duration::from_secs(1));
    let arrival = h.inbox.enqueue(draft.incoming()?).await?;
    assert_eq!(arrival, Arrival::Known { done: false, differs: false });
    let record = get(h, &draft).await?;
    assert_eq!((record.seq(), record.state(), record.claim_no()), (seq, State::Leased, 1));
    let message = readable(&record)?;
    assert!(matches!(message.origin, Origin::Inbox { last_seen_at, .. } if last_seen_at == h.now()));
    assert_eq!(message.created_at, h.now().minus(Duration::from_secs(1)));
    h.side(Queue::Inbox).ack(lease).await
}

async fn a_done_message_is_left_alone(h: &Harness) -> Verdict {
    let draft = Draft::new("a");
    h.inbox.enqueue(draft.incoming()?).await?;
    let lease = h.side(Queue::Inbox).claim_one().await?;
    h.side(Queue::Inbox).settle(Settle::ack_with(lease, Some("answer".into()))).await?;
    h.clock.advance(LEASE);
    let same = h.inbox.enqueue(draft.incoming()?).await?;
    assert_eq!(same, Arrival::Known { done: true, differs: false });
    assert_eq!(h.inbox.enqueue(other(&draft)?).await?, Arrival::Known { done: true, differs: true });
    let record = get(h, &draft).await?;
    assert_eq!((record.state(), record.response(), payload(&record)?), (State::Done, Some("answer"), "{}"));
    assert!(h.side(Queue::Inbox).claim(10).await?.is_empty());
    Ok(())
}

async fn a_seen_message_gets_in_line(h: &Harness) -> Verdict {
    let draft = Draft::new("a");
    assert!(!h.inbox.already_processed(&draft.key()?).await?);
    h.clock.advance(Duration::from_secs(1));
    assert_eq!(h.inbox.enqueue(other(&draft)?).await?, Arrival::Seen { hash_differs: false });
    is_other(h, &draft).await?;
    let lease = h.side(Queue::Inbox).claim_one().await?;
    assert_eq!(lease.claim_no(), 1);
    Ok(())
}

async fn a_seen_message_takes_the_attempts_it_is_enqueued_with(h: &Harness) -> Verdict {
    let draft = Draft::new("a").max_attempts(3);
    assert!(!h.inbox.already_processed(&draft.key()?).await?);
    h.inbox.enqueue(draft.incoming()?).await?;
    assert_eq!(readable(&get(h, &draft).await?)?.max_attempts, Some(3));
    Ok(())
}

async fn other_content_replaces_a_waiting_one(h: &Harness) -> Verdict {
    let draft = Draft::new("a");
    let seq = h.side(Queue::Inbox).put(&draft).await?;
    assert_eq!(h.inbox.enqueue(other(&draft)?).await?, Arrival::Replaced);
    is_other(h, &draft).await?;
    let claimed = h.side(Queue::Inbox).claim(10).await?.remove(0);
    assert_eq!(claimed.lease.seq(), seq);
    assert_eq!(claimed.message.map_err(anyhow::Error::msg)?.payload, "other");
    Ok(())
}

async fn other_content_shortens_no_backoff(h: &Harness) -> Verdict {
    let (draft, side) = (Draft::new("a"), h.side(Queue::Inbox));
    side.put(&draft).await?;
    let lease = side.claim_one().await?;
    side.settle(Settle::abandon(lease, Duration::from_secs(60), "x")?).await?;
    let next = get(h, &draft).await?.visible_at();
    assert_eq!(h.inbox.enqueue(other(&draft)?).await?, Arrival::Replaced);
    let record = get(h, &draft).await?;
    assert_eq!((record.visible_at(), record.attempts()), (next, 1));
    assert!(side.claim(10).await?.is_empty());
    Ok(())
}

async fn other_content_voids_a_running_lease(h: &Harness) -> Verdict {
    let (draft, side) = (Draft::new("a"), h.side(Queue::Inbox));
    side.put(&draft).await?;
    let lease: Lease = side.claim_one().await?;
    assert_eq!(h.inbox.enqueue(other(&draft)?).await?, Arrival::Replaced);
    let record = get(h, &draft).await?;
    assert_eq!((record.owner(), record.claim_no(), record.state()), (None, 2, State::Leased));
    assert_eq!(side.verbs().ack([lease.clone()]).await?.lost, 1, "the old content was handled, not this one");
    assert!(side.claim(10).await?.is_empty(), "the old handler may still be at work");
    h.clock.advance(LEASE);
    let again = side.claim(10).await?.remove(0);
    assert_eq!((again.lease.claim_no(), again.lease.crashes()), (3, 0), "that was no crash");
    assert_eq!(again.message.map_err(anyhow::Error::msg)?.payload, "other");
    side.ack(again.lease).await
}

async fn other_content_for_a_message_handled_elsewhere_is_stored(h: &Harness) -> Verdict {
    let draft = Draft::new("a");
    assert!(!h.inbox.already_processed(&draft.key()?).await?);
    assert!(h.inbox.mark_processing(&draft.key()?).await?);
    assert_eq!(h.inbox.enqueue(other(&draft)?).await?, Arrival::Replaced);
    is_other(h, &draft).await?;
    assert_eq!(get(h, &draft).await?.state(), State::Processing);
    Ok(())
}

async fn other_content_for_a_dead_message_leaves_it_dead(h: &Harness) -> Verdict {
    let (draft, side) = (Draft::new("a"), h.side(Queue::Inbox));
    side.put(&draft).await?;
    let lease = side.claim_one().await?;
    side.fail(lease, "x").await?;
    assert_eq!(h.inbox.enqueue(other(&draft)?).await?, Arrival::Replaced);
    is_other(h, &draft).await?;
    assert_eq!(get(h, &draft).await?.state(), State::Dead);
    assert!(side.claim(10).await?.is_empty());
    Ok(())
}

async fn another_due_time_is_other_content(h: &Harness) -> Verdict {
    let draft = Draft::new("a");
    h.inbox.enqueue(draft.incoming()?).await?;
    let due = h.now().plus(LEASE);
    assert_eq!(h.inbox.enqueue(draft.incoming()?.due_at(due)).await?, Arrival::Replaced);
    assert_eq!(get(h, &draft).await?.visible_at(), Some(due));
    assert!(h.side(Queue::Inbox).claim(10).await?.is_empty());
    Ok(())
}

async fn another_hash_replaces_the_first(h: &Harness) -> Verdict {
    let draft = Draft::new("a");
    h.setup.logs.listen();
    h.inbox.enqueue(draft.incoming()?.hash(hash_bytes("a"))).await?;
    h.inbox.enqueue(draft.incoming()?.hash(hash_bytes("b"))).await?;
    let record = get(h, &draft).await?;
    let message = readable(&record)?;
    assert!(matches!(&message.origin, Origin::Inbox { hash: Some(hash), .. } if *hash == hash_bytes("b").into()));
    let warned = h.setup.logs.saying("inbox: the same id arrived with different content");
    assert_eq!(warned.len(), 1);
    Ok(())
}

async fn accepting_keeps_the_first_content(h: &Harness) -> Verdict {
    let (draft, side) = (Draft::new("a"), h.side(Queue::Inbox));
    assert_eq!(h.inbox.accept(draft.incoming()?).await?, Arrival::First);
    for state in [State::Ready, State::Leased] {
        assert_eq!(get(h, &draft).await?.state(), state);
        let known = h.inbox.accept(other(&draft)?).await?;
        assert_eq!(known, Arrival::Known { done: false, differs: true });
        assert_eq!(payload(&get(h, &draft).await?)?, "{}");
        side.claim(10).await?;
    }
    let same = h.inbox.accept(draft.incoming()?).await?;
    assert_eq!(same, Arrival::Known { done: false, differs: false });
    Ok(())
}

async fn accepting_a_seen_message_puts_it_in_line(h: &Harness) -> Verdict {
    let draft = Draft::new("a");
    assert!(!h.inbox.already_processed(&draft.key()?).await?);
    assert_eq!(h.inbox.accept(draft.incoming()?).await?, Arrival::Seen { hash_differs: false });
    h.side(Queue::Inbox).claim_one().await?;
    Ok(())
}

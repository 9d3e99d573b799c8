//! Enqueuing messages.

use std::collections::HashSet;
use std::time::Duration;

use postroom::message::{Origin, OwnerToken};
use postroom::operator::Filter;
use postroom::queue::State;
use postroom::{ErrorKind, Inbox, MessageId, NewMessage, Outbox};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Stage, Testable, readable, refused};

cases! { enqueue:
    both a_message_is_stored_when_the_call_returns ["OBX-001", "OBX-002", "IBX-013"];
    durable a_message_outlives_its_store ["OBX-001", "IBX-013"];
    both many_messages_are_stored_together_or_not_at_all ["OBX-002", "OBX-080"];
    both a_new_message_starts_from_zero ["OBX-015", "OBX-016", "IBX-025", "IBX-027", "SQM-3.1.2"];
    both every_message_has_an_id_of_its_own ["OBX-014", "SQM-3.2.2"];
    both the_same_message_twice_is_stored_once ["OBX-014"];
    both a_message_is_stored_once_whether_or_not_its_id_was_given ["OBX-014"];
    both one_message_to_two_destinations_is_two_work_items ["OBX-014"];
    both a_due_time_in_the_future_keeps_a_message_back ["OBX-012", "OBX-018", "IBX-023", "IBX-032", "API-1.5.2"];
    both a_due_time_in_the_past_is_no_due_time ["OBX-013", "IBX-024"];
    both a_delay_counts_from_the_stores_clock ["OBX-012"];
    both nothing_to_enqueue_is_no_work [];
}

async fn a_message_is_stored_when_the_call_returns(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seq = side.put(&Draft::new("order.placed").payload("seven")).await?;
        let record = side.record(seq).await?;
        let message = readable(&record)?;
        assert_eq!((message.topic.as_str(), message.payload.as_str()), ("order.placed", "seven"));
    }
    Ok(())
}

async fn a_message_outlives_its_store<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        side.put(&Draft::new("order.placed").payload("seven")).await?;
    }
    // A second store knows only what is in the database.
    let again = B::open(&stage.place).await?;
    let (outbox, inbox) = (Outbox::new(again.clone()), Inbox::new(again));
    for queue in [outbox.queue(), inbox.queue()] {
        let stored = queue.list(Filter::all()).await?;
        let payloads = stored.iter().map(|record| readable(record).map(|message| message.payload.as_str()));
        assert_eq!(payloads.collect::<anyhow::Result<Vec<_>>>()?, ["seven"], "{}", queue.kind());
    }
    Ok(())
}

async fn many_messages_are_stored_together_or_not_at_all(h: &Harness) -> Verdict {
    let batch = vec![NewMessage::new("a", "1"), NewMessage::new("b", "2"), NewMessage::new("", "3")];
    refused(h.outbox.enqueue_many(batch).await, ErrorKind::InvalidInput, "a batch with a bad message")?;
    assert_eq!(h.outbox.queue().stats().await?.total(), 0);
    h.outbox.enqueue_many(vec![NewMessage::new("a", "1"), NewMessage::new("b", "2")]).await?;
    assert_eq!(h.outbox.queue().stats().await?.ready, 2);
    Ok(())
}

async fn a_new_message_starts_from_zero(h: &Harness) -> Verdict {
    h.clock.advance(Duration::from_micros(17));
    for side in h.sides() {
        let seq = side.add("a").await?;
        let record = side.record(seq).await?;
        assert_eq!((record.state(), record.attempts(), record.crashes()), (State::Ready, 0, 0));
        assert_eq!((record.processed_at(), record.owner(), record.last_error()), (None, None, None));
        let message = readable(&record)?;
        assert_eq!(message.created_at, h.now());
        assert_eq!(message.attempts, 0);
        if let Origin::Inbox { last_seen_at, .. } = &message.origin {
            assert_eq!(*last_seen_at, h.now());
            assert_eq!(record.state().name(side.queue), "Processing");
        }
    }
    Ok(())
}

async fn every_message_has_an_id_of_its_own(h: &Harness) -> Verdict {
    let messages: Vec<_> = (0..500).map(|_| NewMessage::new("a", "same")).collect();
    let stored = h.outbox.enqueue_many(messages).await?;
    let ids: HashSet<_> = stored.iter().map(|stored| stored.id()).collect();
    assert_eq!(ids.len(), 500);
    assert!(stored.iter().all(|stored| stored.is_new()));
    Ok(())
}

async fn the_same_message_twice_is_stored_once(h: &Harness) -> Verdict {
    let message = NewMessage::new("a", "first").id(MessageId::new());
    let first = h.outbox.enqueue(message.clone()).await?;
    let again = h.outbox.enqueue_many(vec![message.clone(), message.clone()]).await?;
    assert!(first.is_new() && again.iter().all(|again| again.is_duplicate() && again.id() == first.id()));
    assert_eq!(h.outbox.queue().stats().await?.total(), 1);
    Ok(())
}

async fn a_message_is_stored_once_whether_or_not_its_id_was_given(h: &Harness) -> Verdict {
    let [first, second] = [(); 2].map(|()| NewMessage::new("a", ""));
    assert!(h.outbox.enqueue(first.clone()).await?.is_new());
    assert!(h.outbox.enqueue(first.clone()).await?.is_duplicate());
    let stored = h.outbox.enqueue_many([first.clone(), second.clone(), second.clone()]).await?;
    assert_eq!(stored.iter().map(|stored| stored.is_new()).collect::<Vec<_>>(), [false, true, false]);
    let given = NewMessage::new("a", "").id(second.message_id());
    assert!(h.outbox.enqueue(given).await?.is_duplicate());
    assert_eq!(h.outbox.queue().stats().await?.ready, 2);
    Ok(())
}

async fn one_message_to_two_destinations_is_two_work_items(h: &Harness) -> Verdict {
    let message = NewMessage::new("a", "x");
    let id = message.message_id();
    let billing = h.outbox.enqueue(message.clone().to("billing")).await?;
    let shipping = h.outbox.enqueue(message.clone().to("shipping")).await?;
    assert_ne!(billing.id(), shipping.id());
    assert!(shipping.is_new());
    assert_eq!(h.outbox.find(id.as_uuid()).await?.len(), 2);
    assert_eq!(h.outbox.find(billing.id().as_uuid()).await?.len(), 1);
    assert!(h.outbox.enqueue(message.to("billing")).await?.is_duplicate());
    Ok(())
}

async fn a_due_time_in_the_future_keeps_a_message_back(h: &Harness) -> Verdict {
    let hour = Duration::from_secs(3600);
    for side in h.sides() {
        let due = h.now().plus(hour);
        side.put(&Draft::new("a").due_at(due)).await?;
        h.clock.advance(hour - Duration::from_micros(1));
        let early = side.verbs().claim(OwnerToken::new(), LEASE, 10).await?;
        assert!(early.claimed.is_empty(), "{} gave it out too early", side.queue);
        assert_eq!(early.next_at, Some(due));
        h.clock.advance(Duration::from_micros(1));
        let on_time = side.claim_one().await?;
        side.ack(on_time).await?;
    }
    Ok(())
}

async fn a_due_time_in_the_past_is_no_due_time(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.put(&Draft::new("a").due_at(h.now().minus(Duration::from_secs(1)))).await?;
        side.put(&Draft::new("b")).await?;
        assert_eq!(side.claim(10).await?.len(), 2);
    }
    Ok(())
}

async fn a_delay_counts_from_the_stores_clock(h: &Harness) -> Verdict {
    h.outbox.enqueue(NewMessage::new("a", "").due_after(Duration::from_secs(5))).await?;
    let record = h.outbox.queue().list(Filter::all()).await?.remove(0);
    assert_eq!(record.visible_at(), Some(h.now().plus(Duration::from_secs(5))));
    Ok(())
}

async fn nothing_to_enqueue_is_no_work(h: &Harness) -> Verdict {
    assert!(h.outbox.enqueue_many(Vec::<NewMessage>::new()).await?.is_empty());
    Ok(())
}

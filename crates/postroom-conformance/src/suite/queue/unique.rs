//! Unique keys: at most one message has a key at a time.

use std::time::Duration;

use postroom::message::{Unique, WorkItemId};
use postroom::operator::{Operator, Record};
use postroom::queue::{Cancelled, Queue, Settle, State};
use postroom::{ErrorKind, NewMessage};

use crate::case::{Verdict, cases};
use crate::harness::{Harness, LEASE, refused};

cases! { unique:
    keyed the_first_message_stays_while_it_waits [];
    keyed a_message_waits_for_its_next_attempt_too [];
    keyed a_message_that_has_begun_lets_the_next_one_wait [];
    keyed until_it_is_done_means_also_while_it_is_handled [];
    keyed a_message_that_ended_otherwise_has_no_key [];
    keyed a_message_that_is_about_to_expire_has_no_key [];
    keyed a_message_that_has_begun_keeps_its_key_beyond_its_time_to_live [];
    keyed a_key_for_a_time_outlasts_its_message [];
    keyed the_newest_takes_the_place_of_one_that_waits [];
    keyed one_that_has_its_key_and_does_not_wait_is_not_replaced [];
    keyed a_message_in_a_lane_is_replaced_like_any_other [];
    keyed a_refused_message_names_the_other_and_leaves_nothing [];
    keyed the_same_message_again_is_its_own_duplicate [];
    keyed a_message_that_is_repeated_does_not_replace_a_newer_one [];
    keyed a_message_is_found_and_cancelled_by_its_key [];
    keyed keys_are_kept_apart_byte_by_byte [];
    keyed a_key_that_is_not_allowed_is_refused [];
    keyed maintenance_forgets_keys_that_nobody_has [];
    mssql a_database_without_keys_says_so [];
}

const SECOND: Duration = Duration::from_secs(1);

pub(super) fn index(unique: Unique) -> NewMessage {
    NewMessage::new("page.changed", "{}").unique(unique)
}

async fn record(h: &Harness, id: WorkItemId) -> anyhow::Result<Record> {
    let mut found = h.outbox.find(id.as_uuid()).await?;
    anyhow::ensure!(found.len() == 1, "there are {} rows of {id}", found.len());
    Ok(found.remove(0))
}

/// The next message is stored.
pub(super) async fn is_free(h: &Harness, unique: &Unique) -> anyhow::Result<WorkItemId> {
    let stored = h.outbox.enqueue(index(unique.clone())).await?;
    anyhow::ensure!(stored.is_new(), "{} has the key", stored.id());
    Ok(stored.id())
}

/// The next message is not stored, because of this one.
async fn is_had_by(h: &Harness, unique: &Unique, id: WorkItemId) -> Verdict {
    let rows = h.side(Queue::Outbox).rows().await?;
    let stored = h.outbox.enqueue(index(unique.clone())).await?;
    anyhow::ensure!(stored.is_duplicate() && stored.id() == id && stored.replaced().is_none(), "{stored:?}, not {id}");
    anyhow::ensure!(h.side(Queue::Outbox).rows().await? == rows, "something was stored");
    Ok(())
}

async fn the_first_message_stays_while_it_waits(h: &Harness) -> Verdict {
    let unique = Unique::while_waiting("page-7");
    let first = is_free(h, &unique).await?;
    is_had_by(h, &unique, first).await?;
    is_free(h, &Unique::while_waiting("page-8")).await?;
    h.advance(LEASE * 1000);
    is_had_by(h, &unique, first).await
}

async fn a_message_waits_for_its_next_attempt_too(h: &Harness) -> Verdict {
    let (side, unique) = (h.side(Queue::Outbox), Unique::while_waiting("page-7"));
    let first = is_free(h, &unique).await?;
    side.abandon(side.claim_one().await?, "the index is down").await?;
    is_had_by(h, &unique, first).await
}

async fn a_message_that_has_begun_lets_the_next_one_wait(h: &Harness) -> Verdict {
    let (side, unique) = (h.side(Queue::Outbox), Unique::while_waiting("page-7"));
    is_free(h, &unique).await?;
    let lease = side.claim_one().await?;
    let second = is_free(h, &unique).await?;
    is_had_by(h, &unique, second).await?;
    // The first one fails, and both wait.
    side.abandon(lease, "the index is down").await?;
    is_had_by(h, &unique, second).await?;
    h.advance(SECOND * 2);
    assert_eq!(side.claim(10).await?.len(), 2);
    is_free(h, &unique).await.map(drop)
}

async fn until_it_is_done_means_also_while_it_is_handled(h: &Harness) -> Verdict {
    let (side, unique) = (h.side(Queue::Outbox), Unique::until_done("page-7"));
    let first = is_free(h, &unique).await?;
    is_had_by(h, &unique, first).await?;
    let lease = side.claim_one().await?;
    is_had_by(h, &unique, first).await?;
    side.ack(lease).await?;
    is_free(h, &unique).await.map(drop)
}

async fn a_message_that_ended_otherwise_has_no_key(h: &Harness) -> Verdict {
    let (side, unique) = (h.side(Queue::Outbox), Unique::until_done("page-7"));
    is_free(h, &unique).await?;
    side.fail(side.claim_one().await?, "no such page").await?;
    let second = is_free(h, &unique).await?;
    assert_eq!(h.outbox.cancel(second).await?, Cancelled::Waiting);
    is_free(h, &unique).await.map(drop)
}

async fn a_message_that_is_about_to_expire_has_no_key(h: &Harness) -> Verdict {
    let short = index(Unique::while_waiting("page-7")).expires_after(SECOND);
    let first = h.outbox.enqueue(short).await?;
    h.advance(SECOND);
    let replacing = Unique::while_waiting("page-7").or_replace();
    let second = h.outbox.enqueue(index(replacing)).await?;
    assert!(second.is_new() && second.replaced().is_none(), "{second:?}");
    h.outbox.queue().expire(10).await?;
    assert_eq!(record(h, first.id()).await?.state(), State::Expired);
    // A key for a time does not depend on its message.
    let unique = Unique::within("page-8", SECOND * 60).or_replace();
    let first = h.outbox.enqueue(index(unique.clone()).expires_after(SECOND)).await?;
    h.advance(SECOND);
    is_had_by(h, &unique, first.id()).await
}

async fn a_message_that_has_begun_keeps_its_key_beyond_its_time_to_live(h: &Harness) -> Verdict {
    let (side, unique) = (h.side(Queue::Outbox), Unique::until_done("page-7"));
    let first = h.outbox.enqueue(index(unique.clone()).expires_after(SECOND)).await?.id();
    let lease = side.claim_one().await?;
    h.advance(SECOND * 2);
    is_had_by(h, &unique, first).await?;
    side.ack(lease).await?;
    is_free(h, &unique).await.map(drop)
}

async fn a_key_for_a_time_outlasts_its_message(h: &Harness) -> Verdict {
    let (side, unique) = (h.side(Queue::Outbox), Unique::within("page-7", SECOND * 60));
    let first = is_free(h, &unique).await?;
    side.ack(side.claim_one().await?).await?;
    h.advance(SECOND * 30);
    h.outbox.queue().purge_state(State::Done, SECOND, 10).await?;
    is_had_by(h, &unique, first).await?;
    h.advance(SECOND * 30);
    let second = is_free(h, &unique).await?;
    h.advance(SECOND * 59);
    is_had_by(h, &Unique::while_waiting("page-7"), second).await?;
    // The one that has the key says for how long, not the one that wants it.
    h.advance(SECOND);
    is_free(h, &Unique::until_done("page-7")).await.map(drop)
}

async fn the_newest_takes_the_place_of_one_that_waits(h: &Harness) -> Verdict {
    let (side, unique) = (h.side(Queue::Outbox), Unique::while_waiting("page-7").or_replace());
    let first = is_free(h, &unique).await?;
    h.advance(SECOND);
    let second = h.outbox.enqueue(index(unique.clone())).await?;
    assert!(second.is_new() && second.replaced() == Some(first), "{second:?}");
    let old = record(h, first).await?;
    assert_eq!((old.state(), old.processed_at()), (State::Dismissed, Some(h.now())));
    assert_eq!(old.dismissal().map(Operator::who), Some("postroom"));
    assert_eq!(old.dismissal().and_then(Operator::why), Some("replaced under its unique key"));
    // One that was tried before is replaced as well, and keeps what happened to it.
    side.abandon(side.claim_one().await?, "the index is down").await?;
    let third = h.outbox.enqueue(index(unique)).await?;
    assert_eq!(third.replaced(), Some(second.id()));
    assert_eq!(record(h, second.id()).await?.last_error(), Some("the index is down"));
    let claimed = side.claim(10).await?;
    assert_eq!(claimed.len(), 1);
    side.settle(Settle::ack(claimed[0].lease.clone())).await?;
    assert_eq!(record(h, third.id()).await?.state(), State::Done);
    Ok(())
}

async fn one_that_has_its_key_and_does_not_wait_is_not_replaced(h: &Harness) -> Verdict {
    let side = h.side(Queue::Outbox);
    for unique in [Unique::until_done("page-7"), Unique::within("page-8", SECOND * 60)].map(Unique::or_replace) {
        let first = is_free(h, &unique).await?;
        let lease = side.claim_one().await?;
        is_had_by(h, &unique, first).await?;
        side.ack(lease).await?;
    }
    let unique = Unique::while_waiting("page-9").or_replace();
    let first = is_free(h, &unique).await?;
    let lease = side.claim_one().await?;
    is_free(h, &unique).await?;
    side.ack(lease).await?;
    assert_eq!(record(h, first).await?.state(), State::Done, "what is being handled has begun with what it was given");
    Ok(())
}

async fn a_message_in_a_lane_is_replaced_like_any_other(h: &Harness) -> Verdict {
    let (side, unique) = (h.side(Queue::Outbox), Unique::while_waiting("page-7").or_replace());
    let in_lane = |message: NewMessage| message.lane("pages");
    let head = h.outbox.enqueue(in_lane(NewMessage::new("page.changed", "{}"))).await?.id();
    let second = h.outbox.enqueue(in_lane(index(unique.clone()))).await?;
    let third = h.outbox.enqueue(in_lane(index(unique.clone()))).await?;
    assert_eq!(third.replaced(), Some(second.id()));
    let lease = side.claim_one().await?;
    assert_eq!(record(h, head).await?.state(), State::Leased);
    let fourth = h.outbox.enqueue(in_lane(index(unique.clone()))).await?;
    assert_eq!(fourth.replaced(), Some(third.id()), "it waits for its turn");
    is_had_by(h, &Unique::while_waiting("page-7"), fourth.id()).await?;
    side.ack(lease).await?;
    side.ack(side.claim_one().await?).await?;
    assert_eq!(record(h, fourth.id()).await?.state(), State::Done);
    Ok(())
}

async fn a_refused_message_names_the_other_and_leaves_nothing(h: &Harness) -> Verdict {
    let (side, unique) = (h.side(Queue::Outbox), Unique::until_done("page-7").or_refuse());
    let first = is_free(h, &unique).await?;
    let before = NewMessage::new("page.read", "{}");
    let batch = [before.clone(), index(unique.clone()), NewMessage::new("page.read", "{}")];
    refused(h.outbox.enqueue_many(batch).await, ErrorKind::Duplicate, &first.to_string())?;
    assert_eq!(side.rows().await?, 1);
    assert!(h.outbox.enqueue(before).await?.is_new());
    side.claim(10).await?;
    refused(h.outbox.enqueue(index(unique)).await, ErrorKind::Duplicate, &first.to_string())
}

async fn the_same_message_again_is_its_own_duplicate(h: &Harness) -> Verdict {
    let first = index(Unique::while_waiting("page-7").or_replace());
    let id = h.outbox.enqueue(first.clone()).await?.id();
    let again = h.outbox.enqueue(first.clone()).await?;
    assert!(again.is_duplicate() && again.id() == id && again.replaced().is_none(), "{again:?}");
    assert_eq!(record(h, id).await?.state(), State::Ready);
    let refusing = first.unique(Unique::while_waiting("page-7").or_refuse());
    assert!(h.outbox.enqueue(refusing).await?.is_duplicate(), "it has the key itself");
    Ok(())
}

/// A client that got no answer sends the message again.
async fn a_message_that_is_repeated_does_not_replace_a_newer_one(h: &Harness) -> Verdict {
    let side = h.side(Queue::Outbox);
    let replacing = || index(Unique::while_waiting("page-7").or_replace());
    let (first, second) = (replacing(), replacing());
    h.outbox.enqueue(first.clone()).await?;
    let stored = h.outbox.enqueue(second.clone()).await?;
    assert_eq!(stored.replaced(), Some(first.work_item_id()));
    let again = h.outbox.enqueue(first.clone()).await?;
    assert!(again.is_duplicate() && again.id() == first.work_item_id(), "{again:?}");
    let refusing = first.unique(Unique::while_waiting("page-7").or_refuse());
    assert!(h.outbox.enqueue(refusing).await?.is_duplicate(), "it is stored, so that is no error");
    assert_eq!(record(h, second.work_item_id()).await?.state(), State::Ready);
    assert_eq!(h.outbox.with_key("page-7").await?, Some(second.work_item_id()));
    // Nor does it take a key again that was free.
    side.ack(side.claim_one().await?).await?;
    let again = h.outbox.enqueue(second.unique(Unique::within("page-7", SECOND * 60))).await?;
    assert!(again.is_duplicate(), "{again:?}");
    is_free(h, &Unique::while_waiting("page-7")).await.map(drop)
}

async fn a_message_is_found_and_cancelled_by_its_key(h: &Harness) -> Verdict {
    assert_eq!(h.outbox.with_key("page-7").await?, None);
    assert_eq!(h.outbox.cancel_key("page-7").await?, Cancelled::Unknown);
    let unique = Unique::until_done("page-7");
    let first = is_free(h, &unique).await?;
    assert_eq!(h.outbox.with_key("page-7").await?, Some(first));
    assert_eq!(h.outbox.cancel_key("page-7").await?, Cancelled::Waiting);
    assert_eq!(h.outbox.cancel_key("page-7").await?, Cancelled::TooLate);
    let second = is_free(h, &unique).await?;
    assert_eq!(h.outbox.with_key("page-7").await?, Some(second));
    h.side(Queue::Outbox).claim_one().await?;
    assert_eq!(h.outbox.cancel_key("page-7").await?, Cancelled::Asked);
    refused(h.outbox.cancel_key("").await, ErrorKind::InvalidInput, "unique key")
}

async fn keys_are_kept_apart_byte_by_byte(h: &Harness) -> Verdict {
    for key in ["page", "Page", "pagé", "page\u{301}", "页", "it's", "a\\b", "%"] {
        let first = is_free(h, &Unique::while_waiting(key)).await?;
        is_had_by(h, &Unique::while_waiting(key), first).await?;
    }
    Ok(())
}

async fn a_key_that_is_not_allowed_is_refused(h: &Harness) -> Verdict {
    for key in ["", "page ", "a\nb", &"x".repeat(256)] {
        let enqueued = h.outbox.enqueue(index(Unique::while_waiting(key))).await;
        refused(enqueued, ErrorKind::InvalidInput, "unique key")?;
    }
    let never = h.outbox.enqueue(index(Unique::within("page-7", Duration::ZERO))).await;
    refused(never, ErrorKind::InvalidInput, "longer than zero")?;
    assert_eq!(h.side(Queue::Outbox).rows().await?, 0);
    is_free(h, &Unique::while_waiting("x".repeat(255))).await.map(drop)
}

async fn maintenance_forgets_keys_that_nobody_has(h: &Harness) -> Verdict {
    let (side, hour) = (h.side(Queue::Outbox), Duration::from_secs(3600));
    let waits = is_free(h, &Unique::while_waiting("waits")).await?;
    h.outbox.enqueue(index(Unique::within("a day", hour * 24)).due_after(hour * 100)).await?;
    side.ack(side.claim_one().await?).await?;
    is_free(h, &Unique::while_waiting("still waits")).await?;
    let sweep = || async { h.store.sweep_keys(100).await };
    sweep().await?;
    assert_eq!(h.outbox.with_key("waits").await?, Some(waits), "it is not looked at before an hour has passed");
    h.advance(hour * 2);
    sweep().await?;
    assert_eq!(h.outbox.with_key("waits").await?, None);
    assert!(h.outbox.with_key("still waits").await?.is_some() && h.outbox.with_key("a day").await?.is_some());
    h.advance(hour * 22);
    sweep().await?;
    assert!(h.outbox.with_key("still waits").await?.is_some());
    assert_eq!(h.outbox.with_key("a day").await?, None, "its time is over, though its message waits");
    Ok(())
}

async fn a_database_without_keys_says_so(h: &Harness) -> Verdict {
    let enqueued = h.outbox.enqueue(index(Unique::while_waiting("page-7"))).await;
    refused(enqueued, ErrorKind::Unsupported, "unique keys")?;
    refused(h.outbox.cancel_key("page-7").await, ErrorKind::Unsupported, "unique keys")?;
    assert_eq!(h.side(Queue::Outbox).rows().await?, 0);
    Ok(())
}

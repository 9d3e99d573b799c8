//! Moving an inbox row by hand.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postroom::Inbox;
use postroom::message::hash_bytes;
use postroom::operator::Record;
use postroom::queue::{Cause, Queue, Settle, State};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, readable};

cases! { marks:
    both processing_takes_a_seen_message_out_of_sight ["API-1.3.1"];
    both each_attempt_outside_the_queue_is_counted ["API-1.3.2"];
    both a_poison_message_is_given_up_by_its_count ["API-10.3.2"];
    both processing_is_refused_where_the_queue_has_it ["API-1.3.1"];
    both processed_ends_a_message_in_any_state ["API-1.2", "API-4.2"];
    both dead_ends_a_message_in_any_state_but_done ["API-1.4"];
    both the_error_of_a_death_by_hand_has_a_code [];
    both a_mark_voids_the_lease [];
    both a_done_message_stays_done ["API-1.2"];
    both an_unknown_message_cannot_be_marked [];
    both the_error_of_the_mark_is_seen_with_the_message ["API-1.4"];
    both a_consumer_that_asks_first_handles_a_message_once ["API-11.1", "API-11.2"];
    both a_consumer_that_gives_a_message_up_marks_it_dead ["API-10.3.1", "API-11.1"];
}

async fn get(h: &Harness, draft: &Draft) -> anyhow::Result<Record> {
    h.inbox.get(&draft.key()?).await?.ok_or_else(|| anyhow::anyhow!("it is not known"))
}

async fn processing_takes_a_seen_message_out_of_sight(h: &Harness) -> Verdict {
    let draft = Draft::new("a");
    assert!(!h.inbox.already_processed(&draft.key()?).await?);
    for _ in 0..2 {
        assert!(h.inbox.mark_processing(&draft.key()?).await?);
    }
    h.clock.advance(LEASE * 100);
    assert!(h.side(Queue::Inbox).claim(10).await?.is_empty());
    assert_eq!(h.inbox.queue().reap(10).await?, postroom::queue::Reaped::default());
    assert_eq!(get(h, &draft).await?.state(), State::Processing);
    Ok(())
}

async fn each_attempt_outside_the_queue_is_counted(h: &Harness) -> Verdict {
    let (draft, other) = (Draft::new("a"), Draft::new("a"));
    for draft in [&draft, &other] {
        assert!(!h.inbox.already_processed(&draft.key()?).await?);
    }
    for attempt in 1..=3 {
        h.clock.advance(Duration::from_secs(1));
        assert!(h.inbox.mark_processing(&draft.key()?).await?);
        let record = get(h, &draft).await?;
        assert_eq!((record.attempts(), record.last_attempt_at()), (attempt, Some(h.now())));
        assert_eq!(readable(&record)?.attempts, attempt);
    }
    assert_eq!(get(h, &other).await?.attempts(), 0);
    let key = draft.key()?;
    let (one, two) = tokio::join!(h.inbox.mark_processing(&key), h.inbox.mark_processing(&key));
    assert!(one? && two?);
    assert_eq!(get(h, &draft).await?.attempts(), 5, "two at once are two");
    Ok(())
}

/// It is delivered until delivery is told to stop; the handler always fails.
async fn a_poison_message_is_given_up_by_its_count(h: &Harness) -> Verdict {
    const MAX_RETRIES: u32 = 3;
    let draft = Draft::new("a");
    let key = draft.key()?;
    let mut handled = 0;
    for _ in 0..10 {
        if h.inbox.already_processed(&key).await? || !h.inbox.mark_processing(&key).await? {
            continue;
        }
        handled += 1;
        if get(h, &draft).await?.attempts() >= MAX_RETRIES {
            assert!(h.inbox.mark_dead(&key, "it fails every time").await?);
        }
    }
    let record = get(h, &draft).await?;
    assert_eq!((handled, record.state(), record.attempts()), (MAX_RETRIES, State::Dead, MAX_RETRIES));
    assert_eq!(record.last_error(), Some("it fails every time"));
    assert_eq!(h.inbox.queue().revive(postroom::operator::Filter::one(record.seq()), None).await?, 1);
    assert_eq!(get(h, &draft).await?.attempts(), 0, "it starts afresh");
    Ok(())
}

async fn processing_is_refused_where_the_queue_has_it(h: &Harness) -> Verdict {
    let side = h.side(Queue::Inbox);
    let (leased, ready) = (Draft::new("a"), Draft::new("a"));
    side.put(&leased).await?;
    side.claim_one().await?;
    side.put(&ready).await?;
    for (draft, state) in [(leased, State::Leased), (ready, State::Ready)] {
        assert!(!h.inbox.mark_processing(&draft.key()?).await?);
        assert_eq!(get(h, &draft).await?.state(), state);
    }
    Ok(())
}

/// One message in each state but done.
async fn unfinished(h: &Harness) -> anyhow::Result<Vec<Draft>> {
    let side = h.side(Queue::Inbox);
    let [seen, processing, leased, dead, ready] = [(); 5].map(|()| Draft::new("a"));
    for draft in [&seen, &processing] {
        assert!(!h.inbox.already_processed(&draft.key()?).await?);
    }
    assert!(h.inbox.mark_processing(&processing.key()?).await?);
    side.put(&leased).await?;
    side.claim_one().await?;
    side.put(&dead).await?;
    let lease = side.claim_one().await?;
    side.fail(lease, "x").await?;
    side.put(&ready).await?;
    Ok(vec![seen, processing, leased, dead, ready])
}

async fn processed_ends_a_message_in_any_state(h: &Harness) -> Verdict {
    for draft in unfinished(h).await? {
        let before = get(h, &draft).await?;
        h.clock.advance(Duration::from_secs(1));
        assert!(h.inbox.mark_processed(&draft.key()?).await?, "{:?}", before.state());
        let record = get(h, &draft).await?;
        assert_eq!((record.state(), record.processed_at()), (State::Done, Some(h.now())));
        assert_eq!((record.owner(), record.locked_until(), record.visible_at()), (None, None, None));
        assert_eq!(record.claim_no(), before.claim_no() + 1);
        assert!(h.inbox.already_processed(&draft.key()?).await?);
    }
    Ok(())
}

async fn dead_ends_a_message_in_any_state_but_done(h: &Harness) -> Verdict {
    for draft in unfinished(h).await? {
        assert!(h.inbox.mark_dead(&draft.key()?, "by hand").await?);
        let record = get(h, &draft).await?;
        assert_eq!((record.state(), record.last_error()), (State::Dead, Some("by hand")));
        assert_eq!((record.owner(), record.locked_until(), record.visible_at()), (None, None, None));
    }
    assert!(h.side(Queue::Inbox).claim(10).await?.is_empty());
    Ok(())
}

async fn the_error_of_a_death_by_hand_has_a_code(h: &Harness) -> Verdict {
    let (draft, side) = (Draft::new("a"), h.side(Queue::Inbox));
    let seq = side.put(&draft).await?;
    let lease = side.claim_one().await?;
    side.settle(Settle::postpone(lease, LEASE, "not yet")?).await?;
    for n in 1..=25 {
        assert!(h.inbox.mark_dead(&draft.key()?, &format!("by hand {n}")).await?);
    }
    let failures = side.verbs().failures(seq).await?;
    assert_eq!(failures.len(), 20, "no more are kept than of other failures");
    let last = failures.last().expect("the last one is kept");
    assert_eq!((last.cause, last.error.as_deref()), (Some(Cause::HandlerFailed), Some("by hand 25")));
    assert_eq!((last.worker, last.at), (None, h.now()));
    assert!(h.inbox.mark_processed(&draft.key()?).await?);
    assert!(!h.inbox.mark_dead(&draft.key()?, "too late").await?);
    assert_eq!(side.verbs().failures(seq).await?, failures);
    Ok(())
}

async fn a_mark_voids_the_lease(h: &Harness) -> Verdict {
    let side = h.side(Queue::Inbox);
    let (done, dead) = (Draft::new("a"), Draft::new("a"));
    side.put(&done).await?;
    let first = side.claim_one().await?;
    assert!(h.inbox.mark_processed(&done.key()?).await?);
    side.put(&dead).await?;
    let second = side.claim_one().await?;
    assert!(h.inbox.mark_dead(&dead.key()?, "x").await?);
    assert_eq!(side.verbs().extend(&[first.clone(), second.clone()], LEASE).await?, [false, false]);
    assert_eq!(side.verbs().fail([first], "x").await?.lost, 1);
    assert_eq!(side.verbs().ack([second]).await?.lost, 1);
    assert_eq!((get(h, &done).await?.state(), get(h, &dead).await?.state()), (State::Done, State::Dead));
    Ok(())
}

async fn a_done_message_stays_done(h: &Harness) -> Verdict {
    let draft = Draft::new("a");
    assert!(!h.inbox.already_processed(&draft.key()?).await?);
    assert!(h.inbox.mark_processed(&draft.key()?).await?);
    let before = format!("{:?}", get(h, &draft).await?);
    assert!(!h.inbox.mark_processing(&draft.key()?).await?);
    assert!(!h.inbox.mark_processed(&draft.key()?).await?);
    assert!(!h.inbox.mark_dead(&draft.key()?, "x").await?);
    assert_eq!(format!("{:?}", get(h, &draft).await?), before);
    Ok(())
}

async fn an_unknown_message_cannot_be_marked(h: &Harness) -> Verdict {
    let key = Draft::new("a").key()?;
    assert!(!h.inbox.mark_processing(&key).await?);
    assert!(!h.inbox.mark_processed(&key).await?);
    assert!(!h.inbox.mark_dead(&key, "x").await?);
    assert_eq!(h.inbox.queue().stats().await?.total(), 0);
    Ok(())
}

async fn the_error_of_the_mark_is_seen_with_the_message(h: &Harness) -> Verdict {
    let draft = Draft::new("a");
    h.inbox.enqueue(draft.incoming()?).await?;
    assert!(h.inbox.mark_dead(&draft.key()?, "by hand").await?);
    let record = get(h, &draft).await?;
    assert_eq!(readable(&record)?.last_error.as_deref(), record.last_error());
    Ok(())
}

/// A delivery by a broker, as its consumer handles it: whether it is to be confirmed.
async fn consume(inbox: &Inbox, draft: &Draft, handle: impl FnOnce() -> bool) -> anyhow::Result<bool> {
    let key = draft.key()?;
    if inbox.already_processed_hash(&key, Some(hash_bytes(&draft.payload))).await? {
        return Ok(true);
    }
    assert!(inbox.mark_processing(&key).await?);
    let is_handled = handle();
    assert!(if is_handled { inbox.mark_processed(&key).await? } else { inbox.mark_dead(&key, "it failed").await? });
    Ok(is_handled)
}

async fn a_consumer_that_asks_first_handles_a_message_once(h: &Harness) -> Verdict {
    let (draft, handled) = (Draft::new("a"), AtomicUsize::new(0));
    for _ in 0..3 {
        let handle = || handled.fetch_add(1, Ordering::SeqCst) < 9;
        assert!(consume(&h.inbox, &draft, handle).await?, "it is confirmed each time it is delivered");
    }
    assert_eq!((handled.into_inner(), get(h, &draft).await?.state()), (1, State::Done));
    Ok(())
}

async fn a_consumer_that_gives_a_message_up_marks_it_dead(h: &Harness) -> Verdict {
    let draft = Draft::new("a");
    assert!(!consume(&h.inbox, &draft, || false).await?);
    let record = get(h, &draft).await?;
    assert_eq!((record.state(), record.last_error()), (State::Dead, Some("it failed")));
    assert!(h.side(Queue::Inbox).claim(10).await?.is_empty());
    Ok(())
}

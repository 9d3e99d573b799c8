//! What an operator sees.

use std::time::Duration;

use postroom::operator::{Filter, QueueStats};
use postroom::queue::{Queue, State};
use postroom::{InboxKey, NewMessage};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE};

cases! { inspect:
    both stats_count_every_state ["SQM-11.2.2"];
    both stats_tell_how_long_the_first_in_line_waits [];
    both list_filters_and_pages [];
    both find_knows_messages_and_work_items [];
    both failures_are_kept_in_order_and_bounded ["SQM-3.1.2"];
    both states_have_the_names_people_know ["API-4.2"];
    both reading_changes_nothing [];
}

async fn stats_count_every_state(h: &Harness) -> Verdict {
    for side in h.sides() {
        for topic in ["done", "dead", "leased"] {
            let lease = side.leased(topic).await?;
            match topic {
                "done" => side.ack(lease).await?,
                "dead" => side.fail(lease, "x").await?,
                _ => {}
            }
        }
        side.add("ready").await?;
        let QueueStats { ready, leased, done, dead, .. } = side.verbs().stats().await?;
        assert_eq!((ready, leased, done, dead), (1, 1, 1, 1));
        assert_eq!(side.rows().await?, 4);
    }
    h.outbox.enqueue(NewMessage::new("a", "").expires_after(LEASE)).await?;
    let (seen, processing) = (Draft::new("a").key()?, Draft::new("a").key()?);
    for key in [&seen, &processing] {
        assert!(!h.inbox.already_processed(key).await?);
    }
    assert!(h.inbox.mark_processing(&processing).await?);
    h.clock.advance(LEASE);
    assert_eq!(h.outbox.queue().expire(10).await?, 1);
    assert_eq!(h.outbox.queue().stats().await?.expired, 1);
    let stats = h.inbox.queue().stats().await?;
    assert_eq!((stats.seen, stats.processing, stats.total()), (1, 1, 6));
    Ok(())
}

async fn stats_tell_how_long_the_first_in_line_waits(h: &Harness) -> Verdict {
    for side in h.sides() {
        assert_eq!(side.verbs().stats().await?.oldest_waiting, None);
        side.add("a").await?;
        h.clock.advance(Duration::from_secs(5));
        side.add("b").await?;
        assert_eq!(side.verbs().stats().await?.oldest_waiting, Some(Duration::from_secs(5)));
    }
    Ok(())
}

async fn list_filters_and_pages(h: &Harness) -> Verdict {
    for n in 0..6 {
        let message = NewMessage::new(if n % 2 == 0 { "even" } else { "odd" }, n.to_string());
        h.outbox.enqueue(if n < 3 { message.to("billing") } else { message }).await?;
        let key = InboxKey::new(if n < 3 { "billing" } else { "shop" }, n.to_string())?;
        h.inbox.enqueue(postroom::Incoming::new(key, if n % 2 == 0 { "even" } else { "odd" }, "")).await?;
    }
    for side in h.sides() {
        let all = side.verbs().list(Filter::all()).await?;
        assert!(all.is_sorted_by_key(postroom::operator::Record::seq));
        assert_eq!(all.len(), 6);
        let count = async |filter: Filter| anyhow::Ok(side.verbs().list(filter).await?.len());
        assert_eq!(count(Filter::all().topic("odd")).await?, 3);
        assert_eq!(count(Filter::all().party("billing")).await?, 3);
        assert_eq!(count(Filter::all().party("billing").topic("even")).await?, 2);
        assert_eq!(count(Filter::all().state(State::Ready)).await?, 6);
        assert_eq!(count(Filter::all().state(State::Dead)).await?, 0);
        assert_eq!(count(Filter::all().limit(4)).await?, 4);
        assert_eq!(count(Filter::all().after(all[3].seq())).await?, 2);
        assert_eq!(count(Filter::one(all[2].seq())).await?, 1);
        assert_eq!(count(Filter::one(999)).await?, 0);
        let lease = side.claim(1).await?.remove(0).lease;
        side.fail(lease.clone(), "x").await?;
        assert_eq!(side.verbs().list(Filter::all().state(State::Dead)).await?[0].seq(), lease.seq());
        assert_eq!(count(Filter::all().finished_since(h.now())).await?, 1);
        assert_eq!(count(Filter::all().finished_since(h.now().plus(LEASE))).await?, 0);
    }
    Ok(())
}

async fn find_knows_messages_and_work_items(h: &Harness) -> Verdict {
    let message = NewMessage::new("a", "");
    let id = message.message_id().as_uuid();
    let here = h.outbox.enqueue(message.clone()).await?;
    let there = h.outbox.enqueue(message.to("billing")).await?;
    assert_eq!(here.id().as_uuid(), id);
    assert_eq!(h.outbox.find(id).await?.len(), 2);
    assert_eq!(h.outbox.find(there.id().as_uuid()).await?.len(), 1);
    assert!(h.outbox.find(uuid::Uuid::now_v7()).await?.is_empty());
    assert!(h.inbox.get(&InboxKey::new("shop", "unknown")?).await?.is_none());
    Ok(())
}

async fn failures_are_kept_in_order_and_bounded(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seq = side.add("a").await?;
        for n in 1..=25 {
            let lease = side.claim_one().await?;
            side.abandon(lease, &format!("failure {n}")).await?;
            h.clock.advance(LEASE);
        }
        let failures = side.verbs().failures(seq).await?;
        assert_eq!(failures.len(), 20);
        assert_eq!(failures[0].error.as_deref(), Some("failure 6"));
        assert_eq!((failures[19].attempt, failures[19].error.as_deref()), (25, Some("failure 25")));
        assert!(failures.is_sorted_by_key(|failure| failure.at));
        assert!(side.verbs().failures(999).await?.is_empty());
    }
    Ok(())
}

async fn states_have_the_names_people_know(h: &Harness) -> Verdict {
    let names = |queue: Queue, states: &[State]| states.iter().map(|state| state.name(queue)).collect::<Vec<_>>();
    let states = [State::Ready, State::Leased, State::Done, State::Dead, State::Expired];
    assert_eq!(names(Queue::Outbox, &states), ["Ready", "InProgress", "Done", "Failed", "Expired"]);
    let states = [State::Seen, State::Ready, State::Leased, State::Processing];
    assert_eq!(names(Queue::Inbox, &states), ["Seen", "Processing", "Processing", "Processing"]);
    assert_eq!(names(Queue::Inbox, &[State::Done, State::Dead, State::Expired]), ["Done", "Dead", "Expired"]);
    assert_eq!(h.sides().map(|side| side.queue.as_str()), ["outbox", "inbox"]);
    Ok(())
}

async fn reading_changes_nothing(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        h.clock.advance(LEASE * 2);
        let before = format!("{:?}", side.record(lease.seq()).await?);
        side.verbs().stats().await?;
        side.verbs().failures(lease.seq()).await?;
        side.verbs().list(Filter::all()).await?;
        assert_eq!(format!("{:?}", side.record(lease.seq()).await?), before);
        side.ack(lease).await?;
    }
    Ok(())
}

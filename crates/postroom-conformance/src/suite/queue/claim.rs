//! Taking messages under a lease.

use std::time::Duration;

use postroom::NewMessage;
use postroom::message::{Origin, OwnerToken};
use postroom::queue::{Settle, State, Topics};
use postroom::sqlite::Sqlite;

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Side, Stage};

cases! { claim:
    both respects_the_batch ["OBX-017", "OBX-026", "IBX-030", "IBX-039"];
    both writes_the_owner_and_the_end_of_the_lease ["OBX-020", "OBX-021", "IBX-034", "IBX-035"];
    both returns_what_it_took ["OBX-022", "IBX-036"];
    both finds_nothing_without_an_error ["OBX-023", "IBX-037"];
    both leaves_what_others_hold ["OBX-019", "OBX-084", "IBX-033", "IBX-106"];
    both takes_what_a_vanished_worker_held ["OBX-019", "IBX-033"];
    both leaves_what_is_done ["OBX-024", "OBX-035", "IBX-038", "IBX-047"];
    both leaves_what_is_dead ["OBX-025", "OBX-048", "IBX-038", "IBX-064"];
    both leaves_what_is_only_seen_or_handled_elsewhere ["IBX-031"];
    both waits_for_the_next_attempt ["OBX-029", "IBX-042"];
    both takes_the_longest_waiting_first [];
    both counts_the_claims_of_a_row [];
    both says_when_the_next_message_is_due [];
    both each_queue_is_its_own [];
    sqlite of_some_topics_leaves_the_lanes_of_others_where_they_are [];
    sqlite walks_an_index_however_many_rows_are_done ["OBX-100", "IBX-122"];
}

async fn respects_the_batch(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add_many("a", 25).await?;
        assert_eq!(side.claim(10).await?.len(), 10);
        assert_eq!(side.claim(10).await?.len(), 10);
        assert_eq!(side.claim(10).await?.len(), 5);
        assert_eq!(side.verbs().stats().await?.leased, 25);
    }
    Ok(())
}

async fn writes_the_owner_and_the_end_of_the_lease(h: &Harness) -> Verdict {
    let owner = OwnerToken::new();
    for side in h.sides() {
        let seq = side.add("a").await?;
        h.clock.advance(Duration::from_micros(7));
        let claimed = side.verbs().claim(owner, Duration::from_secs(42), 1).await?.claimed.remove(0);
        let until = h.now().plus(Duration::from_secs(42));
        assert_eq!((claimed.lease.owner(), claimed.lease.until()), (owner, until));
        let record = side.record(seq).await?;
        assert_eq!((record.owner(), record.locked_until()), (Some(owner), Some(until)));
        assert_eq!((record.state(), record.visible_at()), (State::Leased, Some(until)));
        assert_eq!(record.last_attempt_at(), Some(h.now()));
    }
    Ok(())
}

async fn returns_what_it_took(h: &Harness) -> Verdict {
    let sent = NewMessage::new("order.placed", "seven");
    let stored = h.outbox.enqueue(sent.clone()).await?;
    let claimed =
        h.side(postroom::queue::Queue::Outbox).claim(5).await?.remove(0).message.map_err(anyhow::Error::msg)?;
    assert!(matches!(claimed.origin, Origin::Outbox { id, message_id, .. }
        if id == stored.id() && message_id == sent.message_id()));
    let draft = Draft::new("order.placed").payload("seven");
    h.inbox.enqueue(draft.incoming()?).await?;
    let arrived =
        h.side(postroom::queue::Queue::Inbox).claim(5).await?.remove(0).message.map_err(anyhow::Error::msg)?;
    let expected = draft.key()?;
    assert!(matches!(&arrived.origin, Origin::Inbox { key, .. } if *key == expected));
    for message in [claimed, arrived] {
        assert_eq!((message.topic.as_str(), message.payload.as_str()), ("order.placed", "seven"));
    }
    Ok(())
}

async fn finds_nothing_without_an_error(h: &Harness) -> Verdict {
    for side in h.sides() {
        let claims = side.verbs().claim(OwnerToken::new(), LEASE, 10).await?;
        assert!(claims.claimed.is_empty() && claims.next_at.is_none());
    }
    Ok(())
}

async fn leaves_what_others_hold(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.leased("a").await?;
        assert!(side.claim(10).await?.is_empty());
        h.clock.advance(LEASE - Duration::from_micros(1));
        assert!(side.claim(10).await?.is_empty(), "the lease had a microsecond to go");
    }
    Ok(())
}

async fn takes_what_a_vanished_worker_held(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lost = side.leased("a").await?;
        h.clock.advance(LEASE);
        assert!(side.claim(10).await?.is_empty(), "a crash is followed by a pause");
        h.clock.advance(Duration::from_secs(2));
        let won = side.claim_one().await?;
        assert_eq!((won.seq(), won.claim_no()), (lost.seq(), 2));
    }
    Ok(())
}

async fn leaves_what_is_done(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        side.ack(lease).await?;
        never_claimed(h, side).await?;
    }
    Ok(())
}

async fn leaves_what_is_dead(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        side.fail(lease, "no").await?;
        never_claimed(h, side).await?;
    }
    Ok(())
}

async fn never_claimed(h: &Harness, side: Side<'_>) -> Verdict {
    for _ in 0..3 {
        let claims = side.verbs().claim(OwnerToken::new(), LEASE, 10).await?;
        assert!(claims.claimed.is_empty() && claims.next_at.is_none(), "{} gave it out again", side.queue);
        h.clock.advance(Duration::from_secs(24 * 3600));
    }
    Ok(())
}

async fn leaves_what_is_only_seen_or_handled_elsewhere(h: &Harness) -> Verdict {
    let (seen, elsewhere, queued) = (Draft::new("a"), Draft::new("a"), Draft::new("a"));
    for draft in [&seen, &elsewhere] {
        assert!(!h.inbox.already_processed(&draft.key()?).await?);
    }
    assert!(h.inbox.mark_processing(&elsewhere.key()?).await?);
    let side = h.side(postroom::queue::Queue::Inbox);
    assert!(side.claim(10).await?.is_empty());
    let seq = side.put(&queued).await?;
    assert_eq!(side.claim_one().await?.seq(), seq);
    Ok(())
}

async fn waits_for_the_next_attempt(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        side.settle(Settle::abandon(lease, Duration::from_secs(7), "x")?).await?;
        h.clock.advance(Duration::from_secs(7) - Duration::from_micros(1));
        assert!(side.claim(10).await?.is_empty());
        h.clock.advance(Duration::from_micros(1));
        assert_eq!(side.claim(10).await?.len(), 1);
    }
    Ok(())
}

async fn takes_the_longest_waiting_first(h: &Harness) -> Verdict {
    for side in h.sides() {
        let late = side.put(&Draft::new("late").due_at(h.now().plus(Duration::from_secs(3)))).await?;
        let early = side.put(&Draft::new("early").due_at(h.now().plus(Duration::from_secs(1)))).await?;
        h.clock.advance(Duration::from_secs(2));
        let between = side.add("between").await?;
        h.clock.advance(Duration::from_secs(5));
        let mut order = Vec::new();
        for _ in 0..3 {
            order.extend(side.claim(1).await?.iter().map(|claimed| claimed.lease.seq()));
        }
        assert_eq!(order, [early, between, late]);
    }
    Ok(())
}

async fn counts_the_claims_of_a_row(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add("a").await?;
        for expected in 1..=5 {
            let lease = side.claim_one().await?;
            assert_eq!(lease.claim_no(), expected);
            side.release(lease).await?;
        }
    }
    Ok(())
}

async fn says_when_the_next_message_is_due(h: &Harness) -> Verdict {
    for side in h.sides() {
        let due = h.now().plus(Duration::from_secs(60));
        side.put(&Draft::new("a").due_at(due.plus(LEASE))).await?;
        side.put(&Draft::new("a").due_at(due)).await?;
        assert_eq!(side.verbs().claim(OwnerToken::new(), LEASE, 10).await?.next_at, Some(due));
    }
    Ok(())
}

async fn each_queue_is_its_own(h: &Harness) -> Verdict {
    let [outbox, inbox] = h.sides();
    outbox.add("a").await?;
    assert!(inbox.claim(10).await?.is_empty());
    let foreign = outbox.claim_one().await?;
    inbox.add("a").await?;
    let own = inbox.claim_one().await?;
    assert_eq!(foreign.seq(), own.seq());
    assert_eq!(inbox.verbs().ack([foreign]).await?.lost, 1, "a lease of the outbox settled a row of the inbox");
    Ok(())
}

/// A busy topic may have a million lanes, and others are claimed beside it all the time.
async fn of_some_topics_leaves_the_lanes_of_others_where_they_are(stage: &Stage<Sqlite>) -> Verdict {
    for side in stage.sides() {
        for number in 0..50 {
            side.put(&Draft::new("a").lane(&format!("lane-{number}"))).await?;
        }
        let free = side.add("b").await?;
        let claims = side.verbs().claim_topics(OwnerToken::new(), LEASE, 10, &Topics::only(["b"])?).await?;
        let seqs: Vec<_> = claims.claimed.iter().map(|claimed| claimed.lease.seq()).collect();
        assert_eq!(seqs, [free]);
        let rows = format!(
            "SELECT (SELECT count(*) FROM {0}_messages_line) + (SELECT count(*) FROM {0}_messages_lane)",
            side.queue
        );
        let rows: i64 = stage.store.read(move |conn| Ok(conn.query_row(&rows, [], |row| row.get(0))?)).await?;
        assert_eq!(rows, 0, "messages of other topics moved");
        assert_eq!(side.claim(100).await?.len(), 50);
    }
    Ok(())
}

async fn walks_an_index_however_many_rows_are_done(stage: &Stage<Sqlite>) -> Verdict {
    let plan = |sql: String| async move {
        let explain = format!("EXPLAIN QUERY PLAN {sql}");
        let read = stage.store.read(move |conn| {
            let mut prepared = conn.prepare(&explain)?;
            let rows = prepared.query_map([], |row| row.get::<_, String>(3))?;
            Ok(rows.collect::<Result<Vec<_>, _>>()?)
        });
        anyhow::Ok(read.await?.join("; "))
    };
    for table in ["outbox_messages", "inbox_messages"] {
        for state in [0, 1] {
            let (place, until) = [("line", "crashes = 0 AND visible_at"), ("held", "until")][state];
            let by = until.rsplit(' ').next().unwrap_or_default();
            let steps = plan(format!("SELECT * FROM {table}_{place} WHERE {until} <= 5 ORDER BY {by} LIMIT 9")).await?;
            assert!(steps.starts_with("SEARCH") && steps.contains("<?"), "no index is used: {steps}");
            assert!(!steps.contains("TEMP B-TREE"), "rows are sorted: {steps}");
        }
    }
    for side in stage.sides() {
        side.add_many("a", 200).await?;
        let leases: Vec<_> = side.claim(200).await?.into_iter().map(|claimed| claimed.lease).collect();
        assert_eq!(side.verbs().ack(leases).await?.applied, 200);
        side.add("b").await?;
        side.claim_one().await?;
    }
    Ok(())
}

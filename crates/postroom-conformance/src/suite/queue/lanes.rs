//! Messages of one lane are handled in order, one after the other. Other lanes do not wait.

use std::time::Duration;

use postroom::message::OwnerToken;
use postroom::operator::{Filter, Operator};
use postroom::queue::{Cancelled, Lease, Queue, State, Topics};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE};
use crate::side::Side;

cases! { lanes:
    both messages_of_a_lane_are_claimed_one_after_the_other [];
    both lanes_do_not_wait_for_each_other [];
    both a_message_that_is_retried_keeps_its_place [];
    both a_message_that_was_given_back_keeps_its_place [];
    both a_worker_that_vanished_does_not_lose_the_place [];
    both a_dead_message_blocks_its_lane_until_it_is_dismissed [];
    both a_dead_message_that_is_requeued_goes_first [];
    both a_message_that_was_done_is_redriven_behind_the_others [];
    both a_message_that_is_not_due_holds_up_its_lane [];
    both a_message_that_expires_in_its_lane_lets_the_next_one_pass [];
    both a_message_that_expires_behind_another_leaves_its_lane [];
    both a_message_that_is_cancelled_leaves_its_lane [];
    both a_message_that_is_dead_by_hand_leaves_its_lane [];
    both a_message_that_is_replaced_while_it_waits_keeps_its_place [];
    both a_dead_message_that_arrives_again_still_blocks_its_lane [];
    both a_duplicate_takes_no_place [];
    both claims_of_some_topics_keep_the_order_of_a_lane [];
    both a_batch_has_at_most_one_message_of_a_lane [];
    both a_long_lane_ends [];
    both messages_in_a_lane_are_counted_and_listed [];
    both a_lane_has_a_name_like_any_other [];
    both a_message_says_its_lane [];
}

fn draft(lane: &str) -> Draft {
    Draft::new("a").lane(lane)
}

/// Enqueues messages of one lane, each after the other.
async fn lane(side: Side<'_>, name: &str, count: usize) -> anyhow::Result<Vec<i64>> {
    let mut seqs = Vec::new();
    for _ in 0..count {
        seqs.push(side.put(&draft(name)).await?);
    }
    Ok(seqs)
}

/// Claims everything that is ready.
async fn ready(side: Side<'_>) -> anyhow::Result<Vec<Lease>> {
    let mut leases: Vec<_> = side.claim(100).await?.into_iter().map(|claimed| claimed.lease).collect();
    leases.sort_by_key(Lease::seq);
    Ok(leases)
}

async fn only(side: Side<'_>, seq: i64) -> anyhow::Result<Lease> {
    let mut leases = ready(side).await?;
    let seqs: Vec<_> = leases.iter().map(Lease::seq).collect();
    anyhow::ensure!(seqs == [seq], "{seqs:?} were claimed, not {seq} alone");
    Ok(leases.remove(0))
}

async fn nothing(side: Side<'_>) -> Verdict {
    let leases = ready(side).await?;
    anyhow::ensure!(leases.is_empty(), "{leases:?} were claimed");
    Ok(())
}

async fn messages_of_a_lane_are_claimed_one_after_the_other(h: &Harness) -> Verdict {
    for side in h.sides() {
        for seq in lane(side, "order-7", 5).await? {
            let lease = only(side, seq).await?;
            nothing(side).await?;
            side.ack(lease).await?;
        }
        nothing(side).await?;
    }
    Ok(())
}

async fn lanes_do_not_wait_for_each_other(h: &Harness) -> Verdict {
    for side in h.sides() {
        let one = lane(side, "one", 3).await?;
        let two = lane(side, "two", 3).await?;
        let free = side.add("a").await?;
        let leases = ready(side).await?;
        assert_eq!(leases.iter().map(Lease::seq).collect::<Vec<_>>(), [one[0], two[0], free]);
        side.ack(leases[1].clone()).await?;
        side.ack(only(side, two[1]).await?).await?;
        side.ack(only(side, two[2]).await?).await?;
        nothing(side).await?;
        side.ack(leases[0].clone()).await?;
        only(side, one[1]).await?;
    }
    Ok(())
}

async fn a_message_that_is_retried_keeps_its_place(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seqs = lane(side, "order-7", 3).await?;
        side.abandon(only(side, seqs[0]).await?, "no").await?;
        nothing(side).await?;
        h.clock.advance(Duration::from_secs(1));
        side.ack(only(side, seqs[0]).await?).await?;
        side.ack(only(side, seqs[1]).await?).await?;
        side.ack(only(side, seqs[2]).await?).await?;
    }
    Ok(())
}

async fn a_message_that_was_given_back_keeps_its_place(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seqs = lane(side, "order-7", 2).await?;
        side.release(only(side, seqs[0]).await?).await?;
        side.ack(only(side, seqs[0]).await?).await?;
        side.ack(only(side, seqs[1]).await?).await?;
    }
    Ok(())
}

async fn a_worker_that_vanished_does_not_lose_the_place(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seqs = lane(side, "order-7", 2).await?;
        let stale = only(side, seqs[0]).await?;
        h.clock.advance(LEASE + Duration::from_secs(600));
        let lease = only(side, seqs[0]).await?;
        assert_eq!(side.verbs().ack([stale]).await?.lost, 1, "the lease is another one's");
        nothing(side).await?;
        side.ack(lease).await?;
        side.ack(only(side, seqs[1]).await?).await?;
    }
    Ok(())
}

async fn a_dead_message_blocks_its_lane_until_it_is_dismissed(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seqs = lane(side, "order-7", 2).await?;
        side.fail(only(side, seqs[0]).await?, "never").await?;
        nothing(side).await?;
        let later = side.put(&draft("order-7")).await?;
        nothing(side).await?;
        assert_eq!(side.verbs().dismiss(Filter::one(seqs[0]), Operator::new("ada")?.because("it is paid")?).await?, 1);
        side.ack(only(side, seqs[1]).await?).await?;
        side.ack(only(side, later).await?).await?;
    }
    Ok(())
}

async fn a_dead_message_that_is_requeued_goes_first(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seqs = lane(side, "order-7", 3).await?;
        side.fail(only(side, seqs[0]).await?, "never").await?;
        assert_eq!(side.verbs().revive(Filter::one(seqs[0]), None).await?, 1);
        for seq in seqs {
            side.ack(only(side, seq).await?).await?;
        }
    }
    Ok(())
}

async fn a_message_that_was_done_is_redriven_behind_the_others(h: &Harness) -> Verdict {
    for side in h.sides().into_iter().filter(|side| side.queue == Queue::Outbox) {
        let seqs = lane(side, "order-7", 3).await?;
        side.ack(only(side, seqs[0]).await?).await?;
        assert_eq!(h.outbox.redrive(Filter::one(seqs[0]), None).await?, 1);
        for seq in [seqs[1], seqs[2], seqs[0]] {
            side.ack(only(side, seq).await?).await?;
        }
    }
    Ok(())
}

async fn a_message_that_is_not_due_holds_up_its_lane(h: &Harness) -> Verdict {
    for side in h.sides() {
        let first = side.put(&draft("order-7").due_at(h.now().plus(Duration::from_secs(60)))).await?;
        let second = side.put(&draft("order-7")).await?;
        nothing(side).await?;
        h.clock.advance(Duration::from_secs(60));
        side.ack(only(side, first).await?).await?;
        side.ack(only(side, second).await?).await?;
    }
    Ok(())
}

async fn a_message_that_expires_in_its_lane_lets_the_next_one_pass(h: &Harness) -> Verdict {
    for side in h.sides() {
        let first = side.put(&draft("order-7").ttl(Duration::from_secs(10))).await?;
        let second = side.put(&draft("order-7")).await?;
        h.clock.advance(Duration::from_secs(10));
        assert_eq!(side.verbs().expire(10).await?, 1);
        side.ack(only(side, second).await?).await?;
        assert_eq!(side.state(first).await?, State::Expired);
    }
    Ok(())
}

async fn a_message_that_expires_behind_another_leaves_its_lane(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seqs = lane(side, "order-7", 1).await?;
        let brief = side.put(&draft("order-7").ttl(Duration::from_secs(10))).await?;
        let last = side.put(&draft("order-7")).await?;
        let lease = only(side, seqs[0]).await?;
        h.clock.advance(Duration::from_secs(10));
        assert_eq!(side.verbs().expire(10).await?, 1);
        assert_eq!(side.state(brief).await?, State::Expired);
        side.ack(lease).await?;
        side.ack(only(side, last).await?).await?;
    }
    Ok(())
}

async fn a_message_that_is_cancelled_leaves_its_lane(h: &Harness) -> Verdict {
    for side in h.sides().into_iter().filter(|side| side.queue == Queue::Outbox) {
        let drafts = [draft("order-7"), draft("order-7"), draft("order-7")];
        let mut seqs = Vec::new();
        for draft in &drafts {
            seqs.push(side.put(draft).await?);
        }
        // One that waits, and the first one.
        assert_eq!(h.outbox.cancel(drafts[1].outgoing().work_item_id()).await?, Cancelled::Waiting);
        let lease = only(side, seqs[0]).await?;
        side.release(lease).await?;
        assert_eq!(h.outbox.cancel(drafts[0].outgoing().work_item_id()).await?, Cancelled::Waiting);
        side.ack(only(side, seqs[2]).await?).await?;
    }
    Ok(())
}

async fn a_message_that_is_dead_by_hand_leaves_its_lane(h: &Harness) -> Verdict {
    for side in h.sides().into_iter().filter(|side| side.queue == Queue::Inbox) {
        let drafts = [draft("order-7"), draft("order-7"), draft("order-7"), draft("order-7")];
        let mut seqs = Vec::new();
        for draft in &drafts {
            seqs.push(side.put(draft).await?);
        }
        // One that waits, and one that is in progress.
        let lease = only(side, seqs[0]).await?;
        assert!(h.inbox.mark_dead(&drafts[1].key()?, "by hand").await?);
        side.ack(lease).await?;
        let stale = only(side, seqs[2]).await?;
        assert!(h.inbox.mark_dead(&drafts[2].key()?, "by hand").await?);
        assert_eq!(side.verbs().ack([stale]).await?.lost, 1);
        side.ack(only(side, seqs[3]).await?).await?;
    }
    Ok(())
}

async fn a_dead_message_that_arrives_again_still_blocks_its_lane(h: &Harness) -> Verdict {
    for side in h.sides().into_iter().filter(|side| side.queue == Queue::Inbox) {
        let first = draft("order-7");
        let dead = side.put(&first).await?;
        let next = side.put(&draft("order-7")).await?;
        side.fail(only(side, dead).await?, "no").await?;
        let other = Draft { payload: "another one".into(), ..first };
        assert_eq!(side.put(&other).await?, dead, "the same message");
        nothing(side).await?;
        let dismissed = side.verbs().dismiss(Filter::one(dead), Operator::new("ada")?.because("it is paid")?).await?;
        assert_eq!(dismissed, 1);
        side.ack(only(side, next).await?).await?;
    }
    Ok(())
}

async fn a_message_that_is_replaced_while_it_waits_keeps_its_place(h: &Harness) -> Verdict {
    for side in h.sides().into_iter().filter(|side| side.queue == Queue::Inbox) {
        let drafts = [draft("order-7"), draft("order-7"), draft("order-7")];
        let mut seqs = Vec::new();
        for draft in &drafts {
            seqs.push(side.put(draft).await?);
        }
        let lease = only(side, seqs[0]).await?;
        let other = Draft { topic: "b".into(), payload: "another one".into(), ..drafts[1].clone() };
        assert_eq!(side.put(&other).await?, seqs[1], "the same message");
        side.ack(lease).await?;
        // It is found by its new topic.
        let topics = Topics::only(["b"])?;
        let claims = side.verbs().claim_topics(OwnerToken::new(), LEASE, 10, &topics).await?.claimed;
        assert_eq!(claims.iter().map(|claimed| claimed.lease.seq()).collect::<Vec<_>>(), [seqs[1]]);
        side.ack(claims[0].lease.clone()).await?;
        side.ack(only(side, seqs[2]).await?).await?;
    }
    Ok(())
}

async fn a_duplicate_takes_no_place(h: &Harness) -> Verdict {
    for side in h.sides() {
        let (first, second) = (draft("order-7"), draft("order-7"));
        let seqs = [side.put(&first).await?, side.put(&second).await?];
        side.put(&first).await?;
        side.ack(only(side, seqs[0]).await?).await?;
        side.put(&first).await?;
        side.ack(only(side, seqs[1]).await?).await?;
        nothing(side).await?;
    }
    Ok(())
}

async fn claims_of_some_topics_keep_the_order_of_a_lane(h: &Harness) -> Verdict {
    for side in h.sides() {
        let mut seqs = Vec::new();
        for topic in ["a", "b", "a", "b"] {
            seqs.push(side.put(&Draft::new(topic).lane("order-7")).await?);
        }
        let free = side.add("b").await?;
        let claim = async |topic: &str| -> anyhow::Result<Vec<Lease>> {
            let topics = Topics::only([topic])?;
            let claims = side.verbs().claim_topics(OwnerToken::new(), LEASE, 10, &topics).await?;
            Ok(claims.claimed.into_iter().map(|claimed| claimed.lease).collect())
        };
        let [only_free] = &claim("b").await?[..] else { anyhow::bail!("the message without a lane is free") };
        assert_eq!(only_free.seq(), free);
        for (seq, (topic, other)) in seqs.into_iter().zip([("a", "b"), ("b", "a"), ("a", "b"), ("b", "a")]) {
            assert!(claim(other).await?.is_empty(), "it is the turn of {topic}");
            let [lease] = &claim(topic).await?[..] else { anyhow::bail!("it is the turn of {topic}") };
            assert_eq!(lease.seq(), seq);
            side.ack(lease.clone()).await?;
        }
    }
    Ok(())
}

async fn a_batch_has_at_most_one_message_of_a_lane(h: &Harness) -> Verdict {
    for side in h.sides() {
        let mut seqs = Vec::new();
        for number in 0..30 {
            seqs.push(side.put(&draft(&format!("lane-{}", number % 3))).await?);
        }
        for round in seqs.chunks(3) {
            let leases = ready(side).await?;
            assert_eq!(leases.iter().map(Lease::seq).collect::<Vec<_>>(), round);
            assert_eq!(side.verbs().ack(leases).await?.applied, 3);
        }
    }
    Ok(())
}

async fn a_long_lane_ends(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seqs = lane(side, "long", 60).await?;
        for seq in seqs {
            side.ack(only(side, seq).await?).await?;
        }
        assert_eq!(side.verbs().stats().await?.done, 60);
    }
    Ok(())
}

async fn messages_in_a_lane_are_counted_and_listed(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seqs = lane(side, "order-7", 4).await?;
        let lease = only(side, seqs[0]).await?;
        let stats = side.verbs().stats().await?;
        assert_eq!((stats.ready, stats.leased), (3, 1));
        h.clock.advance(Duration::from_secs(5));
        assert_eq!(side.verbs().stats().await?.oldest_waiting, Some(Duration::from_secs(5)));
        let waiting = side.verbs().list(Filter::all().state(State::Ready)).await?;
        let waiting: Vec<_> = waiting.iter().map(postroom::operator::Record::seq).collect();
        assert_eq!(waiting, seqs[1..]);
        side.ack(lease).await?;
    }
    Ok(())
}

async fn a_lane_has_a_name_like_any_other(h: &Harness) -> Verdict {
    for side in h.sides() {
        for wrong in ["x".repeat(256).as_str(), "two\nlines", "blank "] {
            let refused = match side.queue {
                Queue::Outbox => h.outbox.enqueue(draft(wrong).outgoing()).await.err(),
                Queue::Inbox => h.inbox.enqueue(draft(wrong).incoming()?).await.err(),
            };
            let said = refused.map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains("lane"), "{said}");
        }
        assert_eq!(side.rows().await?, 0);
        // Names that differ are different lanes, on every database.
        for name in ["é", "e\u{301}", "E", "e", &"x".repeat(255), "😀"] {
            side.put(&draft(name)).await?;
        }
        assert_eq!(ready(side).await?.len(), 6);
    }
    Ok(())
}

async fn a_message_says_its_lane(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seq = side.put(&draft("order-7")).await?;
        side.add("a").await?;
        let claimed = side.claim(10).await?;
        let lanes = claimed.iter().map(|claimed| claimed.message.as_ref().map(|message| message.lane.as_deref()));
        assert_eq!(lanes.collect::<Vec<_>>(), [Ok(Some("order-7")), Ok(None)]);
        let record = side.record(seq).await?;
        assert_eq!(record.message().map(|message| message.lane.clone()), Ok(Some("order-7".to_owned())));
    }
    Ok(())
}

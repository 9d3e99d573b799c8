//! Messages in progress that are cancelled: they are asked to stop, and only an ack saves them.

use std::time::Duration;

use postroom::ErrorKind;
use postroom::operator::{Act, Filter, Operator};
use postroom::queue::{Cancelled, Lease, Queue, Settle, State};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Side, refused};

cases! { asked_to_stop:
    both a_message_that_was_asked_to_stop_is_dismissed_however_it_fails [];
    both an_ack_wins_over_a_cancel [];
    both a_worker_that_vanishes_with_a_cancelled_message_does_not_bring_it_back [];
    both a_message_that_cannot_be_tried_any_more_is_cancelled_and_not_dead [];
    both only_the_message_that_was_cancelled_is_dismissed [];
    both a_cancel_is_for_one_claim [];
    both a_message_whose_lease_is_void_is_cancelled_at_once [];
    both an_operator_who_cancels_is_in_the_audit_trail [];
    both a_message_that_arrived_is_cancelled_by_its_key [];
    both a_lane_goes_on_after_its_first_message_is_cancelled [];
    both a_whole_lane_is_cancelled [];
    both a_long_lane_is_cancelled_in_steps [];
    both a_lane_has_a_name [];
    both a_cancel_and_an_ack_at_once_agree [];
}

const WHY: Option<&str> = Some("cancelled");

/// Cancels a message the way its queue names it.
async fn cancel(h: &Harness, side: &Side<'_>, draft: &Draft) -> anyhow::Result<Cancelled> {
    Ok(match side.queue {
        Queue::Outbox => h.outbox.cancel(draft.outgoing().work_item_id()).await?,
        Queue::Inbox => h.inbox.cancel(&draft.key()?).await?,
    })
}

/// A message in progress that was asked to stop.
async fn asked(h: &Harness, side: &Side<'_>) -> anyhow::Result<(i64, Lease)> {
    let draft = Draft::new("a");
    let seq = side.put(&draft).await?;
    let lease = side.claim_one().await?;
    anyhow::ensure!(cancel(h, side, &draft).await? == Cancelled::Asked, "it is in progress");
    anyhow::ensure!(cancel(h, side, &draft).await? == Cancelled::Asked, "it was asked before");
    anyhow::ensure!(side.state(seq).await? == State::Leased, "it goes on");
    Ok((seq, lease))
}

async fn a_message_that_was_asked_to_stop_is_dismissed_however_it_fails(h: &Harness) -> Verdict {
    let ends: [fn(Lease) -> postroom::Result<Settle>; 4] = [
        |lease| Settle::abandon(lease, Duration::from_secs(60), "no stock"),
        |lease| Settle::postpone(lease, Duration::from_secs(60), "no stock"),
        |lease| Ok(Settle::fail(lease, "no stock")),
        |lease| Ok(Settle::release(lease)),
    ];
    for side in h.sides() {
        for (nth, end) in ends.into_iter().enumerate() {
            let (seq, lease) = asked(h, &side).await?;
            h.clock.advance(Duration::from_secs(1));
            let settled = side.verbs().settle(vec![end(lease)?]).await?;
            assert_eq!((settled.applied, settled.lost, settled.dead), (1, 0, 0));
            let record = side.record(seq).await?;
            assert_eq!((record.state(), record.visible_at()), (State::Dismissed, None), "{nth}");
            assert_eq!((record.processed_at(), record.owner()), (Some(h.now()), None));
            assert_eq!(record.dismissal().map(|by| (by.who(), by.why())), Some(("the program", WHY)));
            let error = (nth < 3).then_some("no stock");
            assert_eq!(record.last_error(), error);
            assert_eq!(side.verbs().failures(seq).await?.len(), usize::from(nth < 3), "what happened is told");
        }
        h.clock.advance(LEASE * 100);
        assert!(side.claim(10).await?.is_empty(), "nothing is tried again");
        assert!(side.verbs().audit(10).await?.is_empty(), "the trail is for what people do");
    }
    Ok(())
}

async fn an_ack_wins_over_a_cancel(h: &Harness) -> Verdict {
    for side in h.sides() {
        let (seq, lease) = asked(h, &side).await?;
        side.ack(lease).await?;
        assert_eq!(side.state(seq).await?, State::Done);
        assert_eq!(side.verbs().cancel(seq).await?, Cancelled::TooLate);
    }
    Ok(())
}

async fn a_worker_that_vanishes_with_a_cancelled_message_does_not_bring_it_back(h: &Harness) -> Verdict {
    for side in h.sides() {
        let (seq, lease) = asked(h, &side).await?;
        assert_eq!(side.verbs().extend(std::slice::from_ref(&lease), LEASE).await?, [true], "its lease can be renewed");
        h.clock.advance(LEASE);
        assert_eq!(side.verbs().reap(10).await?.total(), 1);
        let record = side.record(seq).await?;
        assert_eq!((record.state(), record.dismissal().and_then(Operator::why)), (State::Dismissed, WHY));
        assert_eq!(record.crashes(), 1);
        let settled = side.verbs().ack([lease]).await?;
        assert_eq!((settled.applied, settled.lost), (0, 1), "too late");
        h.clock.advance(LEASE * 100);
        assert!(side.claim(10).await?.is_empty());
    }
    Ok(())
}

async fn a_message_that_cannot_be_tried_any_more_is_cancelled_and_not_dead(h: &Harness) -> Verdict {
    for side in h.sides() {
        let draft = Draft::new("a").ttl(LEASE * 2);
        let seq = side.put(&draft).await?;
        let lease = side.claim_one().await?;
        assert_eq!(cancel(h, &side, &draft).await?, Cancelled::Asked);
        assert_eq!(side.verbs().extend(std::slice::from_ref(&lease), LEASE * 4).await?, [true]);
        // Its time to live is over.
        h.clock.advance(LEASE * 3);
        side.release(lease).await?;
        assert_eq!(side.state(seq).await?, State::Dismissed);
        let stats = side.verbs().stats().await?;
        assert_eq!((stats.dead, stats.expired, stats.dismissed), (0, 0, 1));
    }
    Ok(())
}

async fn only_the_message_that_was_cancelled_is_dismissed(h: &Harness) -> Verdict {
    for side in h.sides() {
        let drafts: Vec<_> = (0..4).map(|_| Draft::new("a")).collect();
        let mut seqs = Vec::new();
        for draft in &drafts {
            seqs.push(side.put(draft).await?);
        }
        let leases: Vec<_> = side.claim(10).await?.into_iter().map(|claimed| claimed.lease).collect();
        assert_eq!(cancel(h, &side, &drafts[1]).await?, Cancelled::Asked);
        assert_eq!(cancel(h, &side, &drafts[2]).await?, Cancelled::Asked);
        let settles = leases.into_iter().map(|lease| match lease.seq() {
            seq if seq == seqs[2] => Settle::ack(lease),
            seq if seq == seqs[3] => Settle::fail(lease, "no such order"),
            _ => Settle::release(lease),
        });
        assert_eq!(side.verbs().settle(settles.collect()).await?.applied, 4);
        for (seq, state) in seqs.iter().zip([State::Ready, State::Dismissed, State::Done, State::Dead]) {
            assert_eq!(side.state(*seq).await?, state);
        }
    }
    Ok(())
}

/// What was cancelled and is requeued is a message like any other.
async fn a_cancel_is_for_one_claim(h: &Harness) -> Verdict {
    for side in h.sides() {
        let (seq, lease) = asked(h, &side).await?;
        side.abandon(lease, "no").await?;
        assert_eq!(side.verbs().revive(Filter::one(seq).state(State::Dismissed), None).await?, 1);
        side.abandon(side.claim_one().await?, "no").await?;
        assert_eq!(side.state(seq).await?, State::Ready);
        h.clock.advance(LEASE * 10);
        side.ack(side.claim_one().await?).await?;
    }
    // An ack does not look for a cancel. If the message is done again, that one is over.
    let side = h.side(Queue::Outbox);
    let (seq, lease) = asked(h, &side).await?;
    side.ack(lease).await?;
    assert_eq!(h.outbox.redrive(Filter::one(seq), None).await?, 1);
    side.release(side.claim_one().await?).await?;
    assert_eq!(side.state(seq).await?, State::Ready);
    Ok(())
}

async fn a_message_whose_lease_is_void_is_cancelled_at_once(h: &Harness) -> Verdict {
    let (side, draft) = (h.side(Queue::Inbox), Draft::new("a").payload("first"));
    let seq = side.put(&draft).await?;
    let lease = side.claim_one().await?;
    h.inbox.enqueue(draft.clone().payload("second").incoming()?).await?;
    assert_eq!(cancel(h, &side, &draft).await?, Cancelled::Waiting);
    assert_eq!(side.verbs().ack([lease]).await?.lost, 1);
    h.clock.advance(LEASE * 2);
    assert_eq!(side.verbs().reap(10).await?.total(), 0);
    assert_eq!(side.state(seq).await?, State::Dismissed);
    Ok(())
}

async fn an_operator_who_cancels_is_in_the_audit_trail(h: &Harness) -> Verdict {
    for side in h.sides() {
        let (waiting, held) = (Draft::new("a"), Draft::new("b"));
        let held_seq = side.put(&held).await?;
        let lease = side.claim_one().await?;
        let seq = side.put(&waiting).await?;
        let queue = side.verbs().by(Operator::new("ada")?.because("ordered twice")?.chose("two messages")?);
        assert_eq!(queue.cancel(seq).await?, Cancelled::Waiting);
        assert_eq!(queue.cancel(held_seq).await?, Cancelled::Asked);
        assert_eq!(queue.cancel(held_seq).await?, Cancelled::Asked, "that was no new deed");
        assert_eq!(queue.cancel(seq).await?, Cancelled::TooLate);
        assert_eq!(queue.cancel(i64::MAX).await?, Cancelled::Unknown);
        side.release(lease).await?;
        for seq in [seq, held_seq] {
            let record = side.record(seq).await?;
            let by = record.dismissal().map(|by| (by.who(), by.why()));
            assert_eq!(by, Some(("ada", Some("cancelled: ordered twice"))));
        }
        let trail = queue.audit(10).await?;
        let told: Vec<_> = trail.iter().map(|it| (it.act(), it.messages(), it.who(), it.why(), it.chosen())).collect();
        assert_eq!(told, [(Act::Cancel, 2, "ada", Some("ordered twice"), Some("two messages"))]);
    }
    Ok(())
}

async fn a_message_that_arrived_is_cancelled_by_its_key(h: &Harness) -> Verdict {
    let (side, draft) = (h.side(Queue::Inbox), Draft::new("a"));
    assert_eq!(h.inbox.cancel(&draft.key()?).await?, Cancelled::Unknown);
    let seq = side.put(&draft).await?;
    assert_eq!(h.inbox.cancel(&draft.key()?).await?, Cancelled::Waiting);
    assert_eq!(h.inbox.cancel(&draft.key()?).await?, Cancelled::TooLate);
    assert!(h.inbox.accept(draft.incoming()?).await?.is_duplicate(), "it is known");
    assert_eq!(side.state(seq).await?, State::Dismissed);
    assert!(side.claim(10).await?.is_empty());
    Ok(())
}

fn in_lane() -> Draft {
    Draft::new("a").lane("order-7")
}

async fn a_lane_goes_on_after_its_first_message_is_cancelled(h: &Harness) -> Verdict {
    for side in h.sides() {
        let drafts = [in_lane(), in_lane(), in_lane()];
        let mut seqs = Vec::new();
        for draft in &drafts {
            seqs.push(side.put(draft).await?);
        }
        let lease = side.claim_one().await?;
        assert_eq!(cancel(h, &side, &drafts[0]).await?, Cancelled::Asked);
        assert!(side.claim(10).await?.is_empty(), "it is still in progress");
        side.fail(lease, "told to stop").await?;
        let next = side.claim_one().await?;
        assert_eq!(next.seq(), seqs[1]);
        assert_eq!(cancel(h, &side, &drafts[1]).await?, Cancelled::Asked);
        // Its worker crashes.
        h.clock.advance(LEASE * 2);
        assert_eq!(side.verbs().reap(10).await?.total(), 1);
        let last = side.claim_one().await?;
        assert_eq!(last.seq(), seqs[2]);
        assert_eq!(cancel(h, &side, &drafts[2]).await?, Cancelled::Asked);
        side.ack(last).await?;
        for (seq, state) in seqs.iter().zip([State::Dismissed, State::Dismissed, State::Done]) {
            assert_eq!(side.state(*seq).await?, state);
        }
    }
    Ok(())
}

async fn a_whole_lane_is_cancelled(h: &Harness) -> Verdict {
    for side in h.sides() {
        let first = side.put(&in_lane()).await?;
        let lease = side.claim_one().await?;
        let mut waiting = vec![side.put(&in_lane()).await?];
        // Claims have looked at some, and not at the others.
        assert!(side.claim(10).await?.is_empty());
        waiting.push(side.put(&in_lane()).await?);
        let other = side.put(&Draft::new("a").lane("order-8")).await?;
        let free = side.add("a").await?;
        let operator = Operator::new("ada")?.chose("lane order-7")?;
        let cancelled = side.verbs().by(operator).cancel_lane("order-7").await?;
        assert_eq!((cancelled.waiting, cancelled.asked, cancelled.total()), (2, 1, 3));
        for seq in waiting {
            assert_eq!(side.state(seq).await?, State::Dismissed);
        }
        side.abandon(lease, "told to stop").await?;
        assert_eq!(side.state(first).await?, State::Dismissed);
        let mut left: Vec<_> = side.claim(10).await?.iter().map(|claimed| claimed.lease.seq()).collect();
        left.sort_unstable();
        assert_eq!(left, [other, free]);
        let trail = side.verbs().audit(10).await?;
        assert_eq!((trail.len(), trail[0].act(), trail[0].messages()), (1, Act::Cancel, 3));
        assert_eq!(side.verbs().cancel_lane("order-7").await?.total(), 0, "nothing is left in it");
        assert_eq!(side.verbs().cancel_lane("nobody's").await?.total(), 0);
        // The lane can be used again.
        let seq = side.put(&in_lane()).await?;
        let lease = side.claim_one().await?;
        assert_eq!(lease.seq(), seq);
        side.ack(lease).await?;
    }
    Ok(())
}

async fn a_long_lane_is_cancelled_in_steps(h: &Harness) -> Verdict {
    const MESSAGES: u64 = 250;
    for side in h.sides() {
        for nth in 0..MESSAGES {
            side.put(&in_lane()).await?;
            if nth == 120 {
                side.claim_one().await?;
            }
        }
        let cancelled = side.verbs().cancel_lane("order-7").await?;
        assert_eq!((cancelled.waiting, cancelled.asked), (MESSAGES - 1, 1));
        let stats = side.verbs().stats().await?;
        assert_eq!((stats.ready, stats.leased, stats.dismissed), (0, 1, MESSAGES - 1));
    }
    Ok(())
}

async fn a_lane_has_a_name(h: &Harness) -> Verdict {
    for side in h.sides() {
        for name in ["", "a\nb", "a "] {
            refused(side.verbs().cancel_lane(name).await, ErrorKind::InvalidInput, name)?;
        }
    }
    Ok(())
}

async fn a_cancel_and_an_ack_at_once_agree(h: &Harness) -> Verdict {
    const MESSAGES: usize = 40;
    for side in h.sides() {
        side.add_many("a", MESSAGES).await?;
        let leases: Vec<_> = side.claim(MESSAGES).await?.into_iter().map(|claimed| claimed.lease).collect();
        assert_eq!(leases.len(), MESSAGES);
        let seqs: Vec<_> = leases.iter().map(Lease::seq).collect();
        let cancelling = async {
            for seq in seqs.iter().rev() {
                side.verbs().cancel(*seq).await?;
            }
            anyhow::Ok(())
        };
        let settling = async {
            let mut left = leases.into_iter();
            while let (Some(done), Some(given_back)) = (left.next(), left.next()) {
                side.ack(done).await?;
                side.release(given_back).await?;
            }
            anyhow::Ok(())
        };
        tokio::try_join!(cancelling, settling)?;
        for (nth, seq) in seqs.iter().enumerate() {
            let expected = if nth % 2 == 0 { State::Done } else { State::Dismissed };
            assert_eq!(side.state(*seq).await?, expected, "{nth}");
        }
    }
    Ok(())
}

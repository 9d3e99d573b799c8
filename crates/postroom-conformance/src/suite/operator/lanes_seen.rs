//! What an operator sees of lanes: the deepest, those that are blocked, and the place of a message.

use std::time::Duration;

use postroom::operator::{Filter, Lane, LanePlace, Lanes, Operator};
use postroom::queue::{Lease, State};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, Side};

cases! { lanes_seen:
    both the_deepest_lanes_come_first [];
    both the_first_message_of_a_lane_tells_what_the_others_wait_for [];
    both lanes_that_are_blocked_come_in_the_order_in_which_they_were [];
    both what_has_ended_is_in_no_lane [];
    both a_message_knows_its_place_in_its_lane [];
    both a_message_that_came_back_stands_last [];
    both lanes_are_shown_up_to_a_limit [];
}

async fn fill(side: &Side<'_>, name: &str, count: usize) -> anyhow::Result<Vec<i64>> {
    let mut seqs = Vec::new();
    for _ in 0..count {
        seqs.push(side.put(&Draft::new("a").lane(name)).await?);
    }
    Ok(seqs)
}

async fn lanes(side: &Side<'_>) -> anyhow::Result<Lanes> {
    Ok(side.verbs().lanes(10).await?)
}

fn depths(lanes: &[Lane]) -> Vec<(&str, u64, i64)> {
    lanes.iter().map(|lane| (lane.name.as_str(), lane.messages, lane.first.seq)).collect()
}

/// Claims the messages that have their turn, by their numbers.
async fn claim(side: &Side<'_>, seqs: &[i64]) -> anyhow::Result<Vec<Lease>> {
    let mut leases: Vec<_> = side.claim(100).await?.into_iter().map(|claimed| claimed.lease).collect();
    leases.sort_by_key(Lease::seq);
    let claimed: Vec<_> = leases.iter().map(Lease::seq).collect();
    anyhow::ensure!(claimed == seqs, "{claimed:?} were claimed, not {seqs:?}");
    Ok(leases)
}

async fn place(side: &Side<'_>, seq: i64) -> anyhow::Result<LanePlace> {
    side.verbs().lane_of(seq).await?.ok_or_else(|| anyhow::anyhow!("{seq} is in no lane"))
}

async fn the_deepest_lanes_come_first(h: &Harness) -> Verdict {
    for side in h.sides() {
        assert_eq!(lanes(&side).await?, Lanes::default());
        side.add("a").await?;
        let (one, two) = (fill(&side, "order-1", 1).await?, fill(&side, "order-2", 3).await?);
        let other = fill(&side, "order-10", 1).await?;
        let expected = [("order-2", 3, two[0]), ("order-1", 1, one[0]), ("order-10", 1, other[0])];
        let seen = lanes(&side).await?;
        assert_eq!((seen.lanes, seen.blocked_lanes, seen.blocked.len()), (3, 0, 0));
        assert_eq!(depths(&seen.deepest), expected, "before a claim");
        side.claim(100).await?;
        assert_eq!(depths(&lanes(&side).await?.deepest), expected, "what is in progress counts as well");
        fill(&side, "order-1", 3).await?;
        assert_eq!(depths(&lanes(&side).await?.deepest)[0], ("order-1", 4, one[0]));
    }
    Ok(())
}

async fn the_first_message_of_a_lane_tells_what_the_others_wait_for(h: &Harness) -> Verdict {
    for side in h.sides() {
        let created_at = h.now();
        let seqs = fill(&side, "order-7", 2).await?;
        h.clock.advance(Duration::from_secs(5));
        let first = async || anyhow::Ok(lanes(&side).await?.deepest.remove(0).first);
        let ready = first().await?;
        assert_eq!((ready.seq, ready.topic.as_str(), ready.state), (seqs[0], "a", State::Ready));
        assert_eq!((ready.created_at, ready.visible_at, ready.attempts), (created_at, Some(created_at), 0));
        let message = side.record(seqs[0]).await?;
        let message = message.message().expect("it is readable");
        assert_eq!((ready.id, ready.party.as_deref()), (message.id(), message.source()));
        let lease = claim(&side, &seqs[..1]).await?.remove(0);
        let leased = first().await?;
        assert_eq!((leased.state, leased.visible_at), (State::Leased, Some(lease.until())));
        side.abandon(lease, "no").await?;
        let retried = first().await?;
        assert_eq!((retried.state, retried.attempts), (State::Ready, 1));
        assert!(retried.visible_at > Some(h.now()), "{retried:?}");
    }
    Ok(())
}

async fn lanes_that_are_blocked_come_in_the_order_in_which_they_were(h: &Harness) -> Verdict {
    for side in h.sides() {
        let (one, two) = (fill(&side, "order-1", 2).await?, fill(&side, "order-2", 3).await?);
        let mut leases = claim(&side, &[one[0], two[0]]).await?;
        side.fail(leases.remove(1), "never").await?;
        h.clock.advance(Duration::from_secs(1));
        assert_eq!(depths(&lanes(&side).await?.blocked), [("order-2", 3, two[0])]);
        side.fail(leases.remove(0), "never").await?;
        let seen = lanes(&side).await?;
        assert_eq!((seen.lanes, seen.blocked_lanes), (2, 2));
        assert_eq!(depths(&seen.blocked), [("order-2", 3, two[0]), ("order-1", 2, one[0])]);
        assert!(seen.deepest.iter().all(Lane::is_blocked));
        side.verbs().dismiss(Filter::one(two[0]), Operator::new("ada")?.because("gone")?).await?;
        side.verbs().revive(Filter::one(one[0]), None).await?;
        let seen = lanes(&side).await?;
        assert_eq!((seen.blocked_lanes, seen.blocked.len()), (0, 0));
        assert_eq!(depths(&seen.deepest), [("order-1", 2, one[0]), ("order-2", 2, two[1])]);
    }
    Ok(())
}

async fn what_has_ended_is_in_no_lane(h: &Harness) -> Verdict {
    for side in h.sides() {
        let (one, two) = (fill(&side, "order-1", 2).await?, fill(&side, "order-2", 1).await?);
        for lease in claim(&side, &[one[0], two[0]]).await? {
            side.ack(lease).await?;
        }
        let seen = lanes(&side).await?;
        assert_eq!((seen.lanes, depths(&seen.deepest)), (1, vec![("order-1", 1, one[1])]));
        assert_eq!(side.verbs().lane_of(two[0]).await?, None);
        assert_eq!(place(&side, one[1]).await?.ahead, 0);
        side.ack(claim(&side, &one[1..]).await?.remove(0)).await?;
        assert_eq!(lanes(&side).await?, Lanes::default());
        // One that is dead by itself stands in no lane.
        side.fail(side.leased("a").await?, "never").await?;
        assert_eq!(lanes(&side).await?, Lanes::default());
    }
    Ok(())
}

async fn a_message_knows_its_place_in_its_lane(h: &Harness) -> Verdict {
    for side in h.sides() {
        fill(&side, "another", 2).await?;
        let seqs = fill(&side, "order-7", 3).await?;
        let free = side.add("a").await?;
        for claimed in [false, true] {
            for (ahead, seq) in (0..).zip(&seqs) {
                let place = place(&side, *seq).await?;
                assert_eq!((place.ahead, place.lane.messages, place.lane.first.seq), (ahead, 3, seqs[0]), "{claimed}");
                assert_eq!(place.lane.name, "order-7");
            }
            assert_eq!(side.verbs().lane_of(free).await?, None);
            if !claimed {
                side.claim(1).await?;
            }
        }
        // Behind those that a claim has looked at.
        let last = fill(&side, "order-7", 1).await?[0];
        assert_eq!(place(&side, last).await?.ahead, 3);
        assert_eq!(side.verbs().lane_of(i64::MAX).await?, None);
    }
    Ok(())
}

async fn a_message_that_came_back_stands_last(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seqs = fill(&side, "order-7", 2).await?;
        side.fail(claim(&side, &seqs[..1]).await?.remove(0), "never").await?;
        side.verbs().dismiss(Filter::one(seqs[0]), Operator::new("ada")?.because("gone")?).await?;
        let later = fill(&side, "order-7", 1).await?[0];
        let dismissed = Filter::one(seqs[0]).state(State::Dismissed);
        assert_eq!(side.verbs().revive(dismissed, None).await?, 1);
        let last = fill(&side, "order-7", 1).await?[0];
        for (ahead, seq) in (0..).zip([seqs[1], later, seqs[0], last]) {
            let place = place(&side, seq).await?;
            assert_eq!((place.ahead, place.lane.messages, place.lane.first.seq), (ahead, 4, seqs[1]), "row {seq}");
        }
    }
    Ok(())
}

async fn lanes_are_shown_up_to_a_limit(h: &Harness) -> Verdict {
    for side in h.sides() {
        for (name, count) in [("a", 1), ("b", 3), ("ö", 2)] {
            fill(&side, name, count).await?;
        }
        let seen = side.verbs().lanes(2).await?;
        let names: Vec<_> = seen.deepest.iter().map(|lane| (lane.name.as_str(), lane.messages)).collect();
        assert_eq!((seen.lanes, names), (3, vec![("b", 3), ("ö", 2)]));
        assert!(side.verbs().lanes(0).await.is_err());
    }
    Ok(())
}

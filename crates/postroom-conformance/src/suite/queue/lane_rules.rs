//! What operators set for lanes: how many messages are in progress at once, what follows when one dies, and pauses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postroom::message::OwnerToken;
use postroom::operator::{Filter, Limit, OnDead, Operator, Scope};
use postroom::queue::{Lease, Queue, State};
use postroom::{NewMessage, Outbox};
use tokio::task::JoinSet;

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Stage, Testable, eventually};
use crate::side::Side;

cases! { lane_rules:
    both a_lane_with_places_has_as_many_messages_in_progress [];
    both what_is_set_for_a_lane_wins_over_what_is_set_for_a_topic [];
    both the_places_of_a_lane_can_be_changed_while_it_works [];
    both a_dead_message_among_several_blocks_those_behind_it [];
    both what_comes_back_from_work_waits_behind_a_dead_message [];
    both others_skip_a_dead_message [];
    both a_skipped_message_that_is_requeued_goes_last [];
    both a_dead_message_that_blocked_is_skipped_when_that_is_set [];
    both after_a_dead_message_only_the_newest_goes_on [];
    both a_paused_lane_waits_and_spends_no_attempt [];
    both the_lanes_of_a_paused_topic_wait_and_others_do_not [];
    both what_is_in_progress_ends_while_its_lane_is_paused [];
    both what_is_retried_in_a_paused_lane_waits [];
    both a_message_that_comes_to_a_paused_lane_waits [];
    both claimers_at_the_same_time_keep_to_the_places_and_the_order [];
    durable another_store_notices_that_a_lane_is_paused [];
}

fn ada() -> anyhow::Result<Operator> {
    Ok(Operator::new("ada")?.because("they migrate")?)
}

async fn limit(side: Side<'_>, scope: &Scope, limit: Limit) -> Verdict {
    Ok(side.verbs().limit(scope.clone(), limit, ada()?).await?)
}

/// Enqueues messages of one lane, each after the other.
async fn lane(side: Side<'_>, name: &str, count: usize) -> anyhow::Result<Vec<i64>> {
    let mut seqs = Vec::new();
    for _ in 0..count {
        seqs.push(side.put(&Draft::new("a").lane(name)).await?);
    }
    Ok(seqs)
}

/// Claims everything that is ready.
async fn ready(side: Side<'_>) -> anyhow::Result<Vec<Lease>> {
    let mut leases: Vec<_> = side.claim(100).await?.into_iter().map(|claimed| claimed.lease).collect();
    leases.sort_by_key(Lease::seq);
    Ok(leases)
}

/// Claims exactly these.
async fn these<const N: usize>(side: Side<'_>, seqs: [i64; N]) -> anyhow::Result<[Lease; N]> {
    let leases = ready(side).await?;
    let claimed: Vec<_> = leases.iter().map(Lease::seq).collect();
    anyhow::ensure!(claimed == seqs, "{claimed:?} were claimed, not {seqs:?}");
    leases.try_into().map_err(|leases| anyhow::anyhow!("{leases:?}"))
}

async fn a_lane_with_places_has_as_many_messages_in_progress(h: &Harness) -> Verdict {
    for side in h.sides() {
        limit(side, &Scope::lane("order-7")?, Limit::none().at_once(2)).await?;
        let seqs = lane(side, "order-7", 5).await?;
        let other = lane(side, "order-8", 2).await?;
        let [first, second, other] = these(side, [seqs[0], seqs[1], other[0]]).await?;
        these(side, []).await?;
        side.ack(second).await?;
        let [third] = these(side, [seqs[2]]).await?;
        side.abandon(first, "no").await?;
        these(side, []).await?;
        h.clock.advance(Duration::from_secs(1));
        let [first] = these(side, [seqs[0]]).await?;
        side.ack(first).await?;
        side.ack(third).await?;
        let [fourth, fifth] = these(side, [seqs[3], seqs[4]]).await?;
        side.ack(fourth).await?;
        side.ack(fifth).await?;
        side.ack(other).await?;
    }
    Ok(())
}

async fn what_is_set_for_a_lane_wins_over_what_is_set_for_a_topic(h: &Harness) -> Verdict {
    for side in h.sides() {
        limit(side, &Scope::lanes("a")?, Limit::none().at_once(2)).await?;
        limit(side, &Scope::lane("wide")?, Limit::none().at_once(3)).await?;
        let (wide, usual) = (lane(side, "wide", 4).await?, lane(side, "usual", 4).await?);
        let narrow = side.put(&Draft::new("b").lane("narrow")).await?;
        side.put(&Draft::new("b").lane("narrow")).await?;
        these(side, [wide[0], wide[1], wide[2], usual[0], usual[1], narrow]).await?;
        these(side, []).await?;
    }
    Ok(())
}

async fn the_places_of_a_lane_can_be_changed_while_it_works(h: &Harness) -> Verdict {
    for side in h.sides() {
        let scope = Scope::lane("order-7")?;
        let seqs = lane(side, "order-7", 6).await?;
        let [first] = these(side, [seqs[0]]).await?;
        limit(side, &scope, Limit::none().at_once(3)).await?;
        let [second, third] = these(side, [seqs[1], seqs[2]]).await?;
        limit(side, &scope, Limit::none()).await?;
        assert_eq!(side.verbs().rules().await?, []);
        side.release(third).await?;
        these(side, []).await?;
        side.ack(first).await?;
        these(side, []).await?;
        side.ack(second).await?;
        let [third] = these(side, [seqs[2]]).await?;
        side.ack(third).await?;
        these(side, [seqs[3]]).await?;
        // What has its turn and was not claimed loses it.
        limit(side, &scope, Limit::none().at_once(3)).await?;
        side.claim(1).await?;
        limit(side, &scope, Limit::none().at_once(1)).await?;
        these(side, []).await?;
        limit(side, &scope, Limit::none().at_once(9)).await?;
        these(side, [seqs[5]]).await?;
    }
    Ok(())
}

async fn a_dead_message_among_several_blocks_those_behind_it(h: &Harness) -> Verdict {
    for side in h.sides() {
        limit(side, &Scope::lane("order-7")?, Limit::none().at_once(3)).await?;
        let seqs = lane(side, "order-7", 5).await?;
        let [first, second, third] = these(side, [seqs[0], seqs[1], seqs[2]]).await?;
        side.fail(second, "never").await?;
        side.fail(first, "never").await?;
        these(side, []).await?;
        side.ack(third).await?;
        these(side, []).await?;
        assert_eq!(side.verbs().revive(Filter::one(seqs[0]), None).await?, 1);
        let [first] = these(side, [seqs[0]]).await?;
        side.ack(first).await?;
        these(side, []).await?;
        assert_eq!(side.verbs().revive(Filter::one(seqs[1]), None).await?, 1);
        these(side, [seqs[1], seqs[3], seqs[4]]).await?;
    }
    Ok(())
}

async fn what_comes_back_from_work_waits_behind_a_dead_message(h: &Harness) -> Verdict {
    for side in h.sides() {
        limit(side, &Scope::lanes("a")?, Limit::none().at_once(2)).await?;
        let seqs = lane(side, "order-7", 3).await?;
        let [first, second] = these(side, [seqs[0], seqs[1]]).await?;
        side.fail(first, "never").await?;
        side.release(second).await?;
        these(side, []).await?;
        let dismissed = side.verbs().dismiss(Filter::one(seqs[0]), ada()?).await?;
        assert_eq!(dismissed, 1);
        these(side, [seqs[1], seqs[2]]).await?;
    }
    Ok(())
}

async fn others_skip_a_dead_message(h: &Harness) -> Verdict {
    for side in h.sides() {
        limit(side, &Scope::lanes("a")?, Limit::none().on_dead(OnDead::Skip)).await?;
        let seqs = lane(side, "order-7", 3).await?;
        let [first] = these(side, [seqs[0]]).await?;
        side.fail(first, "never").await?;
        let [second] = these(side, [seqs[1]]).await?;
        side.fail(second, "never").await?;
        let [third] = these(side, [seqs[2]]).await?;
        side.ack(third).await?;
        assert_eq!(side.verbs().stats().await?.dead, 2);
        let [later] = these(side, [lane(side, "order-7", 1).await?[0]]).await?;
        side.ack(later).await?;
    }
    Ok(())
}

async fn a_skipped_message_that_is_requeued_goes_last(h: &Harness) -> Verdict {
    for side in h.sides() {
        limit(side, &Scope::lane("order-7")?, Limit::none().on_dead(OnDead::Skip)).await?;
        let seqs = lane(side, "order-7", 3).await?;
        let [first] = these(side, [seqs[0]]).await?;
        side.fail(first, "never").await?;
        let [second] = these(side, [seqs[1]]).await?;
        assert_eq!(side.verbs().revive(Filter::one(seqs[0]), None).await?, 1);
        side.ack(second).await?;
        for seq in [seqs[2], seqs[0]] {
            let [lease] = these(side, [seq]).await?;
            side.ack(lease).await?;
        }
    }
    Ok(())
}

async fn a_dead_message_that_blocked_is_skipped_when_that_is_set(h: &Harness) -> Verdict {
    for side in h.sides() {
        for scope in [Scope::lane("order-7")?, Scope::lanes("a")?] {
            let seqs = lane(side, "order-7", 2).await?;
            let [first] = these(side, [seqs[0]]).await?;
            side.fail(first, "never").await?;
            these(side, []).await?;
            limit(side, &scope, Limit::none().on_dead(OnDead::Skip)).await?;
            let [second] = these(side, [seqs[1]]).await?;
            side.ack(second).await?;
            limit(side, &scope, Limit::none()).await?;
        }
    }
    Ok(())
}

async fn after_a_dead_message_only_the_newest_goes_on(h: &Harness) -> Verdict {
    for side in h.sides() {
        limit(side, &Scope::lane("order-7")?, Limit::none().on_dead(OnDead::Newest)).await?;
        let seqs = lane(side, "order-7", 5).await?;
        let [first] = these(side, [seqs[0]]).await?;
        side.fail(first, "never").await?;
        let [newest] = these(side, [seqs[4]]).await?;
        side.ack(newest).await?;
        these(side, []).await?;
        let stats = side.verbs().stats().await?;
        assert_eq!((stats.dead, stats.dismissed, stats.done), (1, 3, 1));
        let dropped = side.record(seqs[1]).await?;
        let dismissal = dropped.dismissal().map(|by| (by.who(), by.why()));
        assert_eq!(dismissal, Some(("postroom", Some("superseded in its lane"))));
    }
    Ok(())
}

async fn a_paused_lane_waits_and_spends_no_attempt(h: &Harness) -> Verdict {
    for side in h.sides() {
        let scope = Scope::lane("order-7")?;
        let (seqs, other) = (lane(side, "order-7", 2).await?, lane(side, "order-8", 1).await?);
        // Its first message stands in the line.
        let [first, _] = these(side, [seqs[0], other[0]]).await?;
        side.release(first).await?;
        assert!(side.verbs().pause(scope.clone(), ada()?).await?);
        these(side, []).await?;
        h.advance(LEASE * 2);
        assert_eq!(side.verbs().reap(10).await?.total(), 1, "the other one");
        assert_eq!(side.state(seqs[0]).await?, State::Ready);
        let rule = side.verbs().rules().await?.remove(0);
        assert_eq!((&rule.scope, rule.paused.map(|pause| pause.by)), (&scope, Some("ada".to_owned())));
        assert!(side.verbs().resume(scope.clone(), ada()?).await?);
        assert!(!side.verbs().resume(scope, ada()?).await?, "it is not paused");
        let [first] = these(side, [seqs[0]]).await?;
        assert_eq!(first.attempts(), 0);
        side.ack(first).await?;
        these(side, [seqs[1]]).await?;
    }
    Ok(())
}

async fn the_lanes_of_a_paused_topic_wait_and_others_do_not(h: &Harness) -> Verdict {
    for side in h.sides() {
        let scope = Scope::lanes("a")?;
        let (one, two) = (lane(side, "one", 2).await?, lane(side, "two", 2).await?);
        let [first, second] = these(side, [one[0], two[0]]).await?;
        side.release(second).await?;
        side.verbs().pause(scope.clone(), ada()?).await?;
        let free = side.add("a").await?;
        let other = side.put(&Draft::new("b").lane("three")).await?;
        these(side, [free, other]).await?;
        side.ack(first).await?;
        these(side, []).await?;
        side.verbs().resume(scope, ada()?).await?;
        these(side, [one[1], two[0]]).await?;
        assert_eq!(side.verbs().rules().await?, []);
    }
    Ok(())
}

async fn what_is_in_progress_ends_while_its_lane_is_paused(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seqs = lane(side, "order-7", 2).await?;
        let [first] = these(side, [seqs[0]]).await?;
        side.verbs().pause(Scope::lane("order-7")?, ada()?).await?;
        assert_eq!(side.verbs().extend(std::slice::from_ref(&first), LEASE).await?, [true]);
        side.ack(first).await?;
        these(side, []).await?;
        side.verbs().resume(Scope::lane("order-7")?, ada()?).await?;
        these(side, [seqs[1]]).await?;
    }
    Ok(())
}

async fn what_is_retried_in_a_paused_lane_waits(h: &Harness) -> Verdict {
    for side in h.sides() {
        for scope in [Scope::lane("order-7")?, Scope::lanes("a")?] {
            let seq = lane(side, "order-7", 1).await?[0];
            let [lease] = these(side, [seq]).await?;
            side.verbs().pause(scope.clone(), ada()?).await?;
            side.abandon(lease, "no").await?;
            h.clock.advance(Duration::from_secs(60));
            these(side, []).await?;
            side.verbs().resume(scope, ada()?).await?;
            let [lease] = these(side, [seq]).await?;
            assert_eq!(lease.attempts(), 1);
            side.ack(lease).await?;
        }
    }
    Ok(())
}

async fn a_message_that_comes_to_a_paused_lane_waits(h: &Harness) -> Verdict {
    for side in h.sides() {
        for scope in [Scope::lane("order-7")?, Scope::lanes("a")?] {
            side.verbs().pause(scope.clone(), ada()?).await?;
            let seqs = lane(side, "order-7", 2).await?;
            these(side, []).await?;
            side.verbs().resume(scope, ada()?).await?;
            for seq in seqs {
                let [lease] = these(side, [seq]).await?;
                side.ack(lease).await?;
            }
        }
    }
    Ok(())
}

const MESSAGES: usize = 60;
const PLACES: usize = 2;

async fn claimers_at_the_same_time_keep_to_the_places_and_the_order(h: &Harness) -> Verdict {
    let outbox = h.outbox.queue();
    outbox.limit(Scope::lane("order-7")?, Limit::none().at_once(2), ada()?).await?;
    let messages = (0..MESSAGES).map(|number| NewMessage::new("a", number.to_string()).lane("order-7"));
    h.outbox.enqueue_many(messages).await?;
    let (in_progress, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut claimers = JoinSet::new();
    for _ in 0..4 {
        let (queue, in_progress, done) = (outbox.clone(), in_progress.clone(), done.clone());
        claimers.spawn(async move {
            while done.load(Ordering::SeqCst) < MESSAGES {
                let claimed = queue.claim(OwnerToken::new(), LEASE, 5).await?.claimed;
                let now = in_progress.fetch_add(claimed.len(), Ordering::SeqCst) + claimed.len();
                anyhow::ensure!(now <= PLACES, "{now} are in progress at once");
                tokio::task::yield_now().await;
                for one in claimed {
                    // All before it but one have ended, or have their turn as well.
                    let before: usize = one.message.as_ref().map_or(Ok(MESSAGES), |message| message.payload.parse())?;
                    anyhow::ensure!(before < done.load(Ordering::SeqCst) + PLACES, "{before} came before");
                    in_progress.fetch_sub(1, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                    anyhow::ensure!(queue.ack([one.lease]).await?.applied == 1);
                }
            }
            Ok(())
        });
    }
    while let Some(ended) = claimers.join_next().await {
        ended??;
    }
    assert_eq!(outbox.stats().await?.done, MESSAGES as u64);
    Ok(())
}

async fn another_store_notices_that_a_lane_is_paused<B: Testable>(stage: &Stage<B>) -> Verdict {
    let other = Outbox::new(B::open_again(&stage.store, &stage.place).await?);
    let side = stage.side(Queue::Outbox);
    for scope in [Scope::lane("order-7")?, Scope::lanes("a")?] {
        let claims =
            || async { Ok::<_, postroom::Error>(other.queue().claim(OwnerToken::new(), LEASE, 10).await?.claimed) };
        let seq = side.put(&Draft::new("a").lane("order-7")).await?;
        side.verbs().pause(scope.clone(), ada()?).await?;
        assert!(claims().await?.is_empty(), "it stands in the line no more");
        side.verbs().resume(scope, ada()?).await?;
        eventually("the other store goes on", || async {
            let claimed = claims().await?;
            for one in &claimed {
                assert_eq!(one.lease.seq(), seq);
                assert_eq!(other.queue().ack([one.lease.clone()]).await?.applied, 1);
            }
            Ok(!claimed.is_empty())
        })
        .await?;
    }
    Ok(())
}

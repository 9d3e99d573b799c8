//! What operators pause or limit: nothing is lost, nothing spends an attempt, others do not wait, and a limit holds
//! over all that claim.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use postroom::message::OwnerToken;
use postroom::operator::{Act, Limit, OnDead, Operator, Scope};
use postroom::queue::{Claimed, Lease, Queue, Topics};
use postroom::{ErrorKind, NewMessage, Outbox};
use tokio::task::JoinSet;

use crate::case::{Verdict, cases};
use crate::harness::{Harness, LEASE, Side, Stage, Testable, eventually, refused};

cases! { rules:
    both messages_of_a_paused_topic_wait_and_spend_no_attempt [];
    both messages_to_a_paused_destination_wait [];
    both a_paused_queue_claims_nothing_and_the_other_goes_on [];
    both what_is_in_progress_ends_while_its_topic_is_paused [];
    both claims_of_a_paused_topic_alone_find_nothing [];
    both a_pause_says_who_since_when_and_why_and_the_first_one_stays [];
    both pauses_and_limits_are_in_the_audit_trail [];
    both no_more_are_in_progress_at_once_than_a_limit_says [];
    both whoever_ends_makes_room_however_it_ends [];
    both messages_start_as_fast_as_a_rate_says [];
    both a_limit_of_both_kinds_keeps_both [];
    both a_limit_can_be_changed_and_removed [];
    both a_paused_topic_with_a_limit_stays_paused [];
    both a_topic_with_a_limit_does_not_hold_up_others [];
    both suspects_keep_to_pauses_and_limits [];
    both what_makes_no_sense_is_refused [];
    both claimers_at_the_same_time_keep_to_a_limit [];
    durable another_store_notices_a_pause_within_a_second [];
}

fn ada() -> anyhow::Result<Operator> {
    Ok(Operator::new("ada")?.because("they migrate")?)
}

async fn topics(side: &Side<'_>, batch: usize) -> anyhow::Result<Vec<String>> {
    let claimed = side.claim(batch).await?;
    let mut topics: Vec<_> = claimed.iter().filter_map(|one| Some(one.message.as_ref().ok()?.topic.clone())).collect();
    topics.sort();
    Ok(topics)
}

async fn leases(side: &Side<'_>, batch: usize) -> anyhow::Result<Vec<Lease>> {
    Ok(side.claim(batch).await?.into_iter().map(|claimed| claimed.lease).collect())
}

async fn messages_of_a_paused_topic_wait_and_spend_no_attempt(h: &Harness) -> Verdict {
    for side in h.sides() {
        assert!(side.verbs().pause(Scope::topic("a")?, ada()?).await?);
        for topic in ["a", "b", "a"] {
            side.add(topic).await?;
        }
        assert_eq!(topics(&side, 10).await?, ["b"]);
        h.advance(LEASE * 2);
        let (others, stats) = (topics(&side, 10).await?, side.verbs().stats().await?);
        assert!(!others.contains(&"a".to_owned()) && stats.ready >= 2, "{others:?} {stats:?}");
        assert!(side.verbs().resume(Scope::topic("a")?, ada()?).await?);
        let claimed: Vec<Claimed> =
            side.verbs().claim_topics(OwnerToken::new(), LEASE, 10, &Topics::only(["a"])?).await?.claimed;
        assert_eq!(claimed.len(), 2);
        assert!(claimed.iter().all(|one| (one.lease.attempts(), one.lease.claim_no()) == (0, 1)), "{claimed:?}");
        assert!(!side.verbs().resume(Scope::topic("a")?, ada()?).await?, "it is not paused");
    }
    Ok(())
}

async fn messages_to_a_paused_destination_wait(h: &Harness) -> Verdict {
    let (billing, side) = (Scope::destination("billing")?, h.side(Queue::Outbox));
    h.outbox.queue().pause(billing.clone(), ada()?).await?;
    h.outbox.enqueue(NewMessage::new("a", "{}").to("billing")).await?;
    h.outbox.enqueue(NewMessage::new("b", "{}").to("shop")).await?;
    h.outbox.enqueue(NewMessage::new("billing", "{}")).await?;
    assert_eq!(topics(&side, 10).await?, ["b", "billing"], "a topic of the same name is something else");
    h.outbox.queue().resume(billing, ada()?).await?;
    assert_eq!(topics(&side, 10).await?, ["a"]);
    Ok(())
}

async fn a_paused_queue_claims_nothing_and_the_other_goes_on(h: &Harness) -> Verdict {
    let [one, other] = h.sides();
    for (paused, running) in [(one, other), (other, one)] {
        paused.verbs().pause(Scope::Queue, ada()?).await?;
        paused.add("a").await?;
        running.add("a").await?;
        assert_eq!(topics(&paused, 10).await?, Vec::<String>::new());
        running.ack(running.claim_one().await?).await?;
        paused.verbs().resume(Scope::Queue, ada()?).await?;
        paused.ack(paused.claim_one().await?).await?;
    }
    Ok(())
}

async fn what_is_in_progress_ends_while_its_topic_is_paused(h: &Harness) -> Verdict {
    for side in h.sides() {
        let (done, failed) = (side.leased("a").await?, side.leased("a").await?);
        side.verbs().pause(Scope::topic("a")?, ada()?).await?;
        assert_eq!(side.verbs().extend(std::slice::from_ref(&done), LEASE).await?, [true]);
        side.ack(done).await?;
        side.abandon(failed, "no").await?;
        h.advance(LEASE * 2);
        assert_eq!(topics(&side, 10).await?, Vec::<String>::new(), "it is retried when the topic goes on");
        side.verbs().resume(Scope::topic("a")?, ada()?).await?;
        assert_eq!(side.claim_one().await?.attempts(), 1);
    }
    Ok(())
}

async fn claims_of_a_paused_topic_alone_find_nothing(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.verbs().pause(Scope::topic("a")?, ada()?).await?;
        side.add("a").await?;
        let only = Topics::only(["a"])?;
        let claims = side.verbs().claim_topics(OwnerToken::new(), LEASE, 10, &only).await?;
        assert!(claims.claimed.is_empty() && claims.next_at.is_none(), "there is nothing to wait for: {claims:?}");
    }
    Ok(())
}

async fn a_pause_says_who_since_when_and_why_and_the_first_one_stays(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add("a").await?;
        assert!(side.verbs().pause(Scope::topic("a")?, ada()?).await?);
        let since = h.now();
        h.advance(LEASE);
        assert!(!side.verbs().pause(Scope::topic("a")?, Operator::new("bob")?).await?);
        side.verbs().pause(Scope::Queue, Operator::new("bob")?).await?;
        let rules = side.verbs().rules().await?;
        let told: Vec<_> = rules.iter().map(|rule| (rule.scope.to_string(), rule.waiting)).collect();
        assert_eq!(told, [("the whole queue".into(), 0), ("the topic a".into(), 1)]);
        let pause = rules[1].paused.as_ref().context("it is not paused")?;
        assert_eq!((pause.since, pause.by.as_str(), pause.why.as_deref()), (since, "ada", Some("they migrate")));
        assert_eq!(rules[0].paused.as_ref().map(|pause| pause.why.as_deref()), Some(None));
        for rule in rules {
            side.verbs().resume(rule.scope, ada()?).await?;
        }
        assert_eq!(side.verbs().rules().await?, []);
    }
    Ok(())
}

async fn pauses_and_limits_are_in_the_audit_trail(h: &Harness) -> Verdict {
    for side in h.sides() {
        let scope = Scope::topic("a")?;
        side.verbs().pause(scope.clone(), ada()?).await?;
        h.advance(LEASE);
        side.verbs().pause(scope.clone(), ada()?).await?;
        side.verbs().limit(scope.clone(), Limit::none().at_once(2), ada()?).await?;
        h.advance(LEASE);
        side.verbs().by(Operator::new("bob")?).resume(scope, ada()?).await?;
        let entries = side.verbs().audit(10).await?;
        let told: Vec<_> =
            entries.iter().map(|entry| (entry.who(), entry.act(), entry.chosen(), entry.messages())).collect();
        let expected = [
            ("bob", Act::Resume, None, 0),
            ("ada", Act::Limit, Some("the topic a: 2 at once"), 0),
            ("ada", Act::Pause, Some("the topic a"), 0),
        ];
        assert_eq!(told, expected, "what changes nothing leaves no entry");
    }
    Ok(())
}

async fn no_more_are_in_progress_at_once_than_a_limit_says(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.verbs().limit(Scope::topic("a")?, Limit::none().at_once(3), ada()?).await?;
        for _ in 0..10 {
            side.add("a").await?;
        }
        let mut held = leases(&side, 2).await?;
        held.extend(leases(&side, 10).await?);
        assert_eq!(held.len(), 3);
        for left in (0..10).rev() {
            let Some(lease) = held.pop() else { break };
            side.ack(lease).await?;
            let more = leases(&side, 10).await?;
            assert_eq!(more.len(), usize::from(left >= 3), "{left} are not done");
            held.extend(more);
        }
        assert_eq!(side.verbs().stats().await?.done, 10);
    }
    Ok(())
}

async fn whoever_ends_makes_room_however_it_ends(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.verbs().limit(Scope::topic("a")?, Limit::none().at_once(1), ada()?).await?;
        for _ in 0..6 {
            side.add("a").await?;
        }
        let first = leases(&side, 10).await?.remove(0);
        side.fail(first, "no").await?;
        let second = leases(&side, 10).await?.remove(0);
        side.abandon(second, "no").await?;
        let third = leases(&side, 10).await?.remove(0);
        side.release(third).await?;
        assert_eq!(leases(&side, 10).await?.len(), 1);
        assert_eq!(leases(&side, 10).await?.len(), 0);
        h.advance(LEASE * 2);
        assert_eq!(leases(&side, 10).await?.len(), 1, "its worker vanished");
    }
    Ok(())
}

async fn messages_start_as_fast_as_a_rate_says(h: &Harness) -> Verdict {
    for side in h.sides() {
        let limit = Limit::none().rate(10, Duration::from_secs(1)).burst(4);
        side.verbs().limit(Scope::topic("a")?, limit, ada()?).await?;
        for _ in 0..200 {
            side.add("a").await?;
        }
        h.advance(LEASE);
        let mut started = leases(&side, 50).await?.len();
        assert_eq!(started, 4, "after a rest");
        let claims = side.verbs().claim(OwnerToken::new(), LEASE, 50).await?;
        assert_eq!(claims.next_at, Some(h.now().plus(Duration::from_millis(100))));
        for _ in 0..100 {
            h.advance(Duration::from_millis(50));
            started += leases(&side, 50).await?.len();
        }
        assert_eq!(started, 4 + 50, "ten a second for five seconds");
        h.advance(LEASE / 2);
        assert_eq!(leases(&side, 50).await?.len(), 4, "a rest does not add to the burst");
    }
    Ok(())
}

async fn a_limit_of_both_kinds_keeps_both(h: &Harness) -> Verdict {
    for side in h.sides() {
        let limit = Limit::none().at_once(2).rate(1, Duration::from_secs(1)).burst(5);
        side.verbs().limit(Scope::topic("a")?, limit, ada()?).await?;
        for _ in 0..20 {
            side.add("a").await?;
        }
        h.advance(LEASE);
        let mut started = 0;
        for _ in 0..6 {
            let held = leases(&side, 50).await?;
            assert!(held.len() <= 2);
            started += held.len();
            for lease in held {
                side.ack(lease).await?;
            }
        }
        assert_eq!(started, 5, "the burst, two at once");
    }
    Ok(())
}

async fn a_limit_can_be_changed_and_removed(h: &Harness) -> Verdict {
    for side in h.sides() {
        let scope = Scope::topic("a")?;
        for _ in 0..10 {
            side.add("a").await?;
        }
        for (limit, claims) in [(Limit::none().at_once(1), 1), (Limit::none().at_once(4), 3), (Limit::none(), 6)] {
            side.verbs().limit(scope.clone(), limit, ada()?).await?;
            assert_eq!(leases(&side, 50).await?.len(), claims, "{limit}");
        }
        assert_eq!(side.verbs().rules().await?, []);
    }
    Ok(())
}

async fn a_paused_topic_with_a_limit_stays_paused(h: &Harness) -> Verdict {
    for side in h.sides() {
        let scope = Scope::topic("a")?;
        side.verbs().limit(scope.clone(), Limit::none().at_once(2), ada()?).await?;
        side.verbs().pause(scope.clone(), ada()?).await?;
        side.add("a").await?;
        assert_eq!(leases(&side, 10).await?.len(), 0);
        side.verbs().limit(scope.clone(), Limit::none(), ada()?).await?;
        assert_eq!(leases(&side, 10).await?.len(), 0);
        side.verbs().limit(scope.clone(), Limit::none().at_once(2), ada()?).await?;
        side.verbs().resume(scope, ada()?).await?;
        assert_eq!(side.verbs().rules().await?.len(), 1, "the limit is still there");
        assert_eq!(leases(&side, 10).await?.len(), 1);
    }
    Ok(())
}

async fn a_topic_with_a_limit_does_not_hold_up_others(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.verbs().limit(Scope::topic("a")?, Limit::none().at_once(1), ada()?).await?;
        for topic in ["a", "a", "a", "b", "c"] {
            side.add(topic).await?;
        }
        assert_eq!(topics(&side, 10).await?, ["a", "b", "c"]);
        side.add("b").await?;
        assert_eq!(topics(&side, 10).await?, ["b"]);
        let claims = side.verbs().claim(OwnerToken::new(), LEASE, 10).await?;
        assert!(claims.claimed.is_empty() && claims.next_at.is_some_and(|at| at > h.now()), "no busy loop: {claims:?}");
    }
    Ok(())
}

async fn suspects_keep_to_pauses_and_limits(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.leased("a").await?;
        side.verbs().pause(Scope::topic("a")?, ada()?).await?;
        h.advance(LEASE * 2);
        assert_eq!(leases(&side, 10).await?.len(), 0, "it is a suspect now");
        h.advance(LEASE * 10);
        assert_eq!(leases(&side, 10).await?.len(), 0);
        side.verbs().resume(Scope::topic("a")?, ada()?).await?;
        side.verbs().limit(Scope::topic("a")?, Limit::none().at_once(1), ada()?).await?;
        assert_eq!(leases(&side, 10).await?.len(), 1);
        side.add("a").await?;
        assert_eq!(leases(&side, 10).await?.len(), 0, "the suspect is in progress");
    }
    Ok(())
}

async fn what_makes_no_sense_is_refused(h: &Harness) -> Verdict {
    for side in h.sides() {
        let none = || Limit::none();
        for (scope, limit) in [
            (Scope::Queue, none().at_once(1)),
            (Scope::topic("a")?, none().at_once(0)),
            (Scope::topic("a")?, none().burst(2)),
            (Scope::topic("a")?, none().on_dead(OnDead::Skip)),
            (Scope::lane("order-7")?, none().at_once(0)),
            (Scope::lane("order-7")?, none().rate(1, LEASE)),
            (Scope::lanes("a")?, none().rate(1, LEASE)),
        ] {
            refused(side.verbs().limit(scope, limit, ada()?).await, ErrorKind::InvalidInput, &limit.to_string())?;
        }
        assert_eq!(side.verbs().rules().await?, []);
    }
    let billing = Scope::destination("billing")?;
    refused(h.inbox.queue().pause(billing, ada()?).await, ErrorKind::InvalidInput, "a destination in the inbox")
}

/// How many messages are handled, and how many may be in progress.
const MESSAGES: usize = 200;
const AT_ONCE: usize = 3;

async fn claimers_at_the_same_time_keep_to_a_limit(h: &Harness) -> Verdict {
    let outbox = h.outbox.queue();
    outbox.limit(Scope::topic("a")?, Limit::none().at_once(3), ada()?).await?;
    h.outbox.enqueue_many((0..MESSAGES).map(|_| NewMessage::new("a", "{}"))).await?;
    let (in_progress, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut claimers = JoinSet::new();
    for _ in 0..8 {
        let (queue, in_progress, done) = (outbox.clone(), in_progress.clone(), done.clone());
        claimers.spawn(async move {
            while done.load(Ordering::SeqCst) < MESSAGES {
                let claimed = queue.claim(OwnerToken::new(), LEASE, 2).await?.claimed;
                let now = in_progress.fetch_add(claimed.len(), Ordering::SeqCst) + claimed.len();
                anyhow::ensure!(now <= AT_ONCE, "{now} are in progress at once");
                tokio::task::yield_now().await;
                for one in claimed {
                    // Its place is free from its ack on, so it counts as ended before.
                    in_progress.fetch_sub(1, Ordering::SeqCst);
                    anyhow::ensure!(queue.ack([one.lease]).await?.applied == 1);
                    done.fetch_add(1, Ordering::SeqCst);
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

async fn another_store_notices_a_pause_within_a_second<B: Testable>(stage: &Stage<B>) -> Verdict {
    let other = Outbox::new(B::open_again(&stage.store, &stage.place).await?);
    let claims =
        || async { Ok::<_, postroom::Error>(other.queue().claim(OwnerToken::new(), LEASE, 10).await?.claimed) };
    assert!(claims().await?.is_empty(), "it knows of no rules");
    stage.outbox.queue().pause(Scope::topic("a")?, ada()?).await?;
    eventually("the other store leaves the topic alone", || async {
        stage.outbox.enqueue(NewMessage::new("a", "{}")).await?;
        Ok(claims().await?.is_empty())
    })
    .await?;
    stage.outbox.queue().resume(Scope::topic("a")?, ada()?).await?;
    eventually("the other store goes on", || async { Ok(!claims().await?.is_empty()) }).await?;
    Ok(())
}

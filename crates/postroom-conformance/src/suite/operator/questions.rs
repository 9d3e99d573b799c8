//! What an operator asks about a queue while it works.

use std::time::Duration;

use postroom::operator::{Filter, Operator};
use postroom::questions::{Occurrence, OccurrencesAfter, Place};
use postroom::queue::{Cause, Queue, State};
use postroom::{InboxKey, Incoming, NewMessage};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Side};

cases! { questions:
    both a_key_is_found_by_its_id_alone_and_with_its_source [];
    both the_newest_is_what_came_and_ended_last [];
    both activity_tells_what_workers_did_last [];
    both those_ahead_in_line_are_counted_up_to_a_limit [];
    both a_flow_is_that_of_its_span [];
    both names_are_counted_from_the_front_of_the_line [];
    both the_last_failures_come_newest_first [];
    both rows_are_followed_by_their_numbers [];
    both failures_are_followed_by_their_numbers [];
    both what_is_finished_is_followed_by_its_time [];
    both what_was_delivered_is_counted_and_paged [];
    both questions_change_nothing [];
}

const SECOND: Duration = Duration::from_secs(1);

fn numbers(occurrences: &[Occurrence]) -> Vec<i64> {
    occurrences.iter().map(|occurrence| occurrence.number).collect()
}

async fn follow(side: &Side<'_>, place: Place, limit: usize) -> anyhow::Result<Vec<Occurrence>> {
    Ok(side.verbs().occurrences(OccurrencesAfter::new(place, limit)).await?)
}

async fn a_key_is_found_by_its_id_alone_and_with_its_source(h: &Harness) -> Verdict {
    let key = |source: &str, id: &str| InboxKey::new(source, id);
    let (stripe, shop) = (key("stripe", "evt_1")?, key("shop", "evt_1")?);
    for key in [&stripe, &shop, &key("shop", "evt_2")?, &key("EVT", "stripe/evt_1")?] {
        h.inbox.accept(Incoming::new(key.clone(), "a", "")).await?;
    }
    assert_eq!(h.inbox.keys_of("evt_1").await?, [stripe.clone(), shop]);
    assert_eq!(h.inbox.keys_of("stripe/evt_1").await?, [stripe, key("EVT", "stripe/evt_1")?]);
    for unknown in ["EVT_1", "evt_1 ", "evt", "", "stripe/"] {
        assert!(h.inbox.keys_of(unknown).await?.is_empty(), "{unknown:?}");
    }
    Ok(())
}

async fn the_newest_is_what_came_and_ended_last(h: &Harness) -> Verdict {
    for side in h.sides() {
        assert_eq!(side.verbs().newest().await?.at(), None);
        let mut ended = Vec::new();
        for topic in ["done", "dead", "dismissed"] {
            let lease = side.leased(topic).await?;
            if topic == "done" {
                side.ack(lease).await?;
            } else {
                side.fail(lease, "x").await?;
            }
            ended.push(h.now());
            h.clock.advance(SECOND);
        }
        let dismissed_at = h.now();
        let filter = Filter::all().topic("dismissed");
        assert_eq!(side.verbs().dismiss(filter, Operator::new("ada")?.because("gone")?).await?, 1);
        side.put(&Draft::new("expired").ttl(LEASE)).await?;
        h.clock.advance(LEASE);
        let expired_at = h.now();
        assert_eq!(side.verbs().expire(10).await?, 1);
        h.clock.advance(SECOND);
        let last = side.add("ready").await?;
        let newest = side.verbs().newest().await?;
        assert_eq!((newest.row, newest.created_at), (Some(last), Some(h.now())));
        let failures = follow(&side, Place::Failure { number: 0, skipped: Vec::new() }, 10).await?;
        assert_eq!(newest.failure, numbers(&failures).last().copied());
        let at = [ended[0], ended[1], expired_at, dismissed_at];
        assert_eq!(State::FINISHED.map(|state| newest.finished_at(state)), at.map(Some));
        assert_eq!((newest.finished_at(State::Ready), newest.at()), (None, Some(h.now())));
    }
    Ok(())
}

async fn activity_tells_what_workers_did_last(h: &Harness) -> Verdict {
    for side in h.sides() {
        let before = side.verbs().activity().await?;
        assert_eq!((before.held, before.at()), (0, None));
        let done_at = h.now();
        side.ack(side.leased("a").await?).await?;
        h.clock.advance(SECOND);
        let failed_at = h.now();
        side.fail(side.leased("a").await?, "x").await?;
        h.clock.advance(SECOND);
        let claimed_at = h.now();
        side.leased("a").await?;
        let activity = side.verbs().activity().await?;
        assert_eq!((activity.held, activity.claimed_at), (1, Some(claimed_at)));
        assert_eq!((activity.done_at, activity.failed_at), (Some(done_at), Some(failed_at)));
        assert_eq!(activity.at(), Some(claimed_at));
        h.clock.advance(LEASE);
        assert_eq!(side.verbs().activity().await?.held, 0, "the lease is over");
    }
    let outbox = h.side(Queue::Outbox);
    assert_eq!(outbox.verbs().activity().await?.maintained_at, None);
    assert!(h.store.take_maintenance(LEASE).await?);
    for side in h.sides() {
        assert_eq!(side.verbs().activity().await?.maintained_at, Some(h.now()));
    }
    Ok(())
}

async fn those_ahead_in_line_are_counted_up_to_a_limit(h: &Harness) -> Verdict {
    for side in h.sides() {
        let mut line = Vec::new();
        for _ in 0..3 {
            line.push(side.add("a").await?);
            line.push(side.add("a").await?);
            h.clock.advance(SECOND);
        }
        for (ahead, seq) in (0..).zip(&line) {
            let at = side.record(*seq).await?.visible_at().expect("it is in line");
            assert_eq!(side.verbs().ahead_of(at, *seq, 100).await?, ahead);
            assert_eq!(side.verbs().ahead_of(at, *seq, 3).await?, ahead.min(3));
        }
        assert!(side.verbs().ahead_of(h.now(), 1, 0).await.is_err());
    }
    Ok(())
}

async fn a_flow_is_that_of_its_span(h: &Harness) -> Verdict {
    for side in h.sides() {
        let begin = h.now();
        for _ in 0..4 {
            side.ack(side.leased("a").await?).await?;
            h.clock.advance(SECOND);
        }
        side.add("a").await?;
        let flow = side.verbs().flow(begin.plus(SECOND), begin.plus(3 * SECOND), 100).await?;
        for passed in [flow.arrived, flow.done] {
            assert_eq!((passed.messages, passed.first_at), (3, Some(begin.plus(SECOND))));
        }
        let newest = side.verbs().flow(begin, h.now(), 2).await?;
        assert_eq!((newest.arrived.messages, newest.arrived.first_at), (2, Some(begin.plus(3 * SECOND))));
        assert_eq!((newest.done.messages, newest.done.first_at), (2, Some(begin.plus(2 * SECOND))));
        let nothing = side.verbs().flow(h.now().plus(SECOND), h.now().plus(LEASE), 100).await?;
        assert_eq!((nothing.arrived.messages, nothing.done.first_at), (0, None));
        h.clock.advance(LEASE);
    }
    Ok(())
}

async fn names_are_counted_from_the_front_of_the_line(h: &Harness) -> Verdict {
    for n in 0..4 {
        let (topic, service) = (if n == 3 { "last" } else { "a" }, if n % 2 == 0 { "billing" } else { "shop" });
        h.outbox.enqueue(NewMessage::new(topic, "").to(service)).await?;
        h.inbox.enqueue(Incoming::new(InboxKey::new(service, n.to_string())?, topic, "")).await?;
        h.clock.advance(SECOND);
    }
    for side in h.sides() {
        let told = async |state, rows| {
            let mut told = Vec::new();
            for tally in side.verbs().tally(state, rows).await? {
                told.push((tally.topic.unwrap_or_default(), tally.party.unwrap_or_default(), tally.messages));
            }
            told.sort();
            anyhow::Ok(told)
        };
        let one = |topic: &str, party: &str, messages| (topic.to_owned(), party.to_owned(), messages);
        let front = [one("a", "billing", 2), one("a", "shop", 1)];
        assert_eq!(told(State::Ready, 3).await?, front);
        assert_eq!(told(State::Ready, 100).await?, [&front[..], &[one("last", "shop", 1)]].concat());
        assert!(told(State::Dead, 100).await?.is_empty());
        let lease = side.claim(1).await?.remove(0).lease;
        side.fail(lease, "x").await?;
        assert_eq!(told(State::Dead, 100).await?, [one("a", "billing", 1)]);
        assert!(side.verbs().tally(State::Done, 100).await.is_err());
    }
    Ok(())
}

async fn the_last_failures_come_newest_first(h: &Harness) -> Verdict {
    for side in h.sides() {
        let begin = h.now();
        for n in 1..=3 {
            side.fail(side.leased(&format!("topic{n}")).await?, &format!("failure {n}")).await?;
            h.clock.advance(SECOND);
        }
        let last = side.verbs().last_failures(2).await?;
        let told: Vec<_> = last.iter().map(|failure| (failure.topic.as_deref(), failure.error.as_deref())).collect();
        assert_eq!(told, [(Some("topic3"), Some("failure 3")), (Some("topic2"), Some("failure 2"))]);
        assert_eq!((last[0].at, last[0].attempt), (begin.plus(2 * SECOND), 1));
        let kept = side.verbs().failed(Filter::all().topic("topic3")).await?.remove(0);
        let cause: Option<Cause> = side.verbs().failures(kept.seq).await?.remove(0).cause;
        assert!(cause.is_some() && last[0].cause == cause);
    }
    Ok(())
}

async fn rows_are_followed_by_their_numbers(h: &Harness) -> Verdict {
    for side in h.sides() {
        let begin = h.now();
        let draft = Draft::new("a").payload("größe");
        let mut seqs = vec![side.put(&draft).await?];
        for _ in 0..4 {
            seqs.push(side.add("b").await?);
        }
        let place = |number, skipped: &[i64]| Place::Row { number, skipped: skipped.to_vec() };
        let all = follow(&side, place(0, &[]), 100).await?;
        assert_eq!(numbers(&all), seqs);
        let first = &all[0];
        assert_eq!((first.topic.as_str(), first.at, first.attempts), ("a", begin, 0));
        assert_eq!(first.id, draft.id.to_string());
        assert_eq!(first.payload_bytes, if h.backend == "mssql" { 5 } else { 7 });
        let full = OccurrencesAfter::new(place(0, &[]), 1).with_payload(true);
        let full = side.verbs().occurrences(full).await?;
        assert_eq!((full.len(), first.payload.as_deref(), full[0].payload.as_deref()), (1, None, Some("größe")));
        assert_eq!(numbers(&follow(&side, place(seqs[1], &[]), 2).await?), seqs[2..4]);
        let skipped = follow(&side, place(seqs[3], &[seqs[1], seqs[0], seqs[0] - 1]), 2).await?;
        assert_eq!(numbers(&skipped), [seqs[0], seqs[1], seqs[4]]);
        assert!(follow(&side, place(seqs[4], &[]), 2).await?.is_empty());
        let none = OccurrencesAfter::new(place(0, &[]), 0);
        assert!(side.verbs().occurrences(none).await.is_err());
    }
    Ok(())
}

async fn failures_are_followed_by_their_numbers(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add("a").await?;
        let begin = h.now();
        for n in 1..=4 {
            side.abandon(side.claim_one().await?, &format!("failure {n}")).await?;
            h.clock.advance(LEASE);
        }
        let place = |number, skipped: &[i64]| Place::Failure { number, skipped: skipped.to_vec() };
        let all = follow(&side, place(0, &[]), 100).await?;
        let told: Vec<_> = all.iter().map(|failure| (failure.attempts, failure.error.as_deref())).collect();
        let error = ["failure 1", "failure 2", "failure 3", "failure 4"].map(Some);
        assert_eq!(told, [(1, error[0]), (2, error[1]), (3, error[2]), (4, error[3])]);
        assert_eq!((all[0].at, all[0].topic.as_str()), (begin, "a"));
        let seqs = numbers(&all);
        assert!(seqs.is_sorted());
        assert_eq!(numbers(&follow(&side, place(seqs[0], &[]), 2).await?), seqs[1..3]);
        let skipped = follow(&side, place(seqs[2], &[seqs[0], seqs[0] - 1]), 5).await?;
        assert_eq!(numbers(&skipped), [seqs[0], seqs[3]]);
    }
    Ok(())
}

async fn what_is_finished_is_followed_by_its_time(h: &Harness) -> Verdict {
    for side in h.sides() {
        let begin = h.now();
        let (one, other) = (side.leased("a").await?, side.leased("a").await?);
        let dead = side.leased("dead").await?;
        let later = side.leased("a").await?;
        let seqs = [one.seq(), other.seq(), later.seq()];
        for lease in [other, one] {
            side.ack(lease).await?;
        }
        h.clock.advance(SECOND);
        side.ack(later).await?;
        side.fail(dead.clone(), "no stock").await?;
        let place = |state, at, row| Place::Finished { state, at, row };
        let done = follow(&side, place(State::Done, begin, 0), 100).await?;
        assert_eq!(numbers(&done), seqs);
        assert_eq!((done[0].at, done[2].at), (begin, begin.plus(SECOND)));
        assert_eq!(numbers(&follow(&side, place(State::Done, begin, seqs[0]), 1).await?), [seqs[1]]);
        assert_eq!(numbers(&follow(&side, place(State::Done, begin, seqs[1]), 9).await?), [seqs[2]]);
        let given_up = follow(&side, place(State::Dead, begin, 0), 100).await?;
        assert_eq!((given_up.len(), given_up[0].number), (1, dead.seq()));
        assert_eq!((given_up[0].error.as_deref(), given_up[0].attempts), (Some("no stock"), 1));
        assert!(follow(&side, place(State::Ready, begin, 0), 100).await?.is_empty());
    }
    Ok(())
}

async fn what_was_delivered_is_counted_and_paged(h: &Harness) -> Verdict {
    let (side, begin) = (h.side(Queue::Outbox), h.now());
    let mut seqs = Vec::new();
    for service in ["billing", "shop", "billing", "billing", "billing"] {
        h.outbox.enqueue(NewMessage::new("a", "").to(service)).await?;
        let lease = side.claim_one().await?;
        if service == "billing" {
            seqs.push(lease.seq());
        }
        side.ack(lease).await?;
        h.clock.advance(SECOND);
    }
    h.outbox.enqueue(NewMessage::new("a", "").to("billing")).await?;
    let outbox = side.verbs();
    assert_eq!(outbox.count_delivered("billing", begin).await?, 4);
    assert_eq!(outbox.count_delivered("billing", begin.plus(SECOND)).await?, 3);
    assert_eq!(outbox.count_delivered("nobody", begin).await?, 0);
    assert_eq!(outbox.delivered_up_to("billing", begin, 0, 3).await?, Some(seqs[2]));
    assert_eq!(outbox.delivered_up_to("billing", begin, seqs[2], 3).await?, Some(seqs[3]));
    assert_eq!(outbox.delivered_up_to("billing", begin, seqs[3], 3).await?, None);
    assert!(h.inbox.queue().count_delivered("billing", begin).await.is_err());
    Ok(())
}

async fn questions_change_nothing(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        h.clock.advance(LEASE * 2);
        let before = format!("{:?}", side.record(lease.seq()).await?);
        side.verbs().newest().await?;
        side.verbs().activity().await?;
        side.verbs().last_failures(10).await?;
        follow(&side, Place::Row { number: 0, skipped: Vec::new() }, 10).await?;
        assert_eq!(format!("{:?}", side.record(lease.seq()).await?), before);
        side.ack(lease).await?;
    }
    Ok(())
}

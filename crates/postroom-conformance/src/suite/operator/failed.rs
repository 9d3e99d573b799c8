//! Dead letters, as an operator looks through many of them.

use std::time::Duration;

use postroom::NewMessage;
use postroom::operator::{ERROR_GROUP_CHARS, Failed, FailedGroup, Filter, Revival};
use postroom::queue::{Queue, State};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Side};

cases! { failed:
    both failures_are_counted_by_topic_service_and_words [];
    both the_expired_are_a_group_of_their_own [];
    both only_the_newest_are_looked_at [];
    both the_newest_is_what_came_last_whenever_it_was_given_up [];
    both a_long_error_is_known_by_its_beginning [];
    both the_failed_are_listed_without_what_they_hold [];
    both revived_messages_are_spread_over_time [];
    both a_message_that_would_expire_before_its_turn_stays [];
    both only_the_rows_that_were_chosen_come_back [];
    both rows_that_are_named_are_found_whatever_the_limit [];
    both two_who_revive_at_once_count_each_message_once [];
    both what_would_be_expired_or_deleted_is_counted [];
}

/// Gives messages up, one for each error, in this order.
async fn give_up(h: &Harness, side: &Side<'_>, topic: &str, errors: &[&str]) -> anyhow::Result<Vec<i64>> {
    let mut seqs = Vec::new();
    for error in errors {
        let lease = side.leased(topic).await?;
        seqs.push(lease.seq());
        side.fail(lease, error).await?;
        h.clock.advance(Duration::from_secs(1));
    }
    Ok(seqs)
}

fn told(groups: &[FailedGroup]) -> Vec<(String, Option<String>, u64)> {
    let mut told: Vec<_> =
        groups.iter().map(|group| (group.topic.clone(), group.error.clone(), group.messages)).collect();
    told.sort();
    told
}

async fn failures_are_counted_by_topic_service_and_words(h: &Harness) -> Verdict {
    for side in h.sides() {
        assert!(side.verbs().failed_groups(100).await?.is_empty());
        let first_at = h.now();
        give_up(h, &side, "a", &["no stock", "No stock", "no stock"]).await?;
        give_up(h, &side, "b", &["no stock"]).await?;
        side.add("waits").await?;
        let groups = side.verbs().failed_groups(100).await?;
        let one = |topic: &str, error: &str, messages| (topic.to_owned(), Some(error.to_owned()), messages);
        assert_eq!(told(&groups), [one("a", "No stock", 1), one("a", "no stock", 2), one("b", "no stock", 1)]);
        let two = groups.iter().find(|group| group.messages == 2).expect("two of them are the same");
        assert_eq!((two.state, two.first_at), (State::Dead, Some(first_at)));
        assert_eq!(two.last_at, Some(first_at.plus(Duration::from_secs(2))));
    }
    let outbox = h.side(Queue::Outbox);
    for service in ["billing", "shipping"] {
        h.outbox.enqueue(NewMessage::new("c", "").to(service)).await?;
    }
    for claimed in outbox.claim(10).await?.into_iter().filter(|claimed| claimed.message.is_ok()) {
        outbox.fail(claimed.lease, "away").await?;
    }
    let groups = outbox.verbs().failed_groups(100).await?;
    let mut parties: Vec<_> = groups.into_iter().filter_map(|group| group.party).collect();
    parties.sort();
    assert_eq!(parties, ["billing", "shipping"]);
    Ok(())
}

async fn the_expired_are_a_group_of_their_own(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.put(&Draft::new("a").ttl(LEASE)).await?;
        give_up(h, &side, "a", &[]).await?;
        h.clock.advance(LEASE);
        assert_eq!(side.verbs().expire(10).await?, 1);
        let groups = side.verbs().failed_groups(100).await?;
        assert_eq!(groups.len(), 1);
        assert_eq!((groups[0].state, groups[0].error.as_deref(), groups[0].messages), (State::Expired, None, 1));
        let failed = side.verbs().failed(Filter::all()).await?;
        assert_eq!(failed.iter().map(|failed| failed.state).collect::<Vec<_>>(), [State::Expired]);
    }
    Ok(())
}

async fn only_the_newest_are_looked_at(h: &Harness) -> Verdict {
    for side in h.sides() {
        give_up(h, &side, "a", &["old", "old", "new"]).await?;
        assert_eq!(told(&side.verbs().failed_groups(1).await?), [("a".into(), Some("new".into()), 1)]);
        assert!(side.verbs().failed_groups(0).await.is_err());
    }
    Ok(())
}

async fn the_newest_is_what_came_last_whenever_it_was_given_up(h: &Harness) -> Verdict {
    for side in h.sides() {
        let (first, last) = (side.leased("first").await?, side.leased("last").await?);
        for (lease, error) in [(last.clone(), "x"), (first.clone(), "x")] {
            side.fail(lease, error).await?;
            h.clock.advance(Duration::from_secs(1));
        }
        let groups = side.verbs().failed_groups(1).await?;
        assert_eq!(told(&groups), [("last".into(), Some("x".into()), 1)]);
        assert_eq!(groups[0].first_row, last.seq());
        let rows: Vec<_> = side.verbs().failed(Filter::all()).await?.iter().map(|failed| failed.seq).collect();
        assert_eq!(rows, [first.seq(), last.seq()]);
    }
    Ok(())
}

async fn a_long_error_is_known_by_its_beginning(h: &Harness) -> Verdict {
    for side in h.sides() {
        let beginning = "ü".repeat(ERROR_GROUP_CHARS);
        give_up(h, &side, "a", &[&format!("{beginning}1"), &format!("{beginning}2")]).await?;
        assert_eq!(told(&side.verbs().failed_groups(10).await?), [("a".into(), Some(beginning.clone()), 2)]);
        let failed = side.verbs().failed(Filter::all()).await?;
        assert!(failed.iter().all(|failed| failed.error.as_deref() == Some(&beginning)));
    }
    Ok(())
}

async fn the_failed_are_listed_without_what_they_hold(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seqs = give_up(h, &side, "a", &["x", "y", "z"]).await?;
        give_up(h, &side, "b", &["x"]).await?;
        side.add("a").await?;
        let rows = |failed: Vec<Failed>| failed.iter().map(|failed| failed.seq).collect::<Vec<_>>();
        let only = Filter::all().topic("a").state(State::Dead);
        assert_eq!(rows(side.verbs().failed(only.clone()).await?), seqs);
        assert_eq!(rows(side.verbs().failed(only.clone().after(seqs[0]).limit(1)).await?), [seqs[1]]);
        assert_eq!(rows(side.verbs().failed(only.clone().state(State::Expired)).await?), Vec::<i64>::new());
        let failed = side.verbs().failed(only.limit(1)).await?.remove(0);
        let record = side.record(seqs[0]).await?;
        assert_eq!((failed.attempts, failed.error.as_deref(), failed.at), (1, Some("x"), record.processed_at()));
        let message = record.message().map_err(|why| anyhow::anyhow!("{why}"))?;
        assert_eq!(failed.origin.as_ref(), Some(&message.origin));
    }
    Ok(())
}

async fn revived_messages_are_spread_over_time(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seqs = give_up(h, &side, "a", &["x", "x", "x"]).await?;
        let gently = Revival::at_once().after(LEASE).per_second(2);
        assert_eq!(side.verbs().revive(Filter::all(), gently).await?, 3);
        let begin = h.now().plus(LEASE);
        for (seq, millis) in seqs.iter().zip([0, 500, 1000]) {
            let record = side.record(*seq).await?;
            assert_eq!(record.visible_at(), Some(begin.plus(Duration::from_millis(millis))));
        }
        assert!(side.claim(10).await?.is_empty(), "none of them is due yet");
        h.clock.advance(LEASE + Duration::from_millis(500));
        assert_eq!(side.claim(10).await?.len(), 2);
        assert!(side.verbs().revive(Filter::all(), Revival::at_once().per_second(0)).await.is_err());
    }
    Ok(())
}

async fn a_message_that_would_expire_before_its_turn_stays(h: &Harness) -> Verdict {
    let side = h.side(Queue::Outbox);
    h.outbox.enqueue(NewMessage::new("a", "").expires_after(LEASE * 2)).await?;
    let lease = side.claim_one().await?;
    side.fail(lease.clone(), "x").await?;
    assert_eq!(side.verbs().revive(Filter::all(), Revival::at_once().after(LEASE * 2)).await?, 0);
    let later = Revival::at_once().after(LEASE * 2).ttl(LEASE);
    assert_eq!(side.verbs().revive(Filter::all(), later).await?, 1);
    let record = side.record(lease.seq()).await?;
    assert_eq!(record.expires_at(), Some(h.now().plus(LEASE * 3)), "its life begins when it can be claimed");
    Ok(())
}

async fn only_the_rows_that_were_chosen_come_back(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seqs = give_up(h, &side, "a", &["x", "x", "x"]).await?;
        let ends = Filter::all().only([seqs[0], seqs[2]]);
        assert_eq!(side.verbs().failed(ends.clone()).await?.len(), 2);
        assert_eq!(side.verbs().revive(ends, None).await?, 2);
        assert_eq!(side.state(seqs[1]).await?, State::Dead);
    }
    Ok(())
}

async fn rows_that_are_named_are_found_whatever_the_limit(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seqs = give_up(h, &side, "a", &["x", "x", "x"]).await?;
        side.add("a").await?;
        let last = Filter::all().topic("a").only([seqs[2], i64::MAX]).limit(1);
        assert_eq!(side.verbs().failed(last.clone()).await?.iter().map(|row| row.seq).collect::<Vec<_>>(), [seqs[2]]);
        assert_eq!(side.verbs().list(last.clone()).await?.iter().map(|row| row.seq()).collect::<Vec<_>>(), [seqs[2]]);
        let all = Filter::all().only(seqs.clone());
        for (filter, rows) in [
            (all.clone().limit(2), &seqs[..2]),
            (all.clone().after(seqs[0]), &seqs[1..]),
            (all.clone().up_to(seqs[1]).state(State::Dead), &seqs[..2]),
            (all.clone().finished_since(h.now()), &[]),
            (all.clone().topic("b"), &[]),
            (all.clone().party("nobody"), &[]),
            (Filter::all().topic("a").up_to(seqs[0]), &seqs[..1]),
        ] {
            let listed: Vec<_> = side.verbs().list(filter.clone()).await?.iter().map(|row| row.seq()).collect();
            let failed: Vec<_> = side.verbs().failed(filter).await?.iter().map(|row| row.seq).collect();
            assert_eq!((listed.as_slice(), failed.as_slice()), (rows, rows));
        }
        assert_eq!(side.verbs().revive(last, None).await?, 1);
        assert_eq!(side.state(seqs[2]).await?, State::Ready);
    }
    Ok(())
}

async fn two_who_revive_at_once_count_each_message_once(h: &Harness) -> Verdict {
    const MESSAGES: usize = 50;
    for side in h.sides() {
        for _ in 0..MESSAGES {
            side.add("a").await?;
        }
        let leases: Vec<_> = side.claim(MESSAGES).await?.into_iter().map(|claimed| claimed.lease).collect();
        let _ = side.verbs().fail(leases, "x").await?;
        let gently = Revival::at_once().after(LEASE).per_second(1);
        let (one, other) =
            tokio::try_join!(side.verbs().revive(Filter::all(), gently), side.verbs().revive(Filter::all(), gently))?;
        assert_eq!(one + other, MESSAGES as u64);
        assert!(side.verbs().failed(Filter::all()).await?.is_empty());
    }
    Ok(())
}

async fn what_would_be_expired_or_deleted_is_counted(h: &Harness) -> Verdict {
    for side in h.sides() {
        for _ in 0..3 {
            side.put(&Draft::new("a").ttl(LEASE)).await?;
        }
        assert_eq!(side.verbs().overdue(10).await?, 0);
        h.clock.advance(LEASE);
        assert_eq!((side.verbs().overdue(10).await?, side.verbs().overdue(2).await?), (3, 2));
        assert_eq!(side.verbs().expire(10).await?, 3);
        assert_eq!(side.verbs().overdue(10).await?, 0);
        let lease = side.leased("done").await?;
        side.ack(lease).await?;
        h.clock.advance(LEASE);
        let count = async |retention| side.verbs().purgeable(retention, 10).await;
        assert_eq!((count(LEASE / 2).await?, count(LEASE * 2).await?), (1, 0));
        assert_eq!(side.verbs().purge(LEASE / 2, 10).await?, 1);
        assert_eq!(count(LEASE / 2).await?, 0);
    }
    assert!(!h.inbox.already_processed(&Draft::new("a").key()?).await?);
    Ok(())
}

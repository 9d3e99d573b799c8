//! Deleting what is done.

use std::time::Duration;

use postroom::WorkerOptions;
use postroom::operator::Filter;
use postroom::queue::{Queue, State};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Stage, Testable, eventually};
use crate::script::Script;

cases! { purge:
    both deletes_done_messages_past_their_retention ["IBX-098", "IBX-100"];
    both deletes_nothing_else ["IBX-099"];
    both deletes_at_most_so_many ["IBX-101"];
    both what_was_deleted_is_new_again ["SQM-13.3"];
    worker a_worker_deletes_by_itself_in_bounded_steps [
        "IBX-098", "IBX-100", "IBX-101", "SQM-6.1.1", "SQM-6.2", "SQM-6.3", "API-10.5"];
}

const DAY: Duration = Duration::from_secs(24 * 3600);

async fn deletes_done_messages_past_their_retention(h: &Harness) -> Verdict {
    for side in h.sides() {
        let old = side.leased("old").await?;
        side.abandon(old.clone(), "leaves a failure behind").await?;
        h.clock.advance(Duration::from_secs(1));
        let old = side.claim_one().await?;
        side.ack(old.clone()).await?;
        h.clock.advance(DAY);
        let young = side.leased("young").await?;
        side.ack(young.clone()).await?;
        assert_eq!(side.verbs().purge(DAY, 100).await?, 0, "exactly a day is not more than a day");
        h.clock.advance(Duration::from_micros(1));
        assert_eq!(side.verbs().purge(DAY, 100).await?, 1);
        assert!(side.verbs().list(Filter::one(old.seq())).await?.is_empty());
        assert!(side.verbs().failures(old.seq()).await?.is_empty());
        assert_eq!(side.state(young.seq()).await?, State::Done);
    }
    Ok(())
}

async fn deletes_nothing_else(h: &Harness) -> Verdict {
    for side in h.sides() {
        let dead = side.leased("dead").await?;
        side.fail(dead, "x").await?;
        side.leased("leased").await?;
        side.add("ready").await?;
    }
    for name in [Draft::new("seen"), Draft::new("processing")] {
        assert!(!h.inbox.already_processed(&name.key()?).await?);
        if name.topic == "processing" {
            assert!(h.inbox.mark_processing(&name.key()?).await?);
        }
    }
    h.clock.advance(DAY * 1000);
    for side in h.sides() {
        let before = side.verbs().stats().await?.total();
        assert_eq!(side.verbs().purge(Duration::ZERO, 1000).await?, 0);
        assert_eq!(side.verbs().stats().await?.total(), before);
    }
    Ok(())
}

async fn deletes_at_most_so_many(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add_many("a", 7).await?;
        let leases: Vec<_> = side.claim(7).await?.into_iter().map(|claimed| claimed.lease).collect();
        assert_eq!(side.verbs().ack(leases).await?.applied, 7);
        h.clock.advance(Duration::from_secs(1));
        let mut steps = Vec::new();
        for _ in 0..4 {
            steps.push(side.verbs().purge(Duration::ZERO, 3).await?);
        }
        assert_eq!(steps, [3, 3, 1, 0]);
    }
    Ok(())
}

async fn what_was_deleted_is_new_again(h: &Harness) -> Verdict {
    let draft = Draft::new("a");
    for side in h.sides() {
        side.put(&draft).await?;
        let lease = side.claim_one().await?;
        side.ack(lease.clone()).await?;
        h.clock.advance(Duration::from_secs(1));
        assert_eq!(side.verbs().purge(Duration::ZERO, 10).await?, 1);
        assert!(side.put(&draft).await? > lease.seq(), "a number was used again");
        assert_eq!(side.claim(10).await?.len(), 1);
    }
    Ok(())
}

async fn a_worker_deletes_by_itself_in_bounded_steps<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        side.add_many("old", 1100).await?;
        let leases: Vec<_> = side.claim(1100).await?.into_iter().map(|claimed| claimed.lease).collect();
        assert_eq!(side.verbs().ack(leases).await?.applied, 1100);
    }
    stage.clock.advance(DAY * 8);
    stage.setup.logs.listen();
    let worker = stage.work(Queue::Inbox, &Script::succeed(), WorkerOptions::default());
    let [outbox, inbox] = stage.sides();
    let told = || stage.setup.logs.saying("done messages deleted");
    let gone = || async move { Ok(outbox.rows().await? == 0 && told().len() >= 2) };
    eventually("the worker deletes what the outbox keeps for a week", gone).await?;
    worker.stop().await?;
    assert_eq!(inbox.rows().await?, 1100, "the inbox remembers for a month");
    let steps = told();
    let steps: Vec<_> = steps.iter().filter_map(|line| line.field("count")).collect();
    assert_eq!(steps, ["1000", "100"], "one long transaction would hold up everybody");
    stage.clock.advance(DAY * 30 + LEASE);
    let worker = stage.work(Queue::Inbox, &Script::succeed(), WorkerOptions::default());
    let gone = || async move { Ok(inbox.rows().await? == 0) };
    eventually("the worker deletes what the inbox keeps for a month", gone).await?;
    worker.stop().await
}

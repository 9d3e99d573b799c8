//! Freeing what vanished workers held.

use std::time::Duration;

use postroom::WorkerOptions;
use postroom::queue::{Queue, Reaped, State};

use crate::case::{Verdict, cases};
use crate::harness::{Harness, LEASE, Stage, Testable, eventually};
use crate::script::Script;

cases! { reap:
    both frees_what_is_past_its_lease ["OBX-049", "OBX-050", "IBX-068", "IBX-069"];
    both what_was_freed_can_be_claimed_after_a_pause ["OBX-051", "IBX-070"];
    both leaves_leases_that_hold ["OBX-049", "IBX-068"];
    both leaves_what_is_done_or_dead ["OBX-052", "IBX-071"];
    both frees_at_most_so_many [];
    worker a_worker_reaps_by_itself ["OBX-053", "IBX-072"];
}

async fn frees_what_is_past_its_lease(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        h.clock.advance(LEASE);
        assert_eq!(side.verbs().reap(100).await?, Reaped { freed: 1, ..Reaped::default() });
        let record = side.record(lease.seq()).await?;
        assert_eq!((record.state(), record.owner(), record.locked_until()), (State::Ready, None, None));
        assert_eq!((record.attempts(), record.crashes()), (0, 1));
        assert_eq!(side.verbs().ack([lease]).await?.lost, 1);
    }
    Ok(())
}

async fn what_was_freed_can_be_claimed_after_a_pause(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        h.clock.advance(LEASE);
        assert_eq!(side.verbs().reap(100).await?.freed, 1);
        assert!(side.claim(10).await?.is_empty());
        h.clock.advance(Duration::from_secs(2));
        assert_eq!(side.claim_one().await?.seq(), lease.seq());
    }
    Ok(())
}

async fn leaves_leases_that_hold(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        h.clock.advance(LEASE - Duration::from_micros(1));
        assert_eq!(side.verbs().reap(100).await?, Reaped::default());
        side.ack(lease).await?;
    }
    Ok(())
}

async fn leaves_what_is_done_or_dead(h: &Harness) -> Verdict {
    for side in h.sides() {
        let done = side.leased("a").await?;
        side.ack(done.clone()).await?;
        let dead = side.leased("b").await?;
        side.fail(dead.clone(), "x").await?;
        let mut before = Vec::new();
        for lease in [&done, &dead] {
            before.push(format!("{:?}", side.record(lease.seq()).await?));
        }
        h.clock.advance(LEASE * 100);
        assert_eq!(side.verbs().reap(100).await?, Reaped::default());
        for (lease, before) in [done, dead].iter().zip(before) {
            assert_eq!(format!("{:?}", side.record(lease.seq()).await?), before);
        }
    }
    Ok(())
}

async fn frees_at_most_so_many(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add_many("a", 7).await?;
        assert_eq!(side.claim(7).await?.len(), 7);
        h.clock.advance(LEASE);
        assert_eq!(side.verbs().reap(3).await?.freed, 3);
        assert_eq!(side.verbs().reap(3).await?.freed, 3);
        assert_eq!(side.verbs().reap(3).await?.freed, 1);
    }
    Ok(())
}

/// The worker of one queue looks after both.
async fn a_worker_reaps_by_itself<B: Testable>(stage: &Stage<B>) -> Verdict {
    let mut leases = Vec::new();
    for side in stage.sides() {
        leases.push(side.leased("a").await?);
    }
    stage.clock.advance(LEASE);
    let worker = stage.work(Queue::Outbox, &Script::succeed(), WorkerOptions::default());
    for (side, lease) in stage.sides().into_iter().zip(leases) {
        let freed = || async move { Ok(side.record(lease_seq(&side).await?).await?.crashes() == 1) };
        eventually("the worker frees the lease", freed).await?;
        assert_eq!(side.state(lease.seq()).await?, State::Ready);
    }
    worker.stop().await
}

async fn lease_seq(side: &crate::harness::Side<'_>) -> anyhow::Result<i64> {
    Ok(side.verbs().list(postroom::operator::Filter::all()).await?[0].seq())
}

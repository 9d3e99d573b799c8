//! Messages that outlive their workers.

use std::time::Duration;

use postroom::queue::{CRASHES_MAX, State};

use crate::case::{Verdict, cases};
use crate::harness::{Harness, LEASE};

cases! { crash:
    both each_crash_is_followed_by_a_longer_pause [];
    both a_suspect_is_claimed_alone [];
    both too_many_crashes_end_a_message [];
    both neighbours_of_the_killer_live_on [];
    both a_crash_is_told_among_the_failures [];
    both a_message_that_succeeds_alone_is_done [];
}

async fn each_crash_is_followed_by_a_longer_pause(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add("a").await?;
        for (crashes, pause) in (1..).zip([2, 4, 8]) {
            let lease = side.claim_one().await?;
            h.clock.advance(LEASE);
            assert_eq!(side.verbs().reap(10).await?.freed, 1);
            let record = side.record(lease.seq()).await?;
            assert_eq!((record.crashes(), record.attempts()), (crashes, 0));
            assert_eq!(record.next_attempt_at(), Some(lease.until().plus(Duration::from_secs(pause))));
            h.clock.advance(Duration::from_secs(pause));
        }
    }
    Ok(())
}

async fn a_suspect_is_claimed_alone(h: &Harness) -> Verdict {
    for side in h.sides() {
        let suspect = side.leased("suspect").await?;
        h.clock.advance(LEASE);
        assert_eq!(side.verbs().reap(10).await?.freed, 1);
        h.clock.advance(Duration::from_secs(2));
        side.add_many("a", 5).await?;
        h.clock.advance(Duration::from_secs(1));
        let others = side.claim(10).await?;
        assert_eq!(others.len(), 5, "it holds nobody up");
        assert!(others.iter().all(|claimed| claimed.lease.crashes() == 0));
        let alone = side.claim(10).await?;
        assert_eq!(alone.iter().map(|claimed| claimed.lease.seq()).collect::<Vec<_>>(), [suspect.seq()]);
        assert_eq!(alone[0].lease.crashes(), 1);
    }
    Ok(())
}

async fn too_many_crashes_end_a_message(h: &Harness) -> Verdict {
    for side in h.sides() {
        let seq = side.add("a").await?;
        for crash in 1..=CRASHES_MAX {
            side.claim_one().await?;
            h.clock.advance(LEASE);
            let reaped = side.verbs().reap(10).await?;
            assert_eq!(reaped.dead, u64::from(crash == CRASHES_MAX));
            h.clock.advance(Duration::from_secs(60));
        }
        let record = side.record(seq).await?;
        assert_eq!((record.state(), record.crashes()), (State::Dead, CRASHES_MAX));
        assert!(record.last_error().is_some_and(|error| error.contains("vanished")));
        assert!(side.claim(10).await?.is_empty());
    }
    Ok(())
}

async fn neighbours_of_the_killer_live_on(h: &Harness) -> Verdict {
    for side in h.sides() {
        let killer = side.add("killer").await?;
        side.add_many("a", 9).await?;
        assert_eq!(side.claim(10).await?.len(), 10);
        h.clock.advance(LEASE + Duration::from_secs(2));
        // From now on each of the ten is taken alone; only the killer's worker vanishes again.
        for _ in 0..40 {
            for claimed in side.claim(10).await? {
                if claimed.lease.seq() != killer {
                    side.ack(claimed.lease).await?;
                }
            }
            h.clock.advance(Duration::from_secs(31));
        }
        let stats = side.verbs().stats().await?;
        assert_eq!((stats.done, stats.dead), (9, 1));
        assert_eq!(side.state(killer).await?, State::Dead);
    }
    Ok(())
}

async fn a_crash_is_told_among_the_failures(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        h.clock.advance(LEASE);
        assert_eq!(side.verbs().reap(10).await?.freed, 1);
        let failures = side.verbs().failures(lease.seq()).await?;
        assert_eq!(failures.len(), 1);
        assert_eq!(failures[0].worker, Some(lease.owner()));
    }
    Ok(())
}

async fn a_message_that_succeeds_alone_is_done(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.leased("a").await?;
        h.clock.advance(LEASE + Duration::from_secs(2));
        let lease = side.claim_one().await?;
        side.ack(lease.clone()).await?;
        assert_eq!(side.state(lease.seq()).await?, State::Done);
    }
    Ok(())
}

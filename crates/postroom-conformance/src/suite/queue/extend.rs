//! Keeping a lease.

use std::time::Duration;

use crate::case::{Verdict, cases};
use crate::harness::{Harness, LEASE};

cases! { extend:
    both a_lease_lasts_from_now [];
    both a_lost_lease_is_told_and_changes_nothing [];
    both a_settled_lease_cannot_be_extended [];
    both each_of_many_is_answered_for_itself [];
}

async fn a_lease_lasts_from_now(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        for _ in 0..5 {
            h.clock.advance(LEASE - Duration::from_secs(1));
            assert_eq!(side.verbs().extend(std::slice::from_ref(&lease), LEASE).await?, [true]);
            let record = side.record(lease.seq()).await?;
            assert_eq!(record.locked_until(), Some(h.now().plus(LEASE)));
            assert_eq!(record.visible_at(), record.locked_until());
            assert!(side.claim(10).await?.is_empty());
        }
        side.ack(lease).await?;
    }
    Ok(())
}

async fn a_lost_lease_is_told_and_changes_nothing(h: &Harness) -> Verdict {
    for side in h.sides() {
        let stale = side.leased("a").await?;
        h.clock.advance(LEASE + Duration::from_secs(2));
        let fresh = side.claim_one().await?;
        let before = format!("{:?}", side.record(fresh.seq()).await?);
        assert_eq!(side.verbs().extend(&[stale], LEASE * 100).await?, [false]);
        assert_eq!(format!("{:?}", side.record(fresh.seq()).await?), before);
    }
    Ok(())
}

async fn a_settled_lease_cannot_be_extended(h: &Harness) -> Verdict {
    for side in h.sides() {
        let acked = side.leased("a").await?;
        side.ack(acked.clone()).await?;
        let abandoned = side.leased("b").await?;
        side.abandon(abandoned.clone(), "x").await?;
        let failed = side.leased("c").await?;
        side.fail(failed.clone(), "x").await?;
        assert_eq!(side.verbs().extend(&[acked, abandoned, failed], LEASE).await?, [false; 3]);
    }
    Ok(())
}

async fn each_of_many_is_answered_for_itself(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add_many("a", 3).await?;
        let leases: Vec<_> = side.claim(3).await?.into_iter().map(|claimed| claimed.lease).collect();
        side.ack(leases[1].clone()).await?;
        assert_eq!(side.verbs().extend(&leases, LEASE).await?, [true, false, true]);
    }
    Ok(())
}

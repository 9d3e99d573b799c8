//! Release: back to the queue at once, as if it had not been claimed.

use std::time::Duration;

use postroom::queue::State;

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE};

cases! { settle:
    both release_counts_nothing [];
    both release_shortens_no_backoff [];
    both release_with_a_stale_lease_changes_nothing [];
}

async fn release_counts_nothing(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        side.release(lease.clone()).await?;
        let record = side.record(lease.seq()).await?;
        assert_eq!((record.state(), record.attempts(), record.crashes()), (State::Ready, 0, 0));
        assert_eq!((record.owner(), record.locked_until(), record.last_error()), (None, None, None));
        assert!(side.verbs().failures(lease.seq()).await?.is_empty());
        assert_eq!(side.claim_one().await?.seq(), lease.seq());
    }
    Ok(())
}

async fn release_shortens_no_backoff(h: &Harness) -> Verdict {
    for side in h.sides() {
        let first = side.put(&Draft::new("a")).await?;
        let lease = side.claim_one().await?;
        side.abandon(lease, "x").await?;
        h.clock.advance(Duration::from_secs(1));
        let next_attempt_at = side.record(first).await?.next_attempt_at();
        let lease = side.claim_one().await?;
        side.release(lease).await?;
        let record = side.record(first).await?;
        assert_eq!((record.next_attempt_at(), record.visible_at()), (next_attempt_at, next_attempt_at));
    }
    Ok(())
}

async fn release_with_a_stale_lease_changes_nothing(h: &Harness) -> Verdict {
    for side in h.sides() {
        let stale = side.leased("a").await?;
        h.clock.advance(LEASE + Duration::from_secs(2));
        let fresh = side.claim_one().await?;
        assert_eq!(side.verbs().release([stale]).await?.lost, 1);
        assert_eq!(side.record(fresh.seq()).await?.owner(), Some(fresh.owner()));
    }
    Ok(())
}

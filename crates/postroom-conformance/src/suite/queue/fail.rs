//! Dead.

use std::time::Duration;

use postroom::queue::State;

use crate::case::{Verdict, cases};
use crate::harness::{Harness, LEASE};

cases! { settle:
    both fail_gives_the_message_up ["OBX-044", "OBX-045", "IBX-060", "IBX-061", "IBX-065", "IBX-067"];
    both fail_with_a_stale_lease_changes_nothing ["OBX-046", "OBX-047", "IBX-062", "IBX-063"];
    both failed_messages_never_come_back ["OBX-044", "OBX-048", "IBX-064"];
    both fail_with_an_empty_error_keeps_the_last_one ["IBX-067"];
}

async fn fail_gives_the_message_up(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        h.clock.advance(Duration::from_secs(1));
        let settled = side.verbs().fail([lease.clone()], "no such order").await?;
        assert_eq!((settled.applied, settled.lost), (1, 0));
        let record = side.record(lease.seq()).await?;
        assert_eq!((record.state(), record.attempts()), (State::Dead, 1));
        assert_eq!((record.owner(), record.locked_until(), record.visible_at()), (None, None, None));
        assert_eq!((record.last_error(), record.processed_at()), (Some("no such order"), Some(h.now())));
        let failures = side.verbs().failures(lease.seq()).await?;
        assert_eq!(failures.len(), 1);
        assert_eq!(failures[0].error.as_deref(), Some("no such order"));
    }
    Ok(())
}

async fn fail_with_a_stale_lease_changes_nothing(h: &Harness) -> Verdict {
    for side in h.sides() {
        let stale = side.leased("a").await?;
        h.clock.advance(LEASE + Duration::from_secs(2));
        let fresh = side.claim_one().await?;
        let before = format!("{:?}", side.record(fresh.seq()).await?);
        let settled = side.verbs().fail([stale], "x").await?;
        assert_eq!((settled.applied, settled.lost), (0, 1));
        assert_eq!(format!("{:?}", side.record(fresh.seq()).await?), before);
        side.ack(fresh).await?;
    }
    Ok(())
}

async fn failed_messages_never_come_back(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        side.fail(lease.clone(), "x").await?;
        for _ in 0..5 {
            h.clock.advance(Duration::from_secs(3600));
            assert_eq!(side.verbs().reap(100).await?, postroom::queue::Reaped::default());
            assert!(side.claim(100).await?.is_empty());
        }
        assert_eq!(side.verbs().purge(Duration::ZERO, 100).await?, 0);
        assert_eq!(side.state(lease.seq()).await?, State::Dead);
    }
    Ok(())
}

async fn fail_with_an_empty_error_keeps_the_last_one(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        side.abandon(lease, "first").await?;
        h.clock.advance(LEASE);
        let lease = side.claim_one().await?;
        side.fail(lease.clone(), "").await?;
        assert_eq!(side.record(lease.seq()).await?.last_error(), Some("first"));
    }
    Ok(())
}

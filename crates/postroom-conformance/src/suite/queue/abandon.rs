//! Abandon: back to the queue, after a delay.

use std::time::Duration;

use postroom::queue::{Settle, State};

use crate::case::{Verdict, cases};
use crate::harness::{Harness, LEASE, readable};

cases! { settle:
    both abandon_frees_the_message_and_counts [
        "OBX-037", "OBX-038", "OBX-043", "IBX-050", "IBX-051", "IBX-057", "API-4.2"];
    both abandon_waits_twice_as_long_each_time [
        "OBX-039", "OBX-042", "OBX-061", "OBX-062", "IBX-052", "IBX-056", "IBX-080", "IBX-081"];
    both abandon_takes_a_delay_of_the_callers ["IBX-053", "IBX-056"];
    both abandon_with_a_stale_lease_changes_nothing ["OBX-040", "OBX-041", "IBX-054", "IBX-055"];
    both abandon_without_an_error_keeps_the_last_one ["OBX-043", "IBX-057"];
    both abandon_keeps_the_callers_due_time [];
    both postpone_spends_no_attempt [];
    both error_texts_are_bounded [];
}

async fn abandon_frees_the_message_and_counts(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        h.clock.advance(Duration::from_secs(1));
        let settled = side.verbs().abandon([lease.clone()], "disk full", None).await?;
        assert_eq!((settled.applied, settled.lost), (1, 0));
        let record = side.record(lease.seq()).await?;
        assert_eq!((record.state(), record.attempts()), (State::Ready, 1));
        assert_eq!((record.owner(), record.locked_until()), (None, None));
        assert_eq!(record.last_error(), Some("disk full"));
        let failures = side.verbs().failures(lease.seq()).await?;
        assert_eq!(failures.len(), 1);
        assert_eq!((failures[0].attempt, failures[0].at), (1, h.now()));
        assert_eq!((failures[0].worker, failures[0].error.as_deref()), (Some(lease.owner()), Some("disk full")));
    }
    Ok(())
}

async fn abandon_waits_twice_as_long_each_time(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add("a").await?;
        for (attempt, seconds) in (1..).zip([2, 4, 8, 16, 32, 60, 60]) {
            let lease = side.claim_one().await?;
            assert_eq!(lease.attempts(), attempt - 1);
            assert_eq!(side.verbs().abandon([lease.clone()], "x", None).await?.applied, 1);
            let record = side.record(lease.seq()).await?;
            let next = h.now().plus(Duration::from_secs(seconds));
            assert_eq!((record.attempts(), record.next_attempt_at()), (attempt, Some(next)));
            h.clock.advance(Duration::from_secs(seconds) - Duration::from_micros(1));
            assert!(side.claim(10).await?.is_empty(), "attempt {attempt} came too early");
            h.clock.advance(Duration::from_micros(1));
        }
    }
    Ok(())
}

async fn abandon_takes_a_delay_of_the_callers(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        let delay = Duration::from_millis(1500);
        assert_eq!(side.verbs().abandon([lease.clone()], "x", Some(delay)).await?.applied, 1);
        assert_eq!(side.record(lease.seq()).await?.visible_at(), Some(h.now().plus(delay)));
        h.clock.advance(delay);
        assert_eq!(side.claim_one().await?.seq(), lease.seq());
    }
    Ok(())
}

async fn abandon_with_a_stale_lease_changes_nothing(h: &Harness) -> Verdict {
    for side in h.sides() {
        let stale = side.leased("a").await?;
        h.clock.advance(LEASE + Duration::from_secs(2));
        let fresh = side.claim_one().await?;
        let before = format!("{:?}", side.record(fresh.seq()).await?);
        let failures = side.verbs().failures(fresh.seq()).await?;
        let settled = side.verbs().abandon([stale.clone()], "x", None).await?;
        assert_eq!((settled.applied, settled.lost), (0, 1));
        assert_eq!(side.verbs().release([stale]).await?.lost, 1);
        assert_eq!(format!("{:?}", side.record(fresh.seq()).await?), before);
        assert_eq!(side.verbs().failures(fresh.seq()).await?, failures);
    }
    Ok(())
}

async fn abandon_without_an_error_keeps_the_last_one(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        side.abandon(lease, "first").await?;
        h.clock.advance(LEASE);
        let lease = side.claim_one().await?;
        side.abandon(lease.clone(), "").await?;
        assert_eq!(side.record(lease.seq()).await?.last_error(), Some("first"));
        let errors: Vec<_> =
            side.verbs().failures(lease.seq()).await?.into_iter().map(|failure| failure.error).collect();
        assert_eq!(errors, [Some("first".to_owned()), None]);
    }
    Ok(())
}

async fn abandon_keeps_the_callers_due_time(h: &Harness) -> Verdict {
    for side in h.sides() {
        let due = h.now().plus(Duration::from_secs(5));
        let seq = side.put(&crate::harness::Draft::new("a").due_at(due)).await?;
        h.clock.advance(Duration::from_secs(10));
        let lease = side.claim_one().await?;
        side.abandon(lease, "x").await?;
        let record = side.record(seq).await?;
        assert_eq!(readable(&record)?.due_at, Some(due));
        assert_eq!(record.visible_at(), Some(h.now().plus(Duration::from_secs(1))));
    }
    Ok(())
}

async fn postpone_spends_no_attempt(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        side.settle(Settle::postpone(lease.clone(), Duration::from_secs(9), "busy")?).await?;
        let record = side.record(lease.seq()).await?;
        assert_eq!((record.state(), record.attempts()), (State::Ready, 0));
        assert_eq!(record.visible_at(), Some(h.now().plus(Duration::from_secs(9))));
        assert_eq!(record.last_error(), Some("busy"));
    }
    Ok(())
}

async fn error_texts_are_bounded(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        side.abandon(lease.clone(), &format!("a\0{}", "😀".repeat(9000))).await?;
        let record = side.record(lease.seq()).await?;
        let error = record.last_error().unwrap_or_default();
        assert_eq!(error.chars().count(), 4000);
        assert!(error.starts_with("a\u{fffd}😀"));
    }
    Ok(())
}

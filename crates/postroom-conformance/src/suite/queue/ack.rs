//! Done.

use std::time::Duration;

use postroom::ErrorKind;
use postroom::message::OwnerToken;
use postroom::queue::{Lease, Settle, State};

use crate::case::{Verdict, cases};
use crate::harness::{Harness, LEASE, Side};

cases! { settle:
    both ack_marks_the_message_done ["OBX-030", "OBX-031", "OBX-032", "IBX-044", "IBX-049", "SQM-3.1.2"];
    both ack_keeps_the_answer [];
    both ack_with_a_stale_lease_changes_nothing ["OBX-033", "OBX-034", "IBX-045", "IBX-046"];
    both ack_of_an_earlier_claim_by_the_same_owner_changes_nothing ["OBX-033", "IBX-045"];
    both ack_of_a_row_that_is_gone_is_no_error ["OBX-034", "IBX-046"];
    both ack_after_the_lease_but_before_anyone_else_still_counts [];
    both acked_messages_never_come_back ["OBX-035", "IBX-047"];
    both nothing_to_settle_is_no_work ["OBX-036", "IBX-048", "IBX-059", "IBX-066"];
    both the_same_lease_twice_settles_once ["OBX-036"];
    both of_several_acks_the_first_under_the_valid_lease_answers ["OBX-033", "IBX-045"];
    both each_lease_of_a_batch_ends_in_its_own_way [];
    both a_stale_lease_does_not_hold_up_its_neighbours ["OBX-034", "OBX-041", "OBX-047"];
    both a_batch_is_seen_whole_or_not_at_all ["OBX-080", "OBX-081", "IBX-102", "IBX-103"];
    sqlite a_settle_that_fails_midway_changes_nothing ["OBX-080", "IBX-102"];
}

async fn ack_marks_the_message_done(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        h.clock.advance(Duration::from_secs(3));
        let settled = side.verbs().ack([lease.clone()]).await?;
        assert_eq!((settled.applied, settled.lost), (1, 0));
        let record = side.record(lease.seq()).await?;
        assert_eq!((record.state(), record.processed_at()), (State::Done, Some(h.now())));
        assert_eq!(record.processed_by(), Some(lease.owner()));
        assert_eq!((record.owner(), record.locked_until(), record.visible_at()), (None, None, None));
        assert_eq!(record.attempts(), 0);
    }
    Ok(())
}

async fn ack_keeps_the_answer(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        side.settle(Settle::ack_with(lease.clone(), Some("reserved".into()))).await?;
        assert_eq!(side.record(lease.seq()).await?.response(), Some("reserved"));
    }
    Ok(())
}

/// A lease that ran out, and the row it was for, which somebody else has by now.
async fn taken_over(h: &Harness, side: Side<'_>) -> anyhow::Result<(Lease, Lease)> {
    let stale = side.leased("a").await?;
    h.clock.advance(LEASE + Duration::from_secs(2));
    let fresh = side.claim_one().await?;
    assert_eq!(stale.seq(), fresh.seq());
    Ok((stale, fresh))
}

async fn ack_with_a_stale_lease_changes_nothing(h: &Harness) -> Verdict {
    for side in h.sides() {
        let (stale, fresh) = taken_over(h, side).await?;
        let before = format!("{:?}", side.record(fresh.seq()).await?);
        let settled = side.verbs().ack([stale]).await?;
        assert_eq!((settled.applied, settled.lost), (0, 1));
        assert_eq!(format!("{:?}", side.record(fresh.seq()).await?), before);
        side.ack(fresh).await?;
    }
    Ok(())
}

async fn ack_of_an_earlier_claim_by_the_same_owner_changes_nothing(h: &Harness) -> Verdict {
    let owner = OwnerToken::new();
    for side in h.sides() {
        side.add("a").await?;
        let stale = side.verbs().claim(owner, LEASE, 1).await?.claimed.remove(0).lease;
        h.clock.advance(LEASE + Duration::from_secs(2));
        let fresh = side.verbs().claim(owner, LEASE, 1).await?.claimed.remove(0).lease;
        assert_eq!((stale.seq(), stale.owner()), (fresh.seq(), fresh.owner()));
        assert_eq!(side.verbs().ack([stale]).await?.lost, 1, "only the claim number tells them apart");
        side.ack(fresh).await?;
    }
    Ok(())
}

async fn ack_of_a_row_that_is_gone_is_no_error(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        side.ack(lease.clone()).await?;
        h.clock.advance(Duration::from_secs(1));
        assert_eq!(side.verbs().purge(Duration::ZERO, 10).await?, 1);
        let settles = vec![
            Settle::ack(lease.clone()),
            Settle::fail(lease.clone(), "x"),
            Settle::release(lease.clone()),
            Settle::abandon(lease.clone(), LEASE, "x")?,
        ];
        let settled = side.verbs().settle(settles).await?;
        assert_eq!((settled.applied, settled.lost), (0, 4));
        // Its number is never given to another row, which a stale ack could then settle.
        assert!(side.add("b").await? > lease.seq());
    }
    Ok(())
}

async fn ack_after_the_lease_but_before_anyone_else_still_counts(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        h.clock.advance(LEASE * 2);
        side.ack(lease).await?;
    }
    Ok(())
}

async fn acked_messages_never_come_back(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add_many("a", 20).await?;
        let leases: Vec<_> = side.claim(20).await?.into_iter().map(|claimed| claimed.lease).collect();
        assert_eq!(side.verbs().ack(leases).await?.applied, 20);
        h.clock.advance(LEASE * 10);
        assert_eq!(side.verbs().reap(100).await?, postroom::queue::Reaped::default());
        assert!(side.claim(100).await?.is_empty());
    }
    Ok(())
}

async fn nothing_to_settle_is_no_work(h: &Harness) -> Verdict {
    for side in h.sides() {
        let none = || Vec::<Lease>::new();
        assert_eq!(side.verbs().ack(none()).await?, postroom::queue::Settled::default());
        assert_eq!(side.verbs().abandon(none(), "x", None).await?, postroom::queue::Settled::default());
        assert_eq!(side.verbs().fail(none(), "x").await?, postroom::queue::Settled::default());
        assert_eq!(side.verbs().release(none()).await?, postroom::queue::Settled::default());
        assert!(side.verbs().extend(&[], LEASE).await?.is_empty());
    }
    Ok(())
}

async fn the_same_lease_twice_settles_once(h: &Harness) -> Verdict {
    for side in h.sides() {
        let lease = side.leased("a").await?;
        let settled = side.verbs().ack([lease.clone(), lease.clone()]).await?;
        assert_eq!((settled.applied, settled.lost), (1, 1));
        let lease = side.leased("b").await?;
        let settled = side.verbs().abandon([lease.clone(), lease.clone()], "x", None).await?;
        assert_eq!((settled.applied, settled.lost), (1, 1));
        assert_eq!(side.record(lease.seq()).await?.attempts(), 1);
    }
    Ok(())
}

async fn of_several_acks_the_first_under_the_valid_lease_answers(h: &Harness) -> Verdict {
    for side in h.sides() {
        let (stale, fresh) = taken_over(h, side).await?;
        let ack = |lease: &Lease, answer: &str| Settle::ack_with(lease.clone(), Some(answer.to_owned()));
        let acks = vec![ack(&stale, "stale"), ack(&fresh, "first"), ack(&fresh, "second")];
        let settled = side.verbs().settle(acks).await?;
        assert_eq!((settled.applied, settled.lost), (1, 2));
        assert_eq!(side.record(fresh.seq()).await?.response(), Some("first"));
    }
    Ok(())
}

async fn each_lease_of_a_batch_ends_in_its_own_way(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add_many("a", 4).await?;
        let leases: Vec<_> = side.claim(4).await?.into_iter().map(|claimed| claimed.lease).collect();
        let settles = vec![
            Settle::ack(leases[0].clone()),
            Settle::abandon(leases[1].clone(), LEASE, "later")?,
            Settle::fail(leases[2].clone(), "never"),
            Settle::release(leases[3].clone()),
        ];
        assert_eq!(side.verbs().settle(settles).await?.applied, 4);
        let mut states = Vec::new();
        for lease in &leases {
            states.push(side.state(lease.seq()).await?);
        }
        assert_eq!(states, [State::Done, State::Ready, State::Dead, State::Ready]);
    }
    Ok(())
}

async fn a_stale_lease_does_not_hold_up_its_neighbours(h: &Harness) -> Verdict {
    for side in h.sides() {
        let (stale, fresh) = taken_over(h, side).await?;
        let settles = vec![Settle::fail(stale.clone(), "x"), Settle::ack(fresh), Settle::abandon(stale, LEASE, "x")?];
        let settled = side.verbs().settle(settles).await?;
        assert_eq!((settled.applied, settled.lost), (1, 2));
    }
    Ok(())
}

async fn a_batch_is_seen_whole_or_not_at_all(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add_many("a", 200).await?;
        let verbs = side.verbs().clone();
        let mut watching = tokio::task::JoinSet::new();
        watching.spawn(async move {
            loop {
                let stats = verbs.stats().await?;
                anyhow::ensure!(stats.leased % 50 == 0 && stats.done % 50 == 0, "half a batch was seen: {stats:?}");
                if stats.done == 200 {
                    return Ok(());
                }
                tokio::task::yield_now().await;
            }
        });
        for _ in 0..4 {
            let leases: Vec<_> = side.claim(50).await?.into_iter().map(|claimed| claimed.lease).collect();
            assert_eq!(side.verbs().ack(leases).await?.applied, 50);
        }
        while let Some(watched) = watching.join_next().await {
            watched??;
        }
    }
    Ok(())
}

async fn a_settle_that_fails_midway_changes_nothing(
    stage: &crate::harness::Stage<postroom::sqlite::Sqlite>,
) -> Verdict {
    for (side, table) in stage.sides().into_iter().zip(["outbox_messages", "inbox_messages"]) {
        side.add_many("a", 3).await?;
        let leases: Vec<_> = side.claim(3).await?.into_iter().map(|claimed| claimed.lease).collect();
        let trigger = format!(
            "CREATE TRIGGER {table}_no BEFORE INSERT ON {table}_done WHEN {} BETWEEN new.from_seq AND new.to_seq
             BEGIN SELECT RAISE(ABORT, 'not this one'); END",
            leases[1].seq()
        );
        stage.store.write(move |tx| Ok(tx.execute_batch(&trigger)?)).await?;
        crate::harness::refused(side.verbs().ack(leases).await, ErrorKind::Constraint, "the second ack")?;
        let stats = side.verbs().stats().await?;
        assert_eq!((stats.leased, stats.done), (3, 0), "a part of the batch was stored");
    }
    Ok(())
}

//! Many tasks on one store.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postroom::{Lease, OwnerToken, Queue, Settle, WorkQueue};
use tokio::task::JoinSet;

use crate::case::{Verdict, cases};
use crate::harness::{Harness, soon};

cases! { contention:
    both no_message_is_under_two_live_leases ["OBX-017", "OBX-081", "OBX-083", "OBX-084"];
    both no_arrived_message_is_under_two_live_leases ["IBX-030", "IBX-103", "IBX-105", "IBX-106"];
    both vanished_workers_never_settle_for_others ["OBX-033", "IBX-045"];
}

const CLAIMERS: usize = 16;
const DAY: Duration = Duration::from_secs(24 * 3600);

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a lease in a way drawn by lot.
fn by_lot(lease: Lease) -> postroom::Result<Settle> {
    match fastrand::u8(0..10) {
        0 => Settle::abandon(lease, Duration::from_millis(1), "by lot"),
        1 => Ok(Settle::release(lease)),
        _ => Ok(Settle::ack(lease)),
    }
}

async fn claim_until_done(
    verbs: WorkQueue,
    clock: postroom::ManualClock,
    held: Arc<Mutex<HashSet<i64>>>,
    total: u64,
) -> Verdict {
    let owner = OwnerToken::new();
    loop {
        let claimed = verbs.claim(owner, DAY, fastrand::usize(1..40)).await?.claimed;
        if claimed.is_empty() {
            if verbs.stats().await?.done == total {
                return Ok(());
            }
            clock.advance(Duration::from_millis(1));
            tokio::task::yield_now().await;
            continue;
        }
        for claimed in &claimed {
            let seq = claimed.lease.seq();
            anyhow::ensure!(locked(&held).insert(seq), "row {seq} is under two live leases");
        }
        tokio::task::yield_now().await;
        let mut settles = Vec::new();
        for claimed in claimed {
            locked(&held).remove(&claimed.lease.seq());
            settles.push(by_lot(claimed.lease)?);
        }
        let count = settles.len() as u64;
        let settled = verbs.settle(settles).await?;
        anyhow::ensure!((settled.applied, settled.lost) == (count, 0), "a live lease was lost: {settled:?}");
    }
}

async fn contend(h: &Harness, queue: Queue, messages: usize) -> Verdict {
    let side = h.side(queue);
    side.add_many("a", messages).await?;
    let held = Arc::new(Mutex::new(HashSet::new()));
    let mut claimers = JoinSet::new();
    for _ in 0..CLAIMERS {
        let (verbs, clock) = (side.verbs().clone(), h.clock.clone());
        claimers.spawn(claim_until_done(verbs, clock, held.clone(), messages as u64));
    }
    while let Some(ended) = soon("the claimers end", claimers.join_next()).await? {
        ended??;
    }
    let stats = side.verbs().stats().await?;
    assert_eq!((stats.done, stats.total()), (messages as u64, messages as u64));
    Ok(())
}

async fn no_message_is_under_two_live_leases(h: &Harness) -> Verdict {
    contend(h, Queue::Outbox, 5000).await
}

async fn no_arrived_message_is_under_two_live_leases(h: &Harness) -> Verdict {
    contend(h, Queue::Inbox, 1500).await
}

/// Now and then a claimer keeps its leases beyond their end and acks them late.
async fn vanish_now_and_then(verbs: WorkQueue, clock: postroom::ManualClock, acked: Arc<Mutex<Vec<i64>>>) -> Verdict {
    let lease_time = Duration::from_secs(10);
    let mut late: Vec<Lease> = Vec::new();
    loop {
        let claimed = verbs.claim(OwnerToken::new(), lease_time, 5).await?.claimed;
        if claimed.is_empty() {
            let stats = verbs.stats().await?;
            if stats.ready + stats.leased == 0 {
                return Ok(());
            }
            clock.advance(Duration::from_secs(3));
        }
        let (vanishing, mut acks): (Vec<_>, Vec<_>) =
            claimed.into_iter().map(|claimed| claimed.lease).partition(|_| fastrand::u8(0..8) == 0);
        acks.extend(late.drain(..fastrand::usize(0..=late.len())));
        late.extend(vanishing);
        for lease in acks {
            if verbs.ack([lease.clone()]).await?.applied == 1 {
                locked(&acked).push(lease.seq());
            }
        }
    }
}

async fn vanished_workers_never_settle_for_others(h: &Harness) -> Verdict {
    for side in h.sides() {
        side.add_many("a", 300).await?;
        let acked = Arc::new(Mutex::new(Vec::new()));
        let mut claimers = JoinSet::new();
        for _ in 0..8 {
            claimers.spawn(vanish_now_and_then(side.verbs().clone(), h.clock.clone(), acked.clone()));
        }
        while let Some(ended) = soon("the claimers end", claimers.join_next()).await? {
            ended??;
        }
        let stats = side.verbs().stats().await?;
        assert_eq!(stats.done + stats.dead, 300);
        let acked = locked(&acked).clone();
        let distinct: HashSet<_> = acked.iter().copied().collect();
        assert_eq!((acked.len(), distinct.len() as u64), (distinct.len(), stats.done), "a message was acked twice");
    }
    Ok(())
}

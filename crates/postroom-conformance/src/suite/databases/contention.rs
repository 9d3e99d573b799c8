//! Many tasks on one store.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postroom::message::OwnerToken;
use postroom::queue::{Lease, Queue, Settle, WorkQueue};
use postroom::{NewMessage, Outbox};
use tokio::task::JoinSet;

use crate::by_wire::ByWire;
use crate::case::{Verdict, cases};
use crate::harness::{Harness, Stage, soon};
use crate::servers::{self, Client};
use crate::wait::scale;

cases! { contention:
    both no_message_is_under_two_live_leases ["OBX-017", "OBX-081", "OBX-083", "OBX-084"];
    both no_arrived_message_is_under_two_live_leases ["IBX-030", "IBX-103", "IBX-105", "IBX-106"];
    server workers_of_several_stores_hold_each_message_once ["OBX-083", "OBX-084", "OBX-099"];
    server deadlocks_of_others_lose_and_double_nothing ["OBX-082"];
    both vanished_workers_never_settle_for_others ["OBX-033", "IBX-045"];
}

const CLAIMERS: usize = 16;
const ADDED_AT_ONCE: usize = 10_000;
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
    clock: postroom::clock::ManualClock,
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
    let claimers = vec![h.side(queue).verbs().clone(); CLAIMERS];
    contend_with(h, queue, claimers, messages).await
}

async fn contend_with(h: &Harness, queue: Queue, claiming: Vec<WorkQueue>, messages: usize) -> Verdict {
    let side = h.side(queue);
    for rest in (0..messages).step_by(ADDED_AT_ONCE) {
        side.add_many("a", ADDED_AT_ONCE.min(messages - rest)).await?;
    }
    let held = Arc::new(Mutex::new(HashSet::new()));
    let mut claimers = JoinSet::new();
    for verbs in claiming {
        claimers.spawn(claim_until_done(verbs, h.clock.clone(), held.clone(), messages as u64));
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
async fn vanish_now_and_then(
    verbs: WorkQueue,
    clock: postroom::clock::ManualClock,
    acked: Arc<Mutex<Vec<i64>>>,
) -> Verdict {
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

/// 32 workers, as four processes would have them: each eight with their own store and connections.
async fn workers_of_several_stores_hold_each_message_once<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let mut claimers = Vec::new();
    for _ in 0..4 {
        let store = B::open_by(&stage.place, &servers::url(B::VARIABLE), None).await?;
        claimers.extend(vec![Outbox::new(store).queue().clone(); 8]);
    }
    contend_with(stage, Queue::Outbox, claimers, 4000 * scale() as usize).await
}

const WRITERS: u32 = 16;
const COUNTERS: u32 = 4;

/// Writes messages, each with two counters that others lock in another order; counts the deadlocks. A message that was
/// rolled back is written again with the same id.
async fn write_and_collide<B: ByWire>(
    mut client: B::Client,
    outbox: Outbox,
    counters: String,
    messages: u32,
) -> anyhow::Result<u32> {
    client.say(B::SEE_DEADLOCKS).await?;
    let mut deadlocks = 0;
    for _ in 0..messages {
        let message = NewMessage::new("a", "");
        while let Err(error) = write::<B>(&mut client, &outbox, &counters, &message).await {
            anyhow::ensure!(is_deadlock(&error), error);
            client.say(B::ROLL_BACK).await?;
            deadlocks += 1;
        }
    }
    Ok(deadlocks)
}

fn is_deadlock(error: &anyhow::Error) -> bool {
    let own = error.downcast_ref::<postroom::Error>().is_some_and(postroom::Error::is_transient);
    let foreign = error.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
    let of_tds = error.downcast_ref::<tiberius::error::Error>().is_some_and(tiberius::error::Error::is_deadlock);
    own || of_tds || foreign.and_then(|error| error.code()).is_some_and(|code| ["40001", "40P01"].contains(&&*code))
}

async fn write<B: ByWire>(client: &mut B::Client, outbox: &Outbox, counters: &str, message: &NewMessage) -> Verdict {
    let first = fastrand::u32(0..COUNTERS);
    let second = (first + fastrand::u32(1..COUNTERS)) % COUNTERS;
    let count = |id| format!("UPDATE {counters} SET n = n + 1 WHERE id = {id}");
    client.say(B::BEGIN).await?;
    client.say(&count(first)).await?;
    let enqueued = outbox.enqueue_in(client, message).await?;
    anyhow::ensure!(!enqueued.is_duplicate(), "what was rolled back is there");
    client.say(&count(second)).await?;
    Ok(client.say("COMMIT").await?)
}

async fn deadlocks_of_others_lose_and_double_nothing<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (counters, each) = (stage.table("counters"), 25 * scale());
    let mut client = stage.client().await?;
    client.say(&format!("CREATE TABLE {counters} (id INT PRIMARY KEY, n INT NOT NULL)")).await?;
    for id in 0..COUNTERS {
        client.say(&format!("INSERT INTO {counters} VALUES ({id}, 0)")).await?;
    }
    let total = u64::from(WRITERS * each);
    let (mut writers, mut claimers) = (JoinSet::new(), JoinSet::new());
    for _ in 0..WRITERS {
        let (client, outbox) = (stage.client().await?, stage.outbox.clone());
        writers.spawn(write_and_collide::<B>(client, outbox, counters.clone(), each));
    }
    let held = Arc::new(Mutex::new(HashSet::new()));
    for _ in 0..8 {
        let verbs = stage.outbox.queue().clone();
        claimers.spawn(claim_until_done(verbs, stage.clock.clone(), held.clone(), total));
    }
    let mut deadlocks = 0;
    while let Some(ended) = soon("the writers end", writers.join_next()).await? {
        deadlocks += ended??;
    }
    while let Some(ended) = soon("the claimers end", claimers.join_next()).await? {
        ended??;
    }
    println!("{}: {total} messages, {deadlocks} deadlocks", stage.backend);
    assert!(deadlocks > 0, "nobody collided");
    let stats = stage.outbox.queue().stats().await?;
    assert_eq!((stats.done, stats.total()), (total, total));
    let counted = client.ask(&format!("SELECT sum(n) FROM {counters}")).await?;
    assert_eq!(counted, [[(2 * total).to_string()]], "each message stands for two counts");
    Ok(())
}

//! How often a store asks its server: what is idle, or fails in numbers, must not cost a trip for each step.

use std::time::Duration;

use postroom::clock::Clock;
use postroom::message::OwnerToken;
use postroom::mysql::MySql;
use postroom::operator::Filter;
use postroom::postgres::Postgres;
use postroom::queue::{Queue, Settle, State};
use postroom::{NewMessage, Outbox, WorkerOptions};
use postroom_testbed::Proxy;

use crate::by_wire::ByWire;
use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Stage, eventually};
use crate::script::Script;
use crate::servers;

cases! { trips:
    server an_empty_claim_takes_three_trips_at_most [];
    server failures_settle_together [];
    server leases_that_ran_out_are_freed_together [];
    postgres a_lone_message_wakes_another_process_with_its_own_commit [];
    mariadb a_store_that_only_sends_hears_the_servers_clock_again [];
}

const MANY: usize = 100;
/// BEGIN and COMMIT, finding, noting and writing rows; twice, because each text is prepared first.
const FEW: u64 = 16;

/// A proxy that counts, and the case's store behind it, as it is opened by everybody.
async fn counted<B: ByWire>(stage: &Stage<B>) -> anyhow::Result<(Proxy, B::Store)> {
    let proxy = Proxy::start(&servers::url(B::VARIABLE))?;
    let store = B::open_impatient(&stage.place, proxy.url(), Duration::from_secs(60)).await?;
    Ok((proxy, store))
}

async fn an_empty_claim_takes_three_trips_at_most<B: ByWire>(stage: &Stage<B>) -> Verdict {
    const CLAIMS: u64 = 10;
    let (proxy, store) = counted(stage).await?;
    let outbox = Outbox::new(store);
    // Sometimes it is time to look for what ran out, and sometimes not.
    for pause in [Duration::ZERO, LEASE] {
        let mut before = 0;
        for claim in 0..CLAIMS + 2 {
            // Statements are prepared first.
            if claim == 2 {
                before = proxy.said();
            }
            stage.clock.advance(pause);
            assert!(outbox.queue().claim(OwnerToken::new(), LEASE, 10).await?.claimed.is_empty());
        }
        let said = proxy.said() - before;
        // A claim that looks, or a claim and a look, and one for what a worker crashed with.
        let trips = if B::LOOKS_AS_IT_CLAIMS { 2 } else { 3 };
        assert!(said <= trips * CLAIMS, "{said} trips for {CLAIMS} empty claims");
    }
    Ok(())
}

async fn failures_settle_together<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (proxy, store) = counted(stage).await?;
    let outbox = Outbox::new(store);
    stage.side(Queue::Outbox).add_many("a", 2 * MANY).await?;
    let claimed = outbox.queue().claim(OwnerToken::new(), LEASE, 2 * MANY).await?.claimed;
    let settles = claimed.iter().enumerate().map(|(n, claimed)| match n % 2 {
        0 => Ok(Settle::fail(claimed.lease.clone(), &format!("never {n}"))),
        _ => Settle::abandon(claimed.lease.clone(), LEASE, &format!("later {n}")),
    });
    let settles = settles.collect::<postroom::Result<Vec<_>>>()?;
    let before = proxy.said();
    let settled = outbox.queue().settle(settles).await?;
    let said = proxy.said() - before;
    assert_eq!((settled.applied, settled.dead, settled.lost), (2 * MANY as u64, MANY as u64, 0));
    assert!(said <= FEW, "{said} trips for {} failures", 2 * MANY);
    for (n, claimed) in claimed.iter().enumerate() {
        let expected = if n % 2 == 0 { (State::Dead, "never") } else { (State::Ready, "later") };
        let record = stage.side(Queue::Outbox).record(claimed.lease.seq()).await?;
        let error = format!("{} {n}", expected.1);
        assert_eq!((record.state(), record.attempts(), record.last_error()), (expected.0, 1, Some(error.as_str())));
        assert_eq!(record.message().map(|message| message.payload.as_str()), Ok("{}"), "what it holds is as it was");
    }
    let failures = outbox.queue().failures(claimed[0].lease.seq()).await?;
    assert_eq!(failures.iter().map(|failure| failure.error.as_deref()).collect::<Vec<_>>(), [Some("never 0")]);
    Ok(())
}

async fn leases_that_ran_out_are_freed_together<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (proxy, store) = counted(stage).await?;
    let outbox = Outbox::new(store);
    stage.side(Queue::Outbox).add_many("a", MANY).await?;
    assert_eq!(outbox.queue().claim(OwnerToken::new(), LEASE, MANY).await?.claimed.len(), MANY);
    stage.clock.advance(2 * LEASE);
    let before = proxy.said();
    assert_eq!(outbox.queue().reap(2 * MANY).await?.freed, MANY as u64);
    let said = proxy.said() - before;
    assert!(said <= FEW, "{said} trips for {MANY} leases");
    for record in outbox.queue().list(Filter::all()).await? {
        assert_eq!((record.state(), record.crashes()), (State::Ready, 1));
    }
    Ok(())
}

async fn a_store_that_only_sends_hears_the_servers_clock_again(stage: &Stage<MySql>) -> Verdict {
    for (after, trips) in [(Duration::from_secs(3600), 1), (Duration::ZERO, 3)] {
        let proxy = Proxy::start(&servers::url(servers::MYSQL))?;
        let options = stage.place.mysql_options_at(proxy.url())?.clock(Clock::Database).hear_again_after(after);
        let outbox = Outbox::new(options.open().await?);
        // Statements are prepared first.
        outbox.enqueue(NewMessage::new("a", "")).await?;
        let before = proxy.said();
        outbox.enqueue(NewMessage::new("a", "")).await?;
        assert_eq!(proxy.said() - before, trips, "its clock is carried on for {after:?}");
    }
    Ok(())
}

async fn a_lone_message_wakes_another_process_with_its_own_commit(stage: &Stage<Postgres>) -> Verdict {
    let (proxy, store) = counted(stage).await?;
    let (outbox, queue) = (Outbox::new(store), stage.outbox.queue());
    let hour = Duration::from_secs(3600);
    let worker = stage.work(Queue::Outbox, &Script::succeed(), WorkerOptions::default().poll(hour).poll_max(hour));
    let mut before = 0;
    for n in 1..=5 {
        // What comes sooner is not alone.
        tokio::time::timeout(Duration::from_millis(20), std::future::pending::<()>()).await.ok();
        outbox.enqueue(NewMessage::new("a", "")).await?;
        // Nothing but a notification wakes that worker.
        eventually("it is handled", || async move { Ok(queue.stats().await?.done == n) }).await?;
        // The first prepares statements.
        if n == 1 {
            before = proxy.said();
        }
        assert_eq!(proxy.said() - before, n - 1, "a trip for each message, and none for its notification");
    }
    worker.stop().await
}

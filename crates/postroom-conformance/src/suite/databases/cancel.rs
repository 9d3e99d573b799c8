//! Callers that give up in the middle of a call: nothing of it stays half done, and nothing that was reported is lost.

use std::collections::HashSet;
use std::time::Duration;

use postroom::message::OwnerToken;
use postroom::queue::{Lease, Queue, State};
use postroom::{NewMessage, Outbox};
use tokio::task::JoinSet;

use crate::by_wire::ByWire;
use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Stage, eventually, soon};
use crate::servers::Client;
use crate::wait::scale;

cases! { cancel:
    server a_caller_may_give_up_at_any_moment ["OBX-082"];
}

const CALLERS: usize = 8;
const CALLS: u32 = 250;

/// What the calls that were not cancelled returned.
#[derive(Default)]
struct Reported {
    stored: u64,
    acked: HashSet<i64>,
    given_up: u64,
}

/// Waits for a call, but not for long; `None` if it was cancelled.
async fn briefly<T>(call: impl Future<Output = postroom::Result<T>>) -> anyhow::Result<Option<T>> {
    // Now and then somebody waits, so that there is something to give up.
    let patience = if fastrand::u8(0..5) == 0 { 1_000_000 } else { fastrand::u64(0..5000) };
    let patience = Duration::from_micros(patience);
    Ok(tokio::time::timeout(patience, call).await.ok().transpose()?)
}

async fn call_and_give_up(outbox: Outbox) -> anyhow::Result<Reported> {
    let mut reported = Reported::default();
    let mut leases: Vec<Lease> = Vec::new();
    for _ in 0..CALLS * scale() {
        let was_answered = match fastrand::u8(0..6) {
            0 | 1 => {
                let stored = briefly(outbox.enqueue(NewMessage::new("a", ""))).await?;
                reported.stored += u64::from(stored.is_some());
                stored.is_some()
            }
            2 | 3 => {
                let claims = briefly(outbox.queue().claim(OwnerToken::new(), LEASE, 5)).await?;
                let is_answer = claims.is_some();
                leases.extend(claims.into_iter().flat_map(|claims| claims.claimed).map(|claimed| claimed.lease));
                is_answer
            }
            4 => {
                let acks: Vec<Lease> = leases.drain(..leases.len().min(3)).collect();
                let settled = briefly(outbox.queue().ack(acks.clone())).await?;
                if let Some(settled) = settled {
                    anyhow::ensure!(settled.lost == 0, "a live lease was lost");
                    reported.acked.extend(acks.iter().map(Lease::seq));
                }
                settled.is_some()
            }
            _ => briefly(outbox.queue().extend(&leases, LEASE)).await?.is_some(),
        };
        reported.given_up += u64::from(!was_answered);
    }
    Ok(reported)
}

async fn a_caller_may_give_up_at_any_moment<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        callers.spawn(call_and_give_up(stage.outbox.clone()));
    }
    let mut all = Reported::default();
    while let Some(ended) = soon("the callers end", callers.join_next()).await? {
        let one = ended??;
        all.stored += one.stored;
        all.given_up += one.given_up;
        all.acked.extend(one.acked);
    }
    println!("{}: {} calls given up, {} acks answered", stage.backend, all.given_up, all.acked.len());
    assert!(all.given_up > 100 && !all.acked.is_empty(), "they were too patient, or too impatient");
    let transactions = &B::open_transactions(&stage.place);
    let mut client = stage.client().await?;
    // InnoDB returns the same list again if asked within a tenth of a second.
    let mut look = tokio::time::interval(Duration::from_millis(250));
    soon("no transaction is open", async {
        while !client.ask(transactions).await?.is_empty() {
            look.tick().await;
        }
        anyhow::Ok(())
    })
    .await??;
    let side = stage.side(Queue::Outbox);
    for row in side.verbs().list(postroom::operator::Filter::all().limit(usize::MAX)).await? {
        assert!(!all.acked.contains(&row.seq()) || row.state() == State::Done, "an ack was lost");
    }
    assert!(side.rows().await? >= all.stored, "an enqueue was lost");
    everything_still_works(stage).await
}

/// Also what was claimed by calls that nobody waited for.
async fn everything_still_works<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let side = stage.side(Queue::Outbox);
    side.add_many("a", 64).await?;
    eventually("all are done", || async move {
        stage.clock.advance(LEASE);
        let leases: Vec<Lease> = side.claim(50).await?.into_iter().map(|claimed| claimed.lease).collect();
        let _ = side.verbs().ack(leases).await?;
        let stats = side.verbs().stats().await?;
        Ok(stats.done == stats.total())
    })
    .await
}

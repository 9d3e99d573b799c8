//! How often a store asks its server: what is idle, or fails in numbers, must not cost a trip for each step.

use std::time::Duration;

use postroom::{Outbox, OwnerToken};
use postroom_testbed::Proxy;

use crate::by_wire::ByWire;
use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Stage};
use crate::servers;

cases! { trips:
    server an_empty_claim_takes_two_trips_at_most [];
}

/// A proxy that counts, and the case's store behind it, as it is opened by everybody.
async fn counted<B: ByWire>(stage: &Stage<B>) -> anyhow::Result<(Proxy, B::Store)> {
    let proxy = Proxy::start(&servers::url(B::VARIABLE))?;
    let store = B::open_impatient(&stage.place, proxy.url(), Duration::from_secs(60)).await?;
    Ok((proxy, store))
}

async fn an_empty_claim_takes_two_trips_at_most<B: ByWire>(stage: &Stage<B>) -> Verdict {
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
        assert!(said <= 2 * CLAIMS, "{said} trips for {CLAIMS} empty claims");
    }
    Ok(())
}

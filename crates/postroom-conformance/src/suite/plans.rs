//! What the database's planner may do to a claim.

use postroom::{Outbox, OwnerToken, Postgres, Queue};
use sqlx::PgConnection;

use crate::by_wire::ByWire;
use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Stage};
use crate::servers::{self, Client};

cases! { plans:
    postgres a_claim_never_exceeds_its_batch_in_a_nested_loop ["OBX-026", "OBX-084"];
    postgres the_plain_claim_would_exceed_it [];
}

/// Leaves the planner nothing but nested loops, in which a subquery is run again for each row.
fn nested_loops_only() -> String {
    let ways = ["hashjoin", "mergejoin", "material", "hashagg", "sort", "memoize"];
    let off: String = ways.iter().map(|way| format!("&options[enable_{way}]=off")).collect();
    servers::url(Postgres::VARIABLE) + &off
}

async fn a_claim_never_exceeds_its_batch_in_a_nested_loop(stage: &Stage<Postgres>) -> Verdict {
    let store = Postgres::open_by(&stage.place, &nested_loops_only(), None).await?;
    let side = stage.side(Queue::Outbox);
    side.add_many("a", 1000).await?;
    let outbox = Outbox::new(store);
    let mut leased = 0;
    for batch in [1, 1, 7, 50, 100] {
        let claimed = outbox.queue().claim(OwnerToken::new(), LEASE, batch).await?.claimed.len();
        leased += batch as u64;
        assert_eq!((claimed, side.verbs().stats().await?.leased), (batch, leased));
    }
    Ok(())
}

/// So many queues claim, and it is right with every other plan.
async fn the_plain_claim_would_exceed_it(stage: &Stage<Postgres>) -> Verdict {
    stage.side(Queue::Outbox).add_many("a", 1000).await?;
    let mut client = PgConnection::reach(&nested_loops_only()).await?;
    let table = stage.table("outbox");
    let plain = format!(
        "WITH claimed AS (UPDATE {table} SET claim_no = claim_no + 1 WHERE seq IN
             (SELECT seq FROM {table} WHERE claim_no = 0 LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING 1)
         SELECT count(*) FROM claimed"
    );
    let claimed: u32 = client.ask(&plain).await?[0][0].parse()?;
    assert!(claimed > 1, "one row was asked for, and one was claimed: the planner found another way");
    Ok(())
}

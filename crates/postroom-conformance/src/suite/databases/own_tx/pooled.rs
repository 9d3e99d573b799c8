//! Transactions that the pools of tokio_postgres give.

use std::str::FromStr;

use bb8_postgres::{PostgresConnectionManager, bb8};
use postroom::NewMessage;
use postroom::postgres::Postgres;
use postroom::queue::Queue;
use tokio_postgres::{Config, NoTls};

use crate::case::Verdict;
use crate::harness::{Draft, Stage};
use crate::servers;

fn config(stage: &Stage<Postgres>) -> anyhow::Result<Config> {
    let mut config = Config::from_str(&servers::url(servers::POSTGRES))?;
    config.options(format!("-c search_path={}", stage.place.own_name()));
    Ok(config)
}

/// Whatever pool the transaction comes from, it commits everything or nothing.
macro_rules! taken {
    ($stage:ident, $pool:ident) => {{
        let lease = $stage.side(Queue::Inbox).leased("a").await?;
        for commits in [false, true] {
            let mut client = $pool.get().await?;
            let mut tx = client.transaction().await?;
            let _enqueued = $stage.outbox.enqueue_in(&mut tx, NewMessage::new("a", "")).await?;
            $stage.inbox.accept_in(&mut tx, &Draft::new("b").incoming()?).await?;
            $stage.inbox.ack_in(&mut tx, &lease, None).await?;
            if commits {
                tx.commit().await?;
            } else {
                tx.rollback().await?;
            }
            stored($stage, commits).await?;
        }
        Ok(())
    }};
}

pub(super) async fn a_transaction_of_deadpool_is_taken(stage: &Stage<Postgres>) -> Verdict {
    let manager = deadpool_postgres::Manager::new(config(stage)?, NoTls);
    let pool = deadpool_postgres::Pool::builder(manager).max_size(1).build()?;
    taken!(stage, pool)
}

pub(super) async fn a_transaction_of_bb8_is_taken(stage: &Stage<Postgres>) -> Verdict {
    let manager = PostgresConnectionManager::new(config(stage)?, NoTls);
    let pool = bb8::Pool::builder().max_size(1).build(manager).await?;
    taken!(stage, pool)
}

/// All of what the transaction did, or nothing.
async fn stored(stage: &Stage<Postgres>, all: bool) -> Verdict {
    let (outbox, inbox) = (stage.outbox.queue().stats().await?, stage.inbox.queue().stats().await?);
    assert_eq!((outbox.ready, inbox.ready, inbox.done), if all { (1, 1, 1) } else { (0, 0, 0) });
    Ok(())
}

//! Transactions that an outbox begins.

use std::time::Duration;

use postroom::mysql::{MySql, MySqlOptions};
use postroom::postgres::{Postgres, PostgresOptions};
use postroom::queue::{Queue, State};
use postroom::sql::Begin;
use postroom::sqlite::Sqlite;
use postroom::store::{Store, WakeListener};
use postroom::{Event, NewMessage, Outbox, WorkerOptions};
use sqlx::pool::PoolOptions;

use super::by_rusqlite::Rusqlite;
use super::by_sqlx::{HasPool, Sqlx};
use super::by_sqlx_08::Sqlx08;
use super::caller::{Caller, ORDER};
use crate::case::{Case, Verdict, cases};
use crate::harness::{Stage, Testable, eventually};
use crate::on_server::OnServer;
use crate::script::Script;

macro_rules! with_a_pool {
    ($($driver:ident on $backend:ident: $caller:ty;)*) => { [$(with_a_pool!(@each $driver, $backend, $caller:
        a_commit_stores_both_and_wakes_the_worker;
        what_is_dropped_is_rolled_back_and_wakes_nobody;
        a_duplicate_is_told
    )),*] };
    (@each $driver:ident, $backend:ident, $caller:ty: $($case:ident);*) => {
        &[$(Case {
            name: concat!("own_tx::begun::", stringify!($driver), "::", stringify!($case)),
            proves: &["OBX-003"],
            on: &[(
                <crate::backends::$backend as Testable>::NAME,
                cases!(@staged crate::backends::$backend, $case::<$caller>),
            )],
        }),*]
    };
}

pub(in crate::suite) const CASES: [&[Case]; 5] = {
    let [sqlite, postgres, mysql, postgres_08] = with_a_pool! {
        sqlx on Sqlite: Sqlx<sqlx::Sqlite>;
        sqlx on Postgres: Sqlx<sqlx::Postgres>;
        sqlx on MySql: Sqlx<sqlx::MySql>;
        sqlx_08 on Postgres: Sqlx08;
    };
    [sqlite, postgres, mysql, postgres_08, ALONE]
};

const ALONE: &[Case] = &[
    Case {
        name: "own_tx::begun::a_rusqlite_connection_commits_and_wakes_or_neither",
        proves: &["OBX-003"],
        on: cases!(@sqlite a_rusqlite_connection_commits_and_wakes_or_neither),
    },
    Case {
        name: "own_tx::begun::a_store_connects_as_the_callers_pool_does",
        proves: &[],
        on: cases!(@postgres a_store_connects_as_the_callers_pool_does),
    },
    Case {
        name: "own_tx::begun::a_store_connects_as_the_callers_pool_does",
        proves: &[],
        on: cases!(@mariadb a_store_on_mariadb_connects_as_the_callers_pool_does),
    },
];

#[derive(serde::Serialize, serde::Deserialize, Event)]
#[event("order.placed")]
struct OrderPlaced {
    order: u64,
}

/// Whether the workers were woken meanwhile.
async fn was_rung(listener: &mut WakeListener) -> bool {
    tokio::time::timeout(Duration::ZERO, listener.heard()).await.is_ok()
}

async fn a_commit_stores_both_and_wakes_the_worker<C: HasPool>(stage: &Stage<C::Backend>) -> Verdict {
    let (mut caller, pool) = (C::connect(stage).await?, C::pool(stage).await?);
    let hour = Duration::from_secs(3600);
    let script = Script::succeed();
    let worker = stage.work(Queue::Outbox, &script, WorkerOptions::default().poll(hour).poll_max(hour));
    let queue = stage.outbox.queue();
    for n in 1..=5 {
        let mut tx = stage.outbox.begin(&pool).await?;
        C::order(&mut tx).await?;
        assert!(tx.enqueue(&OrderPlaced { order: n }).await?.is_new());
        assert_eq!(queue.stats().await?.total(), n - 1, "others see it before the commit");
        tx.commit().await?;
        eventually("it is handled", || async move { Ok(queue.stats().await?.done == n) }).await?;
        assert_eq!(caller.orders().await?, i64::try_from(n)?);
    }
    worker.stop().await
}

async fn what_is_dropped_is_rolled_back_and_wakes_nobody<C: HasPool>(stage: &Stage<C::Backend>) -> Verdict {
    let (mut caller, pool) = (C::connect(stage).await?, C::pool(stage).await?);
    let mut listener = stage.store.wake(Queue::Outbox).listen();
    for is_dropped in [true, false] {
        let mut tx = stage.outbox.begin(&pool).await?;
        C::order(&mut tx).await?;
        tx.enqueue(NewMessage::new("order.placed", "7")).await?;
        if is_dropped { drop(tx) } else { tx.rollback().await? }
    }
    // The pool has one connection: when it is had again, all that was left on it is over.
    let empty = stage.outbox.begin(&pool).await?;
    empty.commit().await?;
    assert!(!was_rung(&mut listener).await, "workers were woken for nothing");
    assert_eq!((stage.outbox.queue().stats().await?.total(), caller.orders().await?), (0, 0));
    let mut tx = stage.outbox.begin(&pool).await?;
    tx.enqueue(NewMessage::new("order.placed", "7")).await?;
    tx.commit().await?;
    assert!(was_rung(&mut listener).await);
    Ok(())
}

async fn a_duplicate_is_told<C: HasPool>(stage: &Stage<C::Backend>) -> Verdict {
    let pool = C::pool(stage).await?;
    let message = NewMessage::new("order.placed", "7").to("billing");
    let mut tx = stage.outbox.begin(&pool).await?;
    let (first, again) = (tx.enqueue(message.clone()).await?, tx.enqueue(message).await?);
    assert_eq!((first.is_duplicate(), again.is_duplicate(), first.id()), (false, true, again.id()));
    tx.commit().await?;
    let found = stage.outbox.find(first.id().as_uuid()).await?;
    assert_eq!(found.iter().map(postroom::operator::Record::state).collect::<Vec<_>>(), [State::Ready]);
    Ok(())
}

async fn a_rusqlite_connection_commits_and_wakes_or_neither(stage: &Stage<Sqlite>) -> Verdict {
    let mut caller = Rusqlite::connect(stage).await?;
    let mut listener = stage.store.wake(Queue::Outbox).listen();
    for (commits, count) in [(false, 0), (true, 1)] {
        place(&stage.outbox, &mut caller.0, commits)?;
        assert_eq!(was_rung(&mut listener).await, commits);
        assert_eq!(stage.outbox.queue().stats().await?.ready, count);
        assert_eq!(caller.orders().await?, i64::try_from(count)?);
    }
    Ok(())
}

/// Apart, because no future that goes from thread to thread can hold the transaction.
fn place(outbox: &Outbox, conn: &mut rusqlite::Connection, commits: bool) -> Verdict {
    let mut tx = outbox.begin_blocking(conn)?;
    tx.execute(ORDER, [])?;
    assert!(tx.enqueue(&OrderPlaced { order: 7 })?.is_new());
    if commits {
        tx.commit()?;
    }
    Ok(())
}

async fn a_store_connects_as_the_callers_pool_does(stage: &Stage<Postgres>) -> Verdict {
    let right = Sqlx::<sqlx::Postgres>::options(stage)?;
    let pool = PoolOptions::new().connect_lazy_with(right.clone().database("nowhere"));
    let tables = Postgres::tables(&stage.place, "outbox", "inbox")?;
    let options = PostgresOptions::from_pool(&pool).tables(tables).clock(stage.place.clock());
    assert!(options.clone().open().await.is_err(), "there is no such database");
    pool.set_connect_options(right);
    shares_its_database_with(&pool, options.open().await?, stage).await
}

async fn a_store_on_mariadb_connects_as_the_callers_pool_does(stage: &Stage<MySql>) -> Verdict {
    let right = Sqlx::<sqlx::MySql>::options(stage)?;
    let pool = PoolOptions::new().connect_lazy_with(right.clone().database("nowhere"));
    let options = MySqlOptions::from_pool(&pool).clock(stage.place.clock());
    assert!(options.clone().open().await.is_err(), "there is no such database");
    pool.set_connect_options(right);
    shares_its_database_with(&pool, options.open().await?, stage).await
}

async fn shares_its_database_with<B: Testable>(pool: &impl Begin, store: impl Store, stage: &Stage<B>) -> Verdict {
    let outbox = Outbox::new(store);
    let mut tx = outbox.begin(pool).await?;
    tx.enqueue(NewMessage::new("order.placed", "7")).await?;
    tx.commit().await?;
    assert_eq!((outbox.queue().stats().await?.ready, stage.outbox.queue().stats().await?.ready), (1, 1));
    Ok(())
}

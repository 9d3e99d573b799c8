//! Programs that use sqlx.

use std::str::FromStr;

use postroom::queue::{Enqueued, Lease};
use postroom::sql::{Begin, OutboxTx};
use postroom::{Inbox, Incoming, NewMessage, Outbox};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::pool::PoolOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Database, Executor, Pool, Transaction};

use super::caller::{Caller, CallersTx, ORDER, ORDERS, ORDERS_COUNT};
use crate::harness::Stage;
use crate::servers;

/// With a separate connection.
pub(super) struct Sqlx<DB: Database>(pub(super) DB::Connection);

/// A program that has a pool.
pub(super) trait HasPool: Caller {
    type Pool: Begin;

    fn pool(stage: &Stage<Self::Backend>) -> impl Future<Output = anyhow::Result<Self::Pool>> + Send;

    /// Its own write, in a transaction that an outbox began.
    fn order(tx: &mut Begun<Self>) -> impl Future<Output = anyhow::Result<()>> + Send;
}

pub(super) type Begun<C> = OutboxTx<<<C as HasPool>::Pool as Begin>::Tx>;

macro_rules! sqlx_caller {
    ($database:ident, $outbox:literal, $begin:literal, $options:expr) => {
        impl Sqlx<sqlx::$database> {
            pub(super) fn options(
                stage: &Stage<crate::backends::$database>,
            ) -> anyhow::Result<<<sqlx::$database as Database>::Connection as Connection>::Options> {
                let options: fn(&Stage<crate::backends::$database>) -> _ = $options;
                options(stage)
            }
        }

        impl HasPool for Sqlx<sqlx::$database> {
            type Pool = Pool<sqlx::$database>;

            async fn pool(stage: &Stage<crate::backends::$database>) -> anyhow::Result<Pool<sqlx::$database>> {
                Ok(PoolOptions::new().max_connections(1).connect_with(Self::options(stage)?).await?)
            }

            async fn order(tx: &mut Begun<Self>) -> anyhow::Result<()> {
                (&mut **tx).execute(ORDER).await?;
                Ok(())
            }
        }

        impl Caller for Sqlx<sqlx::$database> {
            type Backend = crate::backends::$database;
            type Tx<'c> = Transaction<'c, sqlx::$database>;
            const DROP_OUTBOX: &'static str = concat!("DROP TABLE ", $outbox);

            async fn connect(stage: &Stage<crate::backends::$database>) -> anyhow::Result<Self> {
                let mut conn = Self::options(stage)?.connect().await?;
                conn.execute(ORDERS).await?;
                Ok(Self(conn))
            }

            async fn begin(&mut self) -> anyhow::Result<Self::Tx<'_>> {
                Ok(self.0.begin_with($begin).await?)
            }

            async fn say(&mut self, sql: &'static str) -> anyhow::Result<()> {
                self.0.execute(sql).await?;
                Ok(())
            }

            async fn orders(&mut self) -> anyhow::Result<i64> {
                Ok(sqlx::query_scalar(ORDERS_COUNT).fetch_one(&mut self.0).await?)
            }
        }

        impl CallersTx for Transaction<'_, sqlx::$database> {
            async fn order(&mut self) -> anyhow::Result<()> {
                (&mut **self).execute(ORDER).await?;
                Ok(())
            }

            async fn enqueue(&mut self, outbox: &Outbox, message: &NewMessage) -> postroom::Result<Enqueued> {
                outbox.enqueue_in(self, message).await
            }

            async fn accept(&mut self, inbox: &Inbox, incoming: &Incoming) -> postroom::Result<bool> {
                Ok(inbox.accept_in(self, incoming).await?.is_new())
            }

            async fn ack(&mut self, inbox: &Inbox, lease: &Lease, response: Option<&str>) -> postroom::Result<()> {
                inbox.ack_in(self, lease, response).await
            }

            async fn commit(self) -> anyhow::Result<()> {
                Ok(Self::commit(self).await?)
            }

            async fn roll_back(self) -> anyhow::Result<()> {
                Ok(self.rollback().await?)
            }
        }
    };
}

sqlx_caller!(Postgres, "outbox CASCADE", "BEGIN", |stage| {
    let options = PgConnectOptions::from_str(&servers::url(servers::POSTGRES))?;
    Ok(options.options([("search_path", stage.place.own_name())]))
});

sqlx_caller!(MySql, "infra_outbox", "START TRANSACTION", |stage| {
    Ok(MySqlConnectOptions::from_str(&servers::url_of_database(servers::MYSQL, &stage.place.own_name()))?)
});

sqlx_caller!(Sqlite, "outbox_messages", "BEGIN IMMEDIATE", |stage| {
    Ok(SqliteConnectOptions::new().filename(stage.place.path("store.db")))
});

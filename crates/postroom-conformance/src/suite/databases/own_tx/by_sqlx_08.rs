//! A program that still uses sqlx 0.8.

use std::str::FromStr;

use postroom::postgres::Postgres;
use postroom::queue::{Enqueued, Lease};
use postroom::{Inbox, Incoming, NewMessage, Outbox};
use sqlx_core_08::connection::{ConnectOptions, Connection};
use sqlx_core_08::executor::Executor;
use sqlx_core_08::query_scalar::query_scalar;
use sqlx_postgres_08::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions, PgTransaction};

use super::by_sqlx::{Begun, HasPool};
use super::caller::{Caller, CallersTx, ORDER, ORDERS, ORDERS_COUNT};
use crate::harness::Stage;
use crate::servers;

pub(super) struct Sqlx08(PgConnection);

impl Sqlx08 {
    fn options(stage: &Stage<Postgres>) -> anyhow::Result<PgConnectOptions> {
        let options = PgConnectOptions::from_str(&servers::url(servers::POSTGRES))?;
        Ok(options.options([("search_path", stage.place.own_name())]))
    }
}

impl HasPool for Sqlx08 {
    type Pool = PgPool;

    async fn pool(stage: &Stage<Postgres>) -> anyhow::Result<PgPool> {
        Ok(PgPoolOptions::new().max_connections(1).connect_with(Self::options(stage)?).await?)
    }

    async fn order(tx: &mut Begun<Self>) -> anyhow::Result<()> {
        (&mut **tx).execute(ORDER).await?;
        Ok(())
    }
}

impl Caller for Sqlx08 {
    type Backend = Postgres;
    type Tx<'c> = PgTransaction<'c>;
    const DROP_OUTBOX: &'static str = "DROP TABLE outbox CASCADE";

    async fn connect(stage: &Stage<Postgres>) -> anyhow::Result<Self> {
        let mut conn = Self::options(stage)?.connect().await?;
        conn.execute(ORDERS).await?;
        Ok(Self(conn))
    }

    async fn begin(&mut self) -> anyhow::Result<PgTransaction<'_>> {
        Ok(self.0.begin().await?)
    }

    async fn say(&mut self, sql: &'static str) -> anyhow::Result<()> {
        self.0.execute(sql).await?;
        Ok(())
    }

    async fn orders(&mut self) -> anyhow::Result<i64> {
        Ok(query_scalar(ORDERS_COUNT).fetch_one(&mut self.0).await?)
    }
}

impl CallersTx for PgTransaction<'_> {
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

//! A program that uses tokio_postgres.

use std::str::FromStr;

use postroom::postgres::Postgres;
use postroom::queue::{Enqueued, Lease};
use postroom::{Inbox, Incoming, NewMessage, Outbox};
use tokio::task::JoinSet;
use tokio_postgres::{Client, Config, NoTls, Transaction};

use super::caller::{Caller, CallersTx, ORDER, ORDERS, ORDERS_COUNT};
use crate::harness::Stage;
use crate::servers;

pub(super) struct TokioPostgres {
    pub(super) client: Client,
    /// What moves the bytes; it ends with the client.
    _connection: JoinSet<Result<(), tokio_postgres::Error>>,
}

impl Caller for TokioPostgres {
    type Backend = Postgres;
    type Tx<'c> = Transaction<'c>;
    const DROP_OUTBOX: &'static str = "DROP TABLE outbox CASCADE";

    async fn connect(stage: &Stage<Postgres>) -> anyhow::Result<Self> {
        let mut config = Config::from_str(&servers::url(servers::POSTGRES))?;
        config.options(format!("-c search_path={}", stage.place.own_name()));
        let (client, connection) = config.connect(NoTls).await?;
        let mut moving = JoinSet::new();
        moving.spawn(connection);
        client.batch_execute(ORDERS).await?;
        Ok(Self { client, _connection: moving })
    }

    async fn begin(&mut self) -> anyhow::Result<Transaction<'_>> {
        Ok(self.client.transaction().await?)
    }

    async fn say(&mut self, sql: &'static str) -> anyhow::Result<()> {
        Ok(self.client.batch_execute(sql).await?)
    }

    async fn orders(&mut self) -> anyhow::Result<i64> {
        Ok(self.client.query_one(ORDERS_COUNT, &[]).await?.get(0))
    }
}

impl CallersTx for Transaction<'_> {
    async fn order(&mut self) -> anyhow::Result<()> {
        self.execute(ORDER, &[]).await?;
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

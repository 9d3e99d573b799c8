//! A program that uses tiberius.

use postroom::mssql::Mssql;
use postroom::queue::{Enqueued, Lease};
use postroom::{Inbox, Incoming, NewMessage, Outbox};

use super::caller::{Caller, CallersTx};
use crate::harness::Stage;
use crate::mssql::MssqlConnection;
use crate::servers::Client;

/// Its tables are in the case's schema, and each statement names it.
pub(super) struct Tiberius {
    client: MssqlConnection,
    schema: String,
    is_open: bool,
}

/// What the driver has no type for: a transaction that the program began and has not ended.
pub(super) struct Begun<'c>(&'c mut Tiberius);

impl Tiberius {
    async fn tell(&mut self, sql: &str) -> anyhow::Result<()> {
        Ok(self.client.say(&sql.replace("{s}", &self.schema)).await?)
    }
}

impl Caller for Tiberius {
    type Backend = Mssql;
    type Tx<'c> = Begun<'c>;
    const DROP_OUTBOX: &'static str = "DROP VIEW {s}.outbox_state; DROP VIEW {s}.outbox_by_state;
         DROP VIEW {s}.outbox_misplaced; DROP TABLE {s}.outbox";

    async fn connect(stage: &Stage<Mssql>) -> anyhow::Result<Self> {
        let (client, schema) = (stage.client().await?, stage.place.own_name());
        let mut program = Self { client, schema, is_open: false };
        program.tell("IF OBJECT_ID(N'{s}.orders') IS NULL CREATE TABLE {s}.orders (id INT)").await?;
        Ok(program)
    }

    async fn begin(&mut self) -> anyhow::Result<Begun<'_>> {
        // What was left without an end is rolled back.
        if std::mem::replace(&mut self.is_open, true) {
            self.client.rollback_transaction().await?;
        }
        self.client.begin_transaction().await?;
        Ok(Begun(self))
    }

    async fn say(&mut self, sql: &'static str) -> anyhow::Result<()> {
        self.tell(sql).await
    }

    async fn orders(&mut self) -> anyhow::Result<i64> {
        if std::mem::take(&mut self.is_open) {
            self.client.rollback_transaction().await?;
        }
        let count = format!("SELECT COUNT(*) FROM {}.orders", self.schema);
        Ok(self.client.ask(&count).await?[0][0].parse()?)
    }
}

impl CallersTx for Begun<'_> {
    async fn order(&mut self) -> anyhow::Result<()> {
        self.0.tell("INSERT INTO {s}.orders VALUES (7)").await
    }

    async fn enqueue(&mut self, outbox: &Outbox, message: &NewMessage) -> postroom::Result<Enqueued> {
        outbox.enqueue_in(&mut self.0.client, message).await
    }

    async fn accept(&mut self, inbox: &Inbox, incoming: &Incoming) -> postroom::Result<bool> {
        Ok(inbox.accept_in(&mut self.0.client, incoming).await?.is_new())
    }

    async fn ack(&mut self, inbox: &Inbox, lease: &Lease, response: Option<&str>) -> postroom::Result<()> {
        inbox.ack_in(&mut self.0.client, lease, response).await
    }

    async fn commit(self) -> anyhow::Result<()> {
        self.0.is_open = false;
        Ok(self.0.client.commit_transaction().await?)
    }

    async fn roll_back(self) -> anyhow::Result<()> {
        self.0.is_open = false;
        Ok(self.0.client.rollback_transaction().await?)
    }
}

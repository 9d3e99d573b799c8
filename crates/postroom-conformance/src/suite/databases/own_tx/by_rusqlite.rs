//! A program that uses rusqlite.

use std::time::Duration;

use postroom::queue::{Enqueued, Lease};
use postroom::sqlite::Sqlite;
use postroom::{Inbox, Incoming, NewMessage, Outbox};
use rusqlite::Connection;

use super::caller::{Caller, CallersTx, ORDER, ORDERS, ORDERS_COUNT};
use crate::harness::Stage;

pub(super) struct Rusqlite(pub(super) Connection);

/// Like `rusqlite::Transaction`, which cannot go from thread to thread as a case does.
pub(super) struct Immediate<'c>(&'c mut Connection);

impl Drop for Immediate<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            self.0.execute_batch("ROLLBACK").ok();
        }
    }
}

impl Caller for Rusqlite {
    type Backend = Sqlite;
    type Tx<'c> = Immediate<'c>;
    const DROP_OUTBOX: &'static str = "DROP TABLE outbox_messages";

    async fn connect(stage: &Stage<Sqlite>) -> anyhow::Result<Self> {
        let conn = Connection::open(stage.place.path("store.db"))?;
        conn.busy_timeout(Duration::from_secs(5))?;
        conn.execute_batch(ORDERS)?;
        Ok(Self(conn))
    }

    async fn begin(&mut self) -> anyhow::Result<Immediate<'_>> {
        self.0.execute_batch("BEGIN IMMEDIATE")?;
        Ok(Immediate(&mut self.0))
    }

    async fn say(&mut self, sql: &'static str) -> anyhow::Result<()> {
        Ok(self.0.execute_batch(sql)?)
    }

    async fn orders(&mut self) -> anyhow::Result<i64> {
        Ok(self.0.query_row(ORDERS_COUNT, [], |row| row.get(0))?)
    }
}

impl CallersTx for Immediate<'_> {
    async fn order(&mut self) -> anyhow::Result<()> {
        self.0.execute(ORDER, [])?;
        Ok(())
    }

    async fn enqueue(&mut self, outbox: &Outbox, message: &NewMessage) -> postroom::Result<Enqueued> {
        outbox.enqueue_in_blocking(&*self.0, message)
    }

    async fn accept(&mut self, inbox: &Inbox, incoming: &Incoming) -> postroom::Result<bool> {
        Ok(inbox.accept_in_blocking(&*self.0, incoming)?.is_new())
    }

    async fn ack(&mut self, inbox: &Inbox, lease: &Lease, response: Option<&str>) -> postroom::Result<()> {
        inbox.ack_in_blocking(&*self.0, lease, response)
    }

    async fn commit(self) -> anyhow::Result<()> {
        Ok(self.0.execute_batch("COMMIT")?)
    }

    async fn roll_back(self) -> anyhow::Result<()> {
        Ok(self.0.execute_batch("ROLLBACK")?)
    }
}

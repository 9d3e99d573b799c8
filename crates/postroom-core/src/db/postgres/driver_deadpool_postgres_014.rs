//! deadpool_postgres 0.14: its transactions wrap those of tokio_postgres. The guards of bb8 return the latter directly.

use deadpool_postgres::Transaction;
use uuid::Uuid;

use crate::sql::{Done, Statement, Tx};
use crate::support::error::Result;

impl Tx for Transaction<'_> {
    async fn run(&mut self, statement: &Statement) -> Result<Done> {
        tokio_postgres::Transaction::run(self, statement).await
    }

    async fn read_id(&mut self, statement: &Statement) -> Result<Option<Uuid>> {
        tokio_postgres::Transaction::read_id(self, statement).await
    }
}

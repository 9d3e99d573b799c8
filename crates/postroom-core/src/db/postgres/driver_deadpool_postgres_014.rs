//! deadpool_postgres 0.14: its transactions wrap those of tokio_postgres. The guards of bb8 return the latter directly.

use deadpool_postgres::Transaction;

use crate::sql::{Done, Statement, Tx};
use crate::support::error::Result;

impl Tx for Transaction<'_> {
    async fn run(&mut self, statement: &Statement) -> Result<Done> {
        tokio_postgres::Transaction::run(self, statement).await
    }
}

//! SeaORM, on PostgreSQL and on MySQL or MariaDB.

use anyhow::Result;
use postroom::queue::Lease;
use postroom::sql::{Done, Value};
use postroom::{Inbox, Incoming, NewMessage, Outbox};
use sea_orm::{ConnectionTrait, SqlErr, Statement};

/// Runs one of Postroom's statements in a SeaORM transaction.
pub async fn run(tx: &impl ConnectionTrait, statement: &postroom::sql::Statement) -> Result<Done> {
    let values: Vec<sea_orm::Value> = statement.values().iter().map(to_bind).collect();
    let query = Statement::from_sql_and_values(tx.get_database_backend(), statement.sql(), values);
    match tx.execute_raw(query).await {
        Ok(done) => Ok(statement.check(done.rows_affected())?),
        // How MySQL says that the row is there already. PostgreSQL changes no row then.
        Err(error) if matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))) => Ok(statement.check(0)?),
        Err(error) => Err(error.into()),
    }
}

fn to_bind(value: &Value) -> sea_orm::Value {
    match value {
        Value::Int(value) => (*value).into(),
        Value::Text(value) => value.clone().into(),
        Value::Bytes(value) => value.clone().into(),
        Value::Uuid(value) => (*value).into(),
        _ => unreachable!("only batches have other values, and they do not travel this way"),
    }
}

/// Enqueues a message; false when it was there before. After the commit, `store.wake(Queue::Outbox).ring()` spares it
/// the wait until workers look by themselves.
pub async fn enqueue(tx: &impl ConnectionTrait, outbox: &Outbox, message: &NewMessage) -> Result<bool> {
    Ok(run(tx, &outbox.statement(message)?).await?.is_new())
}

/// Puts a message that arrived in line; false when it is known.
pub async fn accept(tx: &impl ConnectionTrait, inbox: &Inbox, incoming: &Incoming) -> Result<bool> {
    let accept = inbox.statement(incoming)?;
    let done = run(tx, &accept).await?;
    match accept.otherwise() {
        // MySQL needs a second statement for a message that was only seen.
        Some(seen) if done.is_duplicate() => Ok(run(tx, seen).await?.is_new()),
        _ => Ok(done.is_new()),
    }
}

/// Acknowledges a message as the transaction's last statement; a lost lease is an error, so that `?` rolls back.
pub async fn ack(tx: &impl ConnectionTrait, inbox: &Inbox, lease: &Lease, response: Option<&str>) -> Result<()> {
    run(tx, &inbox.ack_statement(lease, response)?).await?;
    Ok(())
}

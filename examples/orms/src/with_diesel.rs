//! Diesel, on SQLite. On PostgreSQL only the types of [`run`] differ: an id is a `Uuid` there.

use anyhow::Result;
use diesel::sql_types::{BigInt, Binary, Nullable, Text};
use diesel::sqlite::Sqlite;
use diesel::{RunQueryDsl, SqliteConnection, sql_query};
use postroom::queue::Lease;
use postroom::sql::{Done, Statement, Value};
use postroom::{Inbox, Incoming, NewMessage, Outbox};

/// Runs one of Postroom's statements in a Diesel transaction: begin it with `immediate_transaction`.
pub fn run(tx: &mut SqliteConnection, statement: &Statement) -> Result<Done> {
    let query = sql_query(statement.sql()).into_boxed::<Sqlite>();
    let query = statement.values().iter().fold(query, |query, value| match value {
        Value::Int(value) => query.bind::<Nullable<BigInt>, _>(*value),
        Value::Text(value) => query.bind::<Nullable<Text>, _>(value.clone()),
        Value::Bytes(value) => query.bind::<Nullable<Binary>, _>(value.clone()),
        Value::Uuid(value) => query.bind::<Nullable<Binary>, _>(value.map(|id| id.as_bytes().to_vec())),
        _ => unreachable!("only batches have other values, and they do not travel this way"),
    });
    let rows = query.execute(tx)?;
    Ok(statement.check(rows as u64)?)
}

/// Enqueues a message; false when it was there before. Workers hear the commit.
pub fn enqueue(tx: &mut SqliteConnection, outbox: &Outbox, message: &NewMessage) -> Result<bool> {
    Ok(run(tx, &outbox.statement(message)?)?.is_new())
}

/// Puts a message that arrived in line; false when it is known. The connection's `synchronous` must be FULL, as it is
/// unless somebody changes it: an answer would go out for work that a power cut can take back.
pub fn accept(tx: &mut SqliteConnection, inbox: &Inbox, incoming: &Incoming) -> Result<bool> {
    Ok(run(tx, &inbox.statement(incoming)?)?.is_new())
}

/// Acknowledges a message as the transaction's last statement; a lost lease is an error, so that `?` rolls back.
pub fn ack(tx: &mut SqliteConnection, inbox: &Inbox, lease: &Lease, response: Option<&str>) -> Result<()> {
    run(tx, &inbox.ack_statement(lease, response)?)?;
    Ok(())
}

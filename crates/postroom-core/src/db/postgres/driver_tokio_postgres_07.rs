//! tokio_postgres 0.7.

use std::error::Error as _;

use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::db::postgres::error::kind_of;
use crate::sql::{Done, Statement, Tx, Value};
use crate::support::error::{Error, ErrorKind, Result};

impl Tx for Transaction<'_> {
    async fn run(&mut self, statement: &Statement) -> Result<Done> {
        // With its types declared, a statement needs one round trip and works behind a pooler.
        let values: Vec<_> = statement.values.iter().map(typed).collect();
        let rows = self.execute_typed(&statement.sql, &values).await.map_err(failed)?;
        statement.check(rows)
    }

    async fn read_id(&mut self, statement: &Statement) -> Result<Option<Uuid>> {
        let values: Vec<_> = statement.values.iter().map(typed).collect();
        let rows = self.query_typed(&statement.sql, &values).await.map_err(failed)?;
        rows.first().map_or(Ok(None), |row| row.try_get(0).map_err(failed))
    }
}

fn typed(value: &Value) -> (&(dyn ToSql + Sync), Type) {
    match value {
        Value::Int(value) => (value, Type::INT8),
        Value::Text(value) => (value, Type::TEXT),
        Value::Bytes(value) => (value, Type::BYTEA),
        Value::Uuid(value) => (value, Type::UUID),
        Value::Ints(values) => (values, Type::INT8_ARRAY),
        Value::Texts(values) => (values, Type::TEXT_ARRAY),
        Value::Uuids(values) => (values, Type::UUID_ARRAY),
    }
}

fn failed(source: tokio_postgres::Error) -> Error {
    let kind = match source.code() {
        Some(code) => kind_of(code.code()),
        None if source.is_closed() || comes_from_the_network(&source) => ErrorKind::Unavailable,
        None => ErrorKind::Database,
    };
    let hint = if kind == ErrorKind::Schema { "; deploy the schema first" } else { "" };
    // The error itself only says that there is one, and its details may repeat values.
    let what = source.as_db_error().map_or_else(|| source.to_string(), |error| error.message().to_owned());
    Error::new(kind, format!("PostgreSQL: {what}{hint}")).caused_by(source)
}

fn comes_from_the_network(error: &tokio_postgres::Error) -> bool {
    error.source().is_some_and(|cause| cause.is::<std::io::Error>())
}

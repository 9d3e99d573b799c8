//! sqlx 0.8 on PostgreSQL, for the caller's own connection only: the store's connections are those of sqlx 0.9.

use sqlx_core_08::Error as SqlxError;
use sqlx_core_08::query::{Query, query};
use sqlx_core_08::row::Row as _;
use sqlx_core_08::transaction::Transaction;
use sqlx_postgres_08::{PgArguments, PgConnection, PgPool, Postgres};
use uuid::Uuid;

use crate::db::postgres::error::kind_of;
use crate::mailbox::transaction::{Begin, Commit};
use crate::sql::{Done, Statement, Tx, Value};
use crate::support::error::{Error, ErrorKind, Result};

impl Tx for PgConnection {
    async fn run(&mut self, statement: &Statement) -> Result<Done> {
        let done = bound(statement).execute(self).await.map_err(failed)?;
        statement.check(done.rows_affected())
    }

    async fn read_id(&mut self, statement: &Statement) -> Result<Option<Uuid>> {
        let row = bound(statement).fetch_optional(self).await.map_err(failed)?;
        row.map_or(Ok(None), |row| row.try_get(0).map_err(failed))
    }
}

impl Tx for Transaction<'_, Postgres> {
    async fn run(&mut self, statement: &Statement) -> Result<Done> {
        PgConnection::run(self, statement).await
    }

    async fn read_id(&mut self, statement: &Statement) -> Result<Option<Uuid>> {
        PgConnection::read_id(self, statement).await
    }
}

impl Begin for PgPool {
    type Tx = Transaction<'static, Postgres>;

    async fn begin(&self) -> Result<Self::Tx> {
        Self::begin(self).await.map_err(failed)
    }
}

impl Commit for Transaction<'_, Postgres> {
    async fn commit(self) -> Result<()> {
        Self::commit(self).await.map_err(failed)
    }

    async fn roll_back(self) -> Result<()> {
        self.rollback().await.map_err(failed)
    }
}

fn bound(statement: &Statement) -> Query<'_, Postgres, PgArguments> {
    statement.values.iter().fold(query(&statement.sql), |query, value| match value {
        Value::Int(value) => query.bind(*value),
        Value::Text(value) => query.bind(value.as_deref()),
        Value::Bytes(value) => query.bind(value.as_deref()),
        Value::Uuid(value) => query.bind(*value),
        Value::Ints(values) => query.bind(values),
        Value::Texts(values) => query.bind(values),
        Value::Uuids(values) => query.bind(values),
    })
}

fn failed(source: SqlxError) -> Error {
    let kind = match &source {
        SqlxError::Database(error) => error.code().map_or(ErrorKind::Database, |code| kind_of(&code)),
        SqlxError::Io(_)
        | SqlxError::Tls(_)
        | SqlxError::Protocol(_)
        | SqlxError::PoolTimedOut
        | SqlxError::PoolClosed
        | SqlxError::BeginFailed => ErrorKind::Unavailable,
        _ => ErrorKind::Database,
    };
    let hint = if kind == ErrorKind::Schema { "; deploy the schema first" } else { "" };
    Error::new(kind, format!("PostgreSQL: {source}{hint}")).caused_by(source)
}

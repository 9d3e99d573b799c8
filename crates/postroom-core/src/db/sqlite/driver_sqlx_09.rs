//! sqlx 0.9 on SQLite, for the caller's own connection only: the store's connections are rusqlite's. Both link the same
//! native library, because cargo allows only one. Opening the store has already refused a library that is too old for
//! either.

use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Row as _, Sqlite, SqliteConnection};
use uuid::Uuid;

use crate::db::sqlite::durable::{SYNCHRONOUS, check_synchronous};
use crate::db::sqlite::error::kind_of;
use crate::db::sqlx_09::{Behind, explained};
use crate::sql::{Done, Statement, Tx, Value};
use crate::support::error::{Error, ErrorKind, Result};

impl Tx for SqliteConnection {
    async fn run(&mut self, statement: &Statement) -> Result<Done> {
        let done = bound(statement).execute(self).await.map_err(failed)?;
        statement.check(done.rows_affected())
    }

    async fn read_id(&mut self, statement: &Statement) -> Result<Option<Uuid>> {
        let row = bound(statement).fetch_optional(self).await.map_err(failed)?;
        row.map_or(Ok(None), |row| row.try_get(0).map_err(failed))
    }

    async fn check_durable(&mut self) -> Result<()> {
        let answer = sqlx::query(SYNCHRONOUS).fetch_one(self).await.map_err(failed)?;
        check_synchronous(answer.try_get(0).map_err(failed)?)
    }
}

impl Behind for Sqlite {
    // A transaction that begins with a read may not be able to write later.
    const BEGIN: &'static str = "BEGIN IMMEDIATE";

    fn failed(source: sqlx::Error) -> Error {
        failed(source)
    }
}

fn bound(statement: &Statement) -> Query<'_, Sqlite, SqliteArguments> {
    let query = sqlx::query(AssertSqlSafe(statement.sql.clone()));
    statement.values.iter().fold(query, |query, value| match value {
        Value::Int(value) => query.bind(*value),
        Value::Text(value) => query.bind(value.as_deref()),
        Value::Bytes(value) => query.bind(value.as_deref()),
        Value::Uuid(value) => query.bind(*value),
        // Batches travel row by row on SQLite.
        Value::Ints(_) | Value::Texts(_) | Value::Uuids(_) => query,
    })
}

fn failed(source: sqlx::Error) -> Error {
    let of = |error: &dyn sqlx::error::DatabaseError| Some(kind_of(error.code()?.parse().ok()?, error.message()));
    let kind = source.as_database_error().and_then(of).unwrap_or(ErrorKind::Database);
    explained("SQLite", source, |_| kind, "")
}

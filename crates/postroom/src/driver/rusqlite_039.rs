//! rusqlite 0.39.

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode};
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::sql::{BlockingTx, Done, Row, Session, Statement, Value};

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Ints(_) | Self::Texts(_) | Self::Uuids(_) => {
                return Err(rusqlite::Error::ToSqlConversionFailure("SQLite has no arrays".into()));
            }
            Self::Int(Some(value)) => ValueRef::Integer(*value),
            Self::Text(Some(value)) => ValueRef::Text(value.as_bytes()),
            Self::Bytes(Some(value)) => ValueRef::Blob(value),
            Self::Uuid(Some(value)) => ValueRef::Blob(value.as_bytes()),
            Self::Int(None) | Self::Text(None) | Self::Bytes(None) | Self::Uuid(None) => ValueRef::Null,
        }))
    }
}

/// `PRAGMA synchronous` of a connection whose commits survive a power cut.
const SYNCHRONOUS_FULL: i64 = 2;

impl BlockingTx for Connection {
    fn run(&self, statement: &Statement) -> Result<Done> {
        let rows = self.prepare_cached(&statement.sql)?.execute(rusqlite::params_from_iter(&statement.values))?;
        statement.check(rows as u64)
    }

    fn check_durable(&self) -> Result<()> {
        let level: i64 = self.prepare_cached("PRAGMA synchronous")?.query_row([], |row| row.get(0))?;
        if level >= SYNCHRONOUS_FULL {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Unsupported,
            "this connection's commits can be lost in a power cut: an answer would go out for work that is gone. \
             Run PRAGMA synchronous = FULL on it first",
        ))
    }
}

/// SQLite as a session: it answers at once, so its futures are always ready.
pub(crate) struct SqliteConn<'c>(pub(crate) &'c Connection);

impl Session for SqliteConn<'_> {
    fn execute(&mut self, statement: &Statement) -> impl Future<Output = Result<Done>> + Send {
        std::future::ready(self.0.run(statement))
    }

    fn query<T: Send>(
        &mut self,
        statement: &Statement,
        read: impl FnMut(&dyn Row) -> Result<T> + Send,
    ) -> impl Future<Output = Result<Vec<T>>> + Send {
        std::future::ready(query(self.0, statement, read))
    }
}

fn query<T>(conn: &Connection, statement: &Statement, mut read: impl FnMut(&dyn Row) -> Result<T>) -> Result<Vec<T>> {
    let mut prepared = conn.prepare_cached(&statement.sql)?;
    let mut rows = prepared.query(rusqlite::params_from_iter(&statement.values))?;
    let mut read_rows = Vec::new();
    while let Some(row) = rows.next()? {
        read_rows.push(read(row)?);
    }
    Ok(read_rows)
}

impl Row for rusqlite::Row<'_> {
    fn int(&self, column: usize) -> Result<Option<i64>> {
        Ok(self.get(column)?)
    }

    fn str(&self, column: usize) -> Result<Option<&str>> {
        let value = self.get_ref(column)?;
        value.as_str_or_null().map_err(|source| Error::new(ErrorKind::Corrupt, "a text is not one").caused_by(source))
    }

    fn bytes(&self, column: usize) -> Result<Option<Vec<u8>>> {
        Ok(self.get(column)?)
    }

    fn uuid(&self, column: usize) -> Result<Option<Uuid>> {
        match self.get_ref(column)? {
            ValueRef::Null => Ok(None),
            ValueRef::Blob(bytes) => Uuid::from_slice(bytes)
                .map(Some)
                .map_err(|source| Error::new(ErrorKind::Corrupt, "an id is not 16 bytes").caused_by(source)),
            _ => Err(Error::new(ErrorKind::Corrupt, "an id is not stored as bytes")),
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(source: rusqlite::Error) -> Self {
        let kind = match source.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation) => ErrorKind::Constraint,
            Some(
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull | ErrorCode::SystemIoFailure,
            ) => ErrorKind::Unavailable,
            Some(ErrorCode::NotADatabase | ErrorCode::ReadOnly | ErrorCode::CannotOpen) => ErrorKind::Unsupported,
            Some(ErrorCode::DatabaseCorrupt) => ErrorKind::Corrupt,
            _ if is_missing_table(&source) => ErrorKind::Schema,
            _ => ErrorKind::Database,
        };
        let hint = if kind == ErrorKind::Schema { "; deploy the schema first" } else { "" };
        Self::new(kind, format!("SQLite: {source}{hint}")).caused_by(source)
    }
}

/// SQLite has no code of its own for it.
fn is_missing_table(error: &rusqlite::Error) -> bool {
    let message = match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message,
        rusqlite::Error::SqlInputError { msg, .. } => msg,
        _ => return false,
    };
    message.starts_with("no such table")
}

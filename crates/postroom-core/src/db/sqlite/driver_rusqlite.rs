//! rusqlite 0.39.

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use uuid::Uuid;

use crate::db::sqlite::durable::{SYNCHRONOUS, check_synchronous};
use crate::db::sqlite::error::{is_duplicate, kind_of};
use crate::mailbox::outbox::Outbox;
use crate::mailbox::transaction::OutboxTx;
use crate::message::IntoMessage;
use crate::sql::{BlockingTx, Done, Expects, Row, Session, Statement, Value};
use crate::store::Stored;
use crate::support::clock::Timestamp;
use crate::support::error::{Error, ErrorKind, Result};

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

impl BlockingTx for Connection {
    fn run(&self, statement: &Statement) -> Result<Done> {
        run(&mut *self.prepare_cached(&statement.sql)?, statement)
    }

    fn read_id(&self, statement: &Statement) -> Result<Option<Uuid>> {
        let rows = query_while(self, statement, |row| row.uuid(0).map(Some))?;
        Ok(rows.into_iter().next().flatten())
    }

    fn check_durable(&self) -> Result<()> {
        check_synchronous(self.prepare_cached(SYNCHRONOUS)?.query_row([], |row| row.get(0))?)
    }
}

fn run(prepared: &mut rusqlite::Statement<'_>, statement: &Statement) -> Result<Done> {
    let values = rusqlite::params_from_iter(&statement.values);
    let rows = match prepared.column_count() {
        0 => match prepared.execute(values) {
            Err(error) if statement.expects == Expects::RowOrDuplicate && is_duplicate(&error) => 0,
            changed => changed? as u64,
        },
        // SQLite does not count the rows of an update that moves messages. Such a statement returns a row for each.
        _ => {
            let (mut moved, mut count) = (prepared.query(values)?, 0);
            while moved.next()?.is_some() {
                count += 1;
            }
            count
        }
    };
    statement.check(rows)
}

impl BlockingTx for Transaction<'_> {
    fn run(&self, statement: &Statement) -> Result<Done> {
        Connection::run(self, statement)
    }

    fn read_id(&self, statement: &Statement) -> Result<Option<Uuid>> {
        Connection::read_id(self, statement)
    }

    fn check_durable(&self) -> Result<()> {
        Connection::check_durable(self)
    }
}

impl Outbox {
    /// Like [`begin`](Self::begin), on the caller's own rusqlite connection to the file of this outbox's store. It
    /// takes the write lock at once (BEGIN IMMEDIATE).
    ///
    /// ```
    /// use postroom::{NewMessage, Outbox};
    ///
    /// fn place(outbox: &Outbox, conn: &mut rusqlite::Connection) -> Result<(), Box<dyn std::error::Error>> {
    ///     let mut tx = outbox.begin_blocking(conn)?;
    ///     tx.execute("INSERT INTO orders (id) VALUES (7)", [])?;
    ///     tx.enqueue(NewMessage::new("order.placed", "7"))?;
    ///     tx.commit()?; // both are stored, or neither; then the workers wake up
    ///     Ok(())
    /// }
    /// ```
    pub fn begin_blocking<'c>(&self, conn: &'c mut Connection) -> Result<OutboxTx<Transaction<'c>>> {
        Ok(OutboxTx::new(self, conn.transaction_with_behavior(TransactionBehavior::Immediate)?))
    }
}

impl OutboxTx<Transaction<'_>> {
    /// Enqueues a message in the outbox, in this transaction.
    pub fn enqueue(&mut self, message: impl IntoMessage) -> Result<Stored> {
        let message = message.into_message()?;
        let (outbox, tx) = self.enqueuing();
        outbox.store_blocking(tx, &message)
    }

    /// Commits, and then wakes the workers.
    pub fn commit(self) -> Result<()> {
        let (tx, wake) = self.parts();
        let committed = tx.commit();
        wake();
        Ok(committed?)
    }

    /// Rolls back, as dropping the transaction does.
    pub fn rollback(self) -> Result<()> {
        Ok(self.parts().0.rollback()?)
    }
}

/// SQLite as a session: it answers at once, so its futures are always ready.
pub(crate) struct SqliteConn<'c> {
    conn: &'c Connection,
    outage_at: Option<Timestamp>,
}

impl<'c> SqliteConn<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Self {
        Self { conn, outage_at: None }
    }

    /// A session on a database that was last unreachable at `outage_at`.
    pub(crate) fn after_outage(conn: &'c Connection, outage_at: Option<Timestamp>) -> Self {
        Self { conn, outage_at }
    }
}

impl Session for SqliteConn<'_> {
    fn execute(&mut self, statement: &Statement) -> impl Future<Output = Result<Done>> + Send {
        std::future::ready(self.conn.run(statement))
    }

    fn query<T: Send>(
        &mut self,
        statement: &Statement,
        mut read: impl FnMut(&dyn Row) -> Result<T> + Send,
    ) -> impl Future<Output = Result<Vec<T>>> + Send {
        std::future::ready(query_while(self.conn, statement, |row| read(row).map(Some)))
    }

    fn query_while<T: Send>(
        &mut self,
        statement: &Statement,
        read: impl FnMut(&dyn Row) -> Result<Option<T>> + Send,
    ) -> impl Future<Output = Result<Vec<T>>> + Send {
        std::future::ready(query_while(self.conn, statement, read))
    }

    fn outage_at(&self) -> Option<Timestamp> {
        self.outage_at
    }
}

fn query_while<T>(
    conn: &Connection,
    statement: &Statement,
    mut read: impl FnMut(&dyn Row) -> Result<Option<T>>,
) -> Result<Vec<T>> {
    let mut prepared = conn.prepare_cached(&statement.sql)?;
    let mut rows = prepared.query(rusqlite::params_from_iter(&statement.values))?;
    let mut read_rows = Vec::new();
    while let Some(row) = rows.next()? {
        match read(row)? {
            Some(row) => read_rows.push(row),
            None => break,
        }
    }
    Ok(read_rows)
}

impl Row for rusqlite::Row<'_> {
    fn int(&self, column: usize) -> Result<Option<i64>> {
        Ok(self.get(column)?)
    }

    fn str(&self, column: usize) -> Result<Option<&str>> {
        let value = self.get_ref(column)?;
        value.as_str_or_null().map_err(|source| Error::new(ErrorKind::Corrupt, "a value is not text").caused_by(source))
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
        let kind = match &source {
            rusqlite::Error::SqliteFailure(error, message) => {
                kind_of(error.extended_code, message.as_deref().unwrap_or_default())
            }
            rusqlite::Error::SqlInputError { error, msg, .. } => kind_of(error.extended_code, msg),
            _ => ErrorKind::Database,
        };
        let hint = if kind == ErrorKind::Schema { "; deploy the schema first" } else { "" };
        Self::new(kind, format!("SQLite: {source}{hint}")).caused_by(source)
    }
}

//! The interface between the library and a database driver: a statement is a text and its values.

pub(crate) mod columns;
pub(crate) mod dialect;
mod names;
pub(crate) mod plans;
pub(crate) mod purge;
pub(crate) mod questions;
mod render;
pub(crate) mod rules;
pub(crate) mod shared;
pub(crate) mod steps;
pub(crate) mod stops;
pub(crate) mod text;
pub(crate) mod unique;

pub use names::TableNames;
pub use steps::Migration;

use std::future::Future;
use std::sync::Arc;

use uuid::Uuid;

use crate::support::clock::Timestamp;
use crate::support::error::{Error, ErrorKind, Result};

/// A value to bind. Even a null has a type, because some databases refuse a null of the wrong type.
///
/// ```
/// use postroom::sql::Value;
///
/// /// Binds one value in the way that the driver needs.
/// fn literal(value: &Value) -> String {
///     match value {
///         Value::Int(Some(number)) => number.to_string(),
///         Value::Text(Some(text)) => format!("'{}'", text.replace('\'', "''")),
///         _ => "NULL".into(),
///     }
/// }
///
/// assert_eq!(literal(&Value::Text(Some("it's".into()))), "'it''s'");
/// ```
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A whole number, or a time in microseconds since 1970.
    Int(Option<i64>),
    /// Text.
    Text(Option<String>),
    /// Bytes.
    Bytes(Option<Vec<u8>>),
    /// An id. It is sixteen bytes where the database has no type for ids.
    Uuid(Option<Uuid>),
    /// Whole numbers as an array, for a batch.
    Ints(Vec<Option<i64>>),
    /// Texts, as an array.
    Texts(Vec<Option<String>>),
    /// Ids, as an array.
    Uuids(Vec<Option<Uuid>>),
}

impl Value {
    /// Returns the number of bytes of text in the value.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            Self::Text(Some(text)) => text.len(),
            _ => 0,
        }
    }
}

// Values are the user's data, so they are never printed.
impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Int(_) => "Int",
            Self::Text(_) => "Text",
            Self::Bytes(_) => "Bytes",
            Self::Uuid(_) => "Uuid",
            Self::Ints(_) => "Ints",
            Self::Texts(_) => "Texts",
            Self::Uuids(_) => "Uuids",
        })
    }
}

/// One statement with its values, ready to run in the caller's transaction. Creating one does not touch the database.
///
/// ```
/// use postroom::{NewMessage, Outbox};
/// use rusqlite::params_from_iter;
/// # use postroom::sql::Value;
/// # fn bound(value: &Value) -> rusqlite::types::Value {
/// #     match value {
/// #         Value::Int(number) => (*number).into(),
/// #         Value::Text(text) => text.clone().into(),
/// #         Value::Bytes(bytes) => bytes.clone().into(),
/// #         Value::Uuid(id) => id.map(|id| id.as_bytes().to_vec()).into(),
/// #         _ => rusqlite::types::Value::Null,
/// #     }
/// # }
///
/// fn enqueue(outbox: &Outbox, conn: &rusqlite::Connection) -> Result<(), Box<dyn std::error::Error>> {
///     let statement = outbox.statement(&NewMessage::new("order.placed", "{}"))?;
///     let rows = conn.execute(statement.sql(), params_from_iter(statement.values().iter().map(bound)))?;
///     statement.check(rows as u64)?;
///     Ok(())
/// }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("shop.db");
/// # let store = postroom::sqlite::SqliteOptions::new(&path).deploy_schema(true).open().await.unwrap();
/// # let outbox = Outbox::new(store);
/// # enqueue(&outbox, &rusqlite::Connection::open(&path).unwrap()).unwrap();
/// # assert_eq!(outbox.queue().stats().await.unwrap().ready, 1);
/// # });
/// ```
#[derive(Clone, Debug)]
#[must_use = "a statement does nothing until it is run"]
pub struct Statement {
    pub(crate) sql: Arc<str>,
    pub(crate) values: Vec<Value>,
    pub(crate) expects: Expects,
    pub(crate) otherwise: Option<Box<Statement>>,
    pub(crate) unique: Option<Box<UniqueKey>>,
}

/// What a message with a unique key needs besides its insert.
#[derive(Clone, Debug)]
pub(crate) struct UniqueKey {
    /// Takes the key, before the insert.
    pub(crate) take: Statement,
    /// Returns the id of the message that has the key.
    pub(crate) holder: Statement,
    /// Returns the id of the message that this one took the place of.
    pub(crate) replaced: Option<Statement>,
    /// Whether it is an error if another message has the key.
    pub(crate) refuses: bool,
}

/// What the number of changed rows means for a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expects {
    /// One row, or none if the row existed before.
    RowOrDuplicate,
    /// All rows, or none if one of them existed before, which may be an error of the database. Only outside a
    /// transaction: there the error has no consequences.
    AllNew,
    /// One row, or none if the lease is lost.
    RowOrLeaseLost,
    /// Any number of rows.
    Anything,
}

impl Statement {
    pub(crate) fn new(sql: Arc<str>, values: Vec<Value>) -> Self {
        Self { sql, values, expects: Expects::Anything, otherwise: None, unique: None }
    }

    pub(crate) fn expecting(mut self, expects: Expects) -> Self {
        self.expects = expects;
        self
    }

    /// Returns the statement to run if this one found an existing row. It is needed where one statement cannot do
    /// everything (MySQL's accept).
    pub fn otherwise(&self) -> Option<&Self> {
        self.otherwise.as_deref()
    }

    /// Returns the statement to run before this one, if the message has a [unique key](crate::Unique). If it finds a
    /// duplicate, another message has the key, and this statement must not be run.
    pub fn first(&self) -> Option<&Self> {
        self.unique.as_ref().map(|unique| &unique.take)
    }

    /// Returns the text, with the database's own placeholders.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Returns the values, in the order of the placeholders.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Interprets the number of changed rows. A lost lease is an error, so that `?` rolls back. Some databases refuse a
    /// duplicate instead of changing no row (MySQL's error 1062): pass zero rows then.
    pub fn check(&self, rows: u64) -> Result<Done> {
        match (self.expects, rows) {
            (Expects::RowOrLeaseLost, 0) => Err(Error::new(
                ErrorKind::LeaseLost,
                "the lease was lost: roll back, another worker may hold the message",
            )),
            (Expects::RowOrDuplicate | Expects::AllNew, 0) => Ok(Done { rows, duplicate: true }),
            _ => Ok(Done { rows, duplicate: false }),
        }
    }
}

/// The result of running a statement.
///
/// ```
/// use postroom::Result;
/// use postroom::sql::{Done, Statement};
///
/// fn told(statement: &Statement, rows_changed: u64) -> Result<&'static str> {
///     let done: Done = statement.check(rows_changed)?;
///     Ok(if done.is_duplicate() { "it was there before" } else { "stored" })
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    pub(crate) rows: u64,
    pub(crate) duplicate: bool,
}

impl Done {
    /// Returns the number of changed rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns whether the message is new.
    pub fn is_new(&self) -> bool {
        !self.duplicate
    }

    /// Returns whether the message existed before. Nothing was written then.
    pub fn is_duplicate(&self) -> bool {
        self.duplicate
    }
}

/// A connection of the caller, in a transaction that the caller began. It runs a statement without waiting.
///
/// ```
/// use postroom::{Error, Result};
/// use postroom::sql::{BlockingTx, Done, Statement, Value};
///
/// /// A driver that this crate does not support.
/// struct Driver;
/// # impl Driver { fn execute(&self, _: &str, _: &[Value]) -> std::io::Result<u64> { Ok(1) } }
///
/// impl BlockingTx for Driver {
///     fn run(&self, statement: &Statement) -> Result<Done> {
///         let rows = self.execute(statement.sql(), statement.values()).map_err(Error::callback)?;
///         statement.check(rows)
///     }
///
///     fn check_durable(&self) -> Result<()> {
///         Ok(()) // its commits wait for the disk
///     }
/// }
/// ```
pub trait BlockingTx {
    /// Runs the statement and returns its result.
    fn run(&self, statement: &Statement) -> Result<Done>;

    /// Runs a query and returns the id in the first column of its first row. It is needed for messages with a
    /// [unique key](crate::Unique) only.
    fn read_id(&self, statement: &Statement) -> Result<Option<Uuid>> {
        Err(cannot_read(statement))
    }

    /// Refuses a connection whose commits can be lost in a power cut.
    fn check_durable(&self) -> Result<()>;
}

/// A connection of the caller, in a transaction that the caller began. It runs a statement.
///
/// ```
/// use postroom::{Error, Result};
/// use postroom::sql::{Done, Statement, Tx, Value};
///
/// /// A driver that this crate does not support.
/// struct Driver;
/// # impl Driver { async fn execute(&mut self, _: &str, _: &[Value]) -> std::io::Result<u64> { Ok(1) } }
///
/// impl Tx for Driver {
///     async fn run(&mut self, statement: &Statement) -> Result<Done> {
///         let rows = self.execute(statement.sql(), statement.values()).await.map_err(Error::callback)?;
///         statement.check(rows)
///     }
/// }
/// ```
pub trait Tx: Send {
    /// Runs the statement and returns its result.
    fn run(&mut self, statement: &Statement) -> impl Future<Output = Result<Done>> + Send;

    /// Runs a query and returns the id in the first column of its first row. It is needed for messages with a
    /// [unique key](crate::Unique) only.
    fn read_id(&mut self, statement: &Statement) -> impl Future<Output = Result<Option<Uuid>>> + Send {
        std::future::ready(Err(cannot_read(statement)))
    }

    /// Refuses a connection whose commits can be lost in a power cut.
    fn check_durable(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

fn cannot_read(_: &Statement) -> Error {
    Error::new(ErrorKind::Unsupported, "a unique key needs a driver that can read an id, and this one cannot")
}

/// One row of a result, read by position.
pub(crate) trait Row {
    fn int(&self, column: usize) -> Result<Option<i64>>;
    fn text(&self, column: usize) -> Result<Option<String>> {
        Ok(self.str(column)?.map(str::to_owned))
    }
    fn str(&self, column: usize) -> Result<Option<&str>>;
    fn bytes(&self, column: usize) -> Result<Option<Vec<u8>>>;
    fn uuid(&self, column: usize) -> Result<Option<Uuid>>;
}

/// A connection inside one of our own transactions. The verbs are written once, on top of this trait. An embedded
/// database answers without waiting.
pub(crate) trait Session {
    fn execute(&mut self, statement: &Statement) -> impl Future<Output = Result<Done>> + Send;

    fn query<T: Send>(
        &mut self,
        statement: &Statement,
        read: impl FnMut(&dyn Row) -> Result<T> + Send,
    ) -> impl Future<Output = Result<Vec<T>>> + Send;

    /// Does the same, but stops at the row for which `read` returns that it has seen enough.
    fn query_while<T: Send>(
        &mut self,
        statement: &Statement,
        read: impl FnMut(&dyn Row) -> Result<Option<T>> + Send,
    ) -> impl Future<Output = Result<Vec<T>>> + Send {
        let rows = self.query(statement, read);
        async move { Ok(rows.await?.into_iter().map_while(|row| row).collect()) }
    }

    /// Returns whether the same work was tried before and its commit is in doubt. Work that is found done may be our
    /// own.
    fn in_doubt(&self) -> bool {
        false
    }

    /// Returns when the database was last unreachable, as far as we know. Nobody could renew a lease then.
    fn outage_at(&self) -> Option<Timestamp> {
        None
    }
}

//! The part that is the same for every database behind sqlx 0.9.

use sqlx::{Connection, Database, Pool, SqlSafeStr, SqlStr, Transaction};
use uuid::Uuid;

use crate::mailbox::transaction::{Begin, Commit};
use crate::sql::{Done, Row, Statement, Tx};
use crate::support::error::{Error, ErrorKind, Result};

/// A transaction of the driver's own type runs everything that its connection runs.
impl<DB: Database<Connection: Tx>> Tx for Transaction<'_, DB> {
    async fn run(&mut self, statement: &Statement) -> Result<Done> {
        DB::Connection::run(self, statement).await
    }

    async fn read_id(&mut self, statement: &Statement) -> Result<Option<Uuid>> {
        DB::Connection::read_id(self, statement).await
    }

    async fn check_durable(&mut self) -> Result<()> {
        DB::Connection::check_durable(self).await
    }
}

/// The differences between the databases behind sqlx.
pub(crate) trait Behind: Database<Connection: Tx> {
    /// Begins a transaction that will write.
    const BEGIN: &'static str;

    /// What an error of the driver means.
    fn failed(source: sqlx::Error) -> Error;
}

impl<DB: Behind> Begin for Pool<DB> {
    type Tx = Transaction<'static, DB>;

    async fn begin(&self) -> Result<Self::Tx> {
        self.begin_with(DB::BEGIN.into_sql_str()).await.map_err(DB::failed)
    }
}

impl<DB: Behind> Commit for Transaction<'_, DB> {
    async fn commit(self) -> Result<()> {
        Transaction::commit(self).await.map_err(DB::failed)
    }

    async fn roll_back(self) -> Result<()> {
        self.rollback().await.map_err(DB::failed)
    }
}

/// How a server is reached: with fixed options, or with the current options of the caller's pool. It is never printed,
/// because it contains a password.
pub(crate) enum Reach<DB: Database> {
    Told(<DB::Connection as Connection>::Options),
    Like(Pool<DB>),
}

impl<DB: Database> Reach<DB> {
    /// The options to connect with now.
    pub(crate) fn options(&self) -> <DB::Connection as Connection>::Options {
        match self {
            Self::Told(options) => options.clone(),
            Self::Like(pool) => (*pool.connect_options()).clone(),
        }
    }
}

impl<DB: Database> Clone for Reach<DB> {
    fn clone(&self) -> Self {
        match self {
            Self::Told(options) => Self::Told(options.clone()),
            Self::Like(pool) => Self::Like(pool.clone()),
        }
    }
}

impl<DB: Database> std::fmt::Debug for Reach<DB> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// Makes the driver believe permanently that the connection is inside a transaction. We begin and end transactions with
/// our own statements. A transaction that a handler begins on the connection is then a savepoint, and cannot commit
/// unfinished work.
pub(crate) async fn begin_for_good<C: Connection>(conn: &mut C, begin: SqlStr) -> sqlx::Result<()> {
    let transaction = conn.begin_with(begin).await?;
    // It only borrows the connection; dropping it would roll back and decrease the depth.
    std::mem::forget(transaction);
    Ok(())
}

/// The statements and answers of one of our connections, through the driver: the same on every server behind sqlx.
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql"))]
macro_rules! conversation {
    ($row:ty) => {
        async fn say(&mut self, text: &'static str) -> Result<()> {
            let said = async { self.conn.execute(text).await.map(|_| ()).map_err(failed) };
            self.patience.wait(said).await
        }

        /// Runs a query without values: one round trip, nothing is prepared, and the server answers in text.
        async fn ask(&mut self, text: &'static str) -> Result<$row> {
            let answer = async { sqlx::raw_sql(text).fetch_one(&mut self.conn).await.map_err(failed) };
            self.patience.wait(answer).await
        }

        async fn began(&mut self, text: &'static str) -> Result<Began> {
            let answer = self.ask(text).await?;
            Ok(self.patience.began(number(&answer, 0)?, number(&answer, 1)?))
        }
    };
}
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql"))]
pub(crate) use conversation;

/// Reads the rows of an answer as they come: the driver keeps none of them, which would take as much memory again. All
/// of them are read, even if one is unreadable, so that the connection can be used again.
#[cfg(any(feature = "sqlx-0_9-postgres", feature = "sqlx-0_9-mysql"))]
pub(crate) async fn read_each<R: Row, T>(
    mut rows: impl futures_util::Stream<Item = sqlx::Result<R>> + Unpin,
    mut read: impl FnMut(&dyn Row) -> Result<T>,
) -> sqlx::Result<Vec<Result<T>>> {
    use futures_util::TryStreamExt as _;

    let mut all = Vec::new();
    while let Some(row) = rows.try_next().await? {
        all.push(read(&row));
    }
    Ok(all)
}

/// A number that a server sent as text.
pub(crate) fn number(row: &impl Row, column: usize) -> Result<i64> {
    let text = row.str(column)?.unwrap_or_default();
    text.parse().map_err(|source| Error::new(ErrorKind::Database, "the answer is not a number").caused_by(source))
}

/// An error of the driver. `kind_of` knows the codes of its database.
pub(crate) fn explained(name: &str, source: sqlx::Error, kind_of: impl Fn(&str) -> ErrorKind, hint: &str) -> Error {
    let kind = match &source {
        sqlx::Error::Database(error) => error.code().map_or(ErrorKind::Database, |code| kind_of(&code)),
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::BeginFailed => ErrorKind::Unavailable,
        sqlx::Error::Configuration(_) => ErrorKind::InvalidInput,
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => ErrorKind::Corrupt,
        _ => ErrorKind::Database,
    };
    let hint = if kind == ErrorKind::Schema { "; deploy the schema first" } else { hint };
    Error::new(kind, format!("{name}: {source}{hint}")).caused_by(source)
}

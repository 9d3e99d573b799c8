//! sqlx 0.9 on PostgreSQL.

use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions, PgDatabaseError, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Postgres, Row as _, SqlSafeStr};
use uuid::Uuid;

use crate::clock::Timestamp;
use crate::driver::sqlx_09::{Patience, begin_for_good, ended_inside, explained};
use crate::error::{Error, ErrorKind, Result};
use crate::server::Link;
use crate::sql::postgres::{BEGIN, BEGIN_HANDLER, DEPLOY_LOCK, HELLO};
use crate::sql::{Done, Row, Session, Statement, Tx, Value};

/// One of our connections.
#[derive(Debug)]
pub(crate) struct PgLink {
    conn: PgConnection,
    patience: Patience,
    in_doubt: bool,
    outage_at: Option<Timestamp>,
}

impl PgLink {
    pub(crate) async fn connect(target: &PgConnectOptions) -> Result<Self> {
        let mut conn = PgConnection::connect_with(target).await.map_err(failed)?;
        begin_for_good(&mut conn, "BEGIN".into_sql_str()).await.map_err(failed)?;
        let mut link = Self { conn, patience: Patience::new(), in_doubt: false, outage_at: None };
        link.roll_back().await?;
        Ok(link)
    }

    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        &mut self.conn
    }

    async fn say(&mut self, text: &'static str) -> Result<()> {
        let said = async { self.conn.execute(text).await.map(|_| ()).map_err(failed) };
        self.patience.wait(said).await
    }
}

impl Link for PgLink {
    async fn hello(&mut self) -> Result<Timestamp> {
        let answer = sqlx::query(HELLO).fetch_one(&mut self.conn).await.map_err(failed)?;
        let (said, standby, version) = (answer.int(0)?, answer.int(1)?, answer.int(2)?);
        if standby == Some(1) {
            return Err(unsupported("the server is a standby, which cannot be written to; connect to the primary"));
        }
        if version < Some(VERSION_MIN) {
            return Err(unsupported("the server is older than PostgreSQL 12"));
        }
        Ok(Timestamp::from_micros(said.unwrap_or_default()))
    }

    async fn deploy(&mut self, schema: &str) -> Result<()> {
        self.say(BEGIN_HANDLER).await?;
        self.say(DEPLOY_LOCK).await?;
        sqlx::raw_sql(AssertSqlSafe(schema.to_owned())).execute(&mut self.conn).await.map_err(failed)?;
        self.commit().await
    }

    async fn begin(&mut self) -> Result<Timestamp> {
        let answer = async { sqlx::raw_sql(BEGIN).fetch_one(&mut self.conn).await.map_err(failed) };
        let answer = self.patience.wait(answer).await?;
        // Without values the server answers in text.
        let said = answer.try_get_unchecked::<&str, _>(0).map_err(failed)?.parse();
        said.map(Timestamp::from_micros)
            .map_err(|source| Error::new(ErrorKind::Database, "the server's time is no number").caused_by(source))
    }

    async fn begin_for_handler(&mut self) -> Result<()> {
        self.say(BEGIN_HANDLER).await
    }

    async fn commit(&mut self) -> Result<()> {
        self.say("COMMIT").await
    }

    async fn roll_back(&mut self) -> Result<()> {
        self.say("ROLLBACK").await?;
        self.check_open().await
    }

    async fn check_open(&mut self) -> Result<()> {
        if self.conn.is_in_transaction() { Ok(()) } else { Err(ended_inside()) }
    }

    fn set_patience(&mut self, limit: Duration) {
        self.patience.limit = limit;
    }

    fn set_in_doubt(&mut self, in_doubt: bool) {
        self.in_doubt = in_doubt;
    }

    fn set_outage(&mut self, at: Option<Timestamp>) {
        self.outage_at = at;
    }
}

impl Session for PgLink {
    async fn execute(&mut self, statement: &Statement) -> Result<Done> {
        self.patience.wait(self.conn.run(statement)).await
    }

    async fn query<T: Send>(
        &mut self,
        statement: &Statement,
        mut read: impl FnMut(&dyn Row) -> Result<T> + Send,
    ) -> Result<Vec<T>> {
        let rows = async { bound(statement).fetch_all(&mut self.conn).await.map_err(failed) };
        let rows = self.patience.wait(rows).await?;
        rows.iter().map(|row| read(row)).collect()
    }

    fn in_doubt(&self) -> bool {
        self.in_doubt
    }

    fn outage_at(&self) -> Option<Timestamp> {
        self.outage_at
    }
}

impl Tx for PgConnection {
    async fn run(&mut self, statement: &Statement) -> Result<Done> {
        let done = bound(statement).execute(self).await.map_err(failed)?;
        statement.check(done.rows_affected())
    }
}

fn bound(statement: &Statement) -> Query<'_, Postgres, PgArguments> {
    let query = sqlx::query(AssertSqlSafe(statement.sql.clone()));
    statement.values.iter().fold(query, |query, value| match value {
        Value::Int(value) => query.bind(*value),
        Value::Text(value) => query.bind(value.as_deref()),
        Value::Bytes(value) => query.bind(value.as_deref()),
        Value::Uuid(value) => query.bind(*value),
        Value::Ints(values) => query.bind(values),
        Value::Texts(values) => query.bind(values),
        Value::Uuids(values) => query.bind(values),
    })
}

/// The first version with everything the statements use.
const VERSION_MIN: i64 = 120_000;

impl Row for PgRow {
    fn int(&self, column: usize) -> Result<Option<i64>> {
        self.try_get_unchecked(column).map_err(failed)
    }

    fn str(&self, column: usize) -> Result<Option<&str>> {
        self.try_get_unchecked(column).map_err(failed)
    }

    fn bytes(&self, column: usize) -> Result<Option<Vec<u8>>> {
        self.try_get_unchecked(column).map_err(failed)
    }

    fn uuid(&self, column: usize) -> Result<Option<Uuid>> {
        self.try_get_unchecked(column).map_err(failed)
    }
}

fn unsupported(why: &str) -> Error {
    Error::new(ErrorKind::Unsupported, why)
}

fn failed(source: sqlx::Error) -> Error {
    explained("PostgreSQL", source, kind_of)
}

/// A deadlock, a lost race, or a statement after one of them.
pub(crate) fn is_conflict(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
    let error = error.and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    error.is_some_and(|error| kind_of(error.code()) == ErrorKind::NotCommitted)
}

/// By the code's class and, where that does not say enough, by the code.
pub(crate) fn kind_of(code: &str) -> ErrorKind {
    match code {
        "40001" | "40P01" | "55P03" | "25P02" => ErrorKind::NotCommitted,
        "25006" | "57014" => ErrorKind::Unavailable,
        "42P01" | "3F000" | "42883" => ErrorKind::Schema,
        "3D000" => ErrorKind::Unsupported,
        _ => match code.get(..2) {
            Some("08" | "53" | "57" | "58") => ErrorKind::Unavailable,
            Some("23") => ErrorKind::Constraint,
            Some("28") => ErrorKind::Unsupported,
            Some("XX") => ErrorKind::Corrupt,
            _ => ErrorKind::Database,
        },
    }
}

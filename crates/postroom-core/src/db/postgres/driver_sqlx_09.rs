//! sqlx 0.9 on PostgreSQL.

use sqlx::postgres::{PgArguments, PgConnectOptions, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, Postgres, Row as _, SqlSafeStr};
use uuid::Uuid;

use crate::db::postgres::dialect::{
    BEGIN, BEGIN_HANDLER, BEGIN_PLAIN, DEPLOY_LOCK, DEPLOY_LOCK_OPEN, DEPLOY_MARK, DEPLOY_RETURN, DEPLOY_UNLOCK,
    FOR_VERBS, HAS_SETTINGS, HELLO, POOLED_BEGIN_HANDLER, ROLL_BACK, SEAL,
};
use crate::db::postgres::error::{NO_SUCH_SETTING, POOLED, kind_of};
use crate::db::server::connection::{Patience, Turn, ended_inside, may_not_deploy};
use crate::db::server::{Began, Purpose, ServerConnection};
use crate::db::sqlx_09::{Behind, Reach, begin_for_good, conversation, explained, number, read_each};
use crate::sql::{Done, Expects, Row, Session, Statement, Tx, Value};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, ErrorKind, Result};

/// The address of the server, and whether there is a pooler in front of it.
#[derive(Clone, Debug)]
pub(crate) struct PgTarget {
    pub(crate) reach: Reach<Postgres>,
    pub(crate) is_pooled: bool,
}

impl PgTarget {
    /// The options to connect with now.
    pub(crate) fn options(&self) -> PgConnectOptions {
        // The driver would format each statement for a log line that nobody reads; we log what the store does.
        let options = self.reach.options().application_name("postroom").disable_statement_logging();
        if self.is_pooled {
            // Without `extra_float_digits`: PgBouncer refuses startup settings that it does not know.
            return options.statement_cache_capacity(0).extra_float_digits(None);
        }
        options
    }
}

/// One of our connections.
#[derive(Debug)]
pub(crate) struct PgServerConnection {
    conn: PgConnection,
    patience: Patience,
    is_pooled: bool,
    /// Whether it has none of the settings for our own statements. Then each transaction sets them for itself.
    is_plain: bool,
    /// Whether it is in a transaction that deploys the schema.
    is_deploying: bool,
}

impl PgServerConnection {
    pub(crate) async fn connect(target: &PgTarget, purpose: Purpose) -> Result<Self> {
        let wants_settings = purpose == Purpose::SqlVerbs && !target.is_pooled;
        let mut conn = open(target, wants_settings).await.map_err(failed)?;
        begin_for_good(&mut conn, "BEGIN".into_sql_str()).await.map_err(failed)?;
        let (patience, is_pooled) = (Patience::new(), target.is_pooled);
        let mut link = Self { conn, patience, is_pooled, is_plain: true, is_deploying: false };
        link.roll_back().await?;
        if wants_settings {
            link.is_plain = number(&link.ask(HAS_SETTINGS).await?, 0)? != 1;
        }
        Ok(link)
    }

    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        &mut self.conn
    }

    conversation!(PgRow);

    /// Behind a pooler, a statement's name may belong to another client, or the next connection may not know it.
    fn bound<'s>(&self, statement: &'s Statement) -> Query<'s, Postgres, PgArguments> {
        bound(statement).persistent(!self.is_pooled)
    }
}

/// Opens a connection. A pooler refuses settings that it does not know, even one that keeps a connection for each
/// client. Then each transaction sets them for itself.
async fn open(target: &PgTarget, wants_settings: bool) -> sqlx::Result<PgConnection> {
    if wants_settings {
        match PgConnection::connect_with(&target.options().options(FOR_VERBS)).await {
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(NO_SUCH_SETTING) => {}
            connected => return connected,
        }
    }
    PgConnection::connect_with(&target.options()).await
}

impl ServerConnection for PgServerConnection {
    async fn hello(&mut self) -> Result<Timestamp> {
        let answer = self.ask(HELLO).await?;
        if number(&answer, 1)? == 1 {
            return Err(unsupported("the server is a standby, which cannot be written to; connect to the primary"));
        }
        if number(&answer, 2)? < VERSION_MIN {
            return Err(unsupported("the server is older than PostgreSQL 13"));
        }
        Ok(Timestamp::from_micros(number(&answer, 0)?))
    }

    async fn begin_deploy(&mut self, atomic: bool) -> Result<()> {
        if !atomic && self.is_pooled {
            return Err(unsupported(
                "this version of the tables needs a step that is no transaction: run `postroom migrate` straight on \
                 the server, not through a pooler",
            ));
        }
        let mut turn = Turn::new();
        loop {
            if atomic {
                self.say(BEGIN_HANDLER).await?;
            }
            let lock = if atomic { DEPLOY_LOCK } else { DEPLOY_LOCK_OPEN };
            if number(&self.ask(lock).await?, 0)? == 1 {
                self.is_deploying = atomic;
                return if atomic { self.say(DEPLOY_MARK).await } else { Ok(()) };
            }
            if atomic {
                self.roll_back().await?;
            }
            turn.wait().await?;
        }
    }

    async fn run_text(&mut self, text: &str) -> Result<()> {
        // Statements that arrive together are a transaction, and some cannot be part of one.
        let parts: Vec<_> = if self.is_deploying { vec![text] } else { text.split("\n\n").collect() };
        if self.is_deploying {
            self.say(DEPLOY_RETURN).await?;
        }
        for part in parts {
            let deployed = sqlx::raw_sql(AssertSqlSafe(part.to_owned())).execute(&mut self.conn).await;
            deployed.map_err(|source| may_not_deploy(failed(source)))?;
        }
        Ok(())
    }

    async fn end_deploy(&mut self, atomic: bool) -> Result<()> {
        self.is_deploying = false;
        if atomic { self.commit().await } else { self.say(DEPLOY_UNLOCK).await }
    }

    async fn begin(&mut self) -> Result<Began> {
        self.began(if self.is_plain { BEGIN_PLAIN } else { BEGIN }).await
    }

    async fn begin_for_handler(&mut self) -> Result<()> {
        let answer = self.ask(if self.is_pooled { POOLED_BEGIN_HANDLER } else { BEGIN_HANDLER }).await?;
        self.patience.check_writable(answer.str(0)? == Some("on"))
    }

    async fn commit(&mut self) -> Result<()> {
        self.say("COMMIT").await
    }

    async fn roll_back(&mut self) -> Result<()> {
        self.began(ROLL_BACK).await?;
        self.check_open().await
    }

    fn patience(&mut self) -> &mut Patience {
        &mut self.patience
    }

    async fn check_open(&mut self) -> Result<()> {
        if self.conn.is_in_transaction() { Ok(()) } else { Err(ended_inside()) }
    }

    async fn seal(&mut self) -> Result<()> {
        self.check_open().await?;
        self.say(SEAL).await
    }
}

impl Session for PgServerConnection {
    async fn execute(&mut self, statement: &Statement) -> Result<Done> {
        let query = self.bound(statement);
        let done = async {
            match query.execute(&mut self.conn).await {
                Ok(done) => Ok(done.rows_affected()),
                Err(sqlx::Error::Database(error))
                    if statement.expects == Expects::AllNew && error.is_unique_violation() =>
                {
                    Ok(0)
                }
                Err(error) => Err(failed(error)),
            }
        };
        statement.check(self.patience.wait(done).await?)
    }

    async fn query<T: Send>(
        &mut self,
        statement: &Statement,
        read: impl FnMut(&dyn Row) -> Result<T> + Send,
    ) -> Result<Vec<T>> {
        let query = self.bound(statement);
        let rows = async { read_each(query.fetch(&mut self.conn), read).await.map_err(failed) };
        self.patience.wait(rows).await?.into_iter().collect()
    }
}

impl Tx for PgConnection {
    async fn run(&mut self, statement: &Statement) -> Result<Done> {
        let done = bound(statement).execute(self).await.map_err(failed)?;
        statement.check(done.rows_affected())
    }

    async fn read_id(&mut self, statement: &Statement) -> Result<Option<Uuid>> {
        let row = bound(statement).fetch_optional(self).await.map_err(failed)?;
        row.map_or(Ok(None), |row| row.uuid(0))
    }
}

impl Behind for Postgres {
    const BEGIN: &'static str = "BEGIN";

    fn failed(source: sqlx::Error) -> Error {
        failed(source)
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
pub(crate) const VERSION_MIN: i64 = 130_000;

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
    let code = source.as_database_error().and_then(sqlx::error::DatabaseError::code);
    let is_pooled = code.as_deref().is_some_and(|code| POOLED.contains(&code));
    let hint = "; is there a pooler that gives each transaction another connection? Then open with `behind_pooler()`";
    explained("PostgreSQL", source, kind_of, if is_pooled { hint } else { "" })
}

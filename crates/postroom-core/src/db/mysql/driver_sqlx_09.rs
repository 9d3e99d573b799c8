//! sqlx 0.9 on MySQL and MariaDB.

use sqlx::mysql::{MySqlArguments, MySqlRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, MySql, MySqlConnection, Row as _, SqlSafeStr};
use uuid::Uuid;

use crate::db::mysql::dialect::{
    BEGIN, BEGIN_HANDLER, COMMIT_HANDLER, DEPLOY_LOCK, DEPLOY_UNLOCK, FOR_VERBS, HELLO, ROLL_BACK,
};
use crate::db::mysql::error::{failed, number_of};
use crate::db::server::connection::{Patience, Turn, ended_inside, may_not_deploy};
use crate::db::server::{Began, Purpose, ServerConnection};
use crate::db::sqlx_09::{Behind, Reach, begin_for_good, conversation, number, read_each};
use crate::sql::{Done, Expects, Row, Session, Statement, Tx, Value};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, ErrorKind, Result};

/// The row already existed.
const DUPLICATE: u16 = 1062;
/// The transaction that was begun with this savepoint is gone.
const NO_SUCH_SAVEPOINT: u16 = 1305;

/// One of our connections.
#[derive(Debug)]
pub(crate) struct MySqlServerConnection {
    conn: MySqlConnection,
    patience: Patience,
}

impl MySqlServerConnection {
    pub(crate) async fn connect(target: &Reach<MySql>, purpose: Purpose) -> Result<Self> {
        // The driver would format each statement for a log line that nobody reads; we log what the store does.
        let options = target.options().disable_statement_logging();
        let mut conn = MySqlConnection::connect_with(&options).await.map_err(failed)?;
        begin_for_good(&mut conn, "START TRANSACTION".into_sql_str()).await.map_err(failed)?;
        let mut link = Self { conn, patience: Patience::new() };
        link.roll_back().await?;
        if purpose == Purpose::SqlVerbs {
            link.say(FOR_VERBS).await?;
        }
        Ok(link)
    }

    pub(crate) fn connection(&mut self) -> &mut MySqlConnection {
        &mut self.conn
    }

    conversation!(MySqlRow);
}

impl ServerConnection for MySqlServerConnection {
    async fn hello(&mut self) -> Result<Timestamp> {
        let answer = self.ask(HELLO).await?;
        if number(&answer, 1)? != 0 {
            return Err(unsupported("the server is read-only: a replica? connect to the primary"));
        }
        let version = answer.str(2)?.unwrap_or_default();
        if !is_new_enough(version) {
            return Err(unsupported(&format!("the server is {version}; MySQL 8.0.29 or MariaDB 10.6 is the oldest")));
        }
        Ok(Timestamp::from_micros(number(&answer, 0)?))
    }

    /// Creating a table commits whatever came before it, so there is no transaction.
    async fn begin_deploy(&mut self, _: bool) -> Result<()> {
        if number(&self.ask(DEPLOY_LOCK).await?, 0)? == 1 { Ok(()) } else { Err(Turn::too_long()) }
    }

    async fn run_text(&mut self, text: &str) -> Result<()> {
        let deployed = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(&mut self.conn).await;
        deployed.map(drop).map_err(|source| may_not_deploy(failed(source)))
    }

    async fn end_deploy(&mut self, _: bool) -> Result<()> {
        self.say(DEPLOY_UNLOCK).await
    }

    async fn begin(&mut self) -> Result<Began> {
        self.began(BEGIN).await
    }

    async fn begin_for_handler(&mut self) -> Result<()> {
        let answer = self.ask(BEGIN_HANDLER).await?;
        self.patience.check_writable(number(&answer, 0)? != 0)
    }

    async fn commit(&mut self) -> Result<()> {
        self.say("COMMIT").await
    }

    async fn commit_for_handler(&mut self) -> Result<()> {
        let committed = async {
            match self.conn.execute(COMMIT_HANDLER).await {
                Ok(_) => Ok(()),
                Err(error) if number_of(&error) == Some(NO_SUCH_SAVEPOINT) => Err(ended_inside()),
                Err(error) => Err(failed(error)),
            }
        };
        self.patience.wait(committed).await
    }

    async fn roll_back(&mut self) -> Result<()> {
        self.began(ROLL_BACK).await?;
        if self.conn.is_in_transaction() { Ok(()) } else { Err(ended_inside()) }
    }

    fn patience(&mut self) -> &mut Patience {
        &mut self.patience
    }

    /// The commit finds out: without autocommit, nothing is stored before it.
    async fn check_open(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Accepts versions such as `8.0.36`, `10.11.6-MariaDB-0+deb12u1`, and behind some proxies `5.5.5-10.11.6-MariaDB`.
pub(crate) fn is_new_enough(version: &str) -> bool {
    let is_mariadb = version.contains("MariaDB");
    let plain = version.strip_prefix("5.5.5-").filter(|_| is_mariadb).unwrap_or(version);
    let mut parts = plain.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = [(); 3].map(|()| parts.next().unwrap_or(0));
    version >= if is_mariadb { [10, 6, 0] } else { [8, 0, 29] }
}

impl Session for MySqlServerConnection {
    async fn execute(&mut self, statement: &Statement) -> Result<Done> {
        // A procedure answers with the number of messages that it changed.
        if statement.sql.starts_with("CALL ") && statement.expects != Expects::RowOrDuplicate {
            let changed = self.query(statement, |row| row.int(0)).await?;
            return statement.check(changed.into_iter().flatten().filter_map(|rows| u64::try_from(rows).ok()).sum());
        }
        self.patience.wait(self.conn.run(statement)).await
    }

    async fn query<T: Send>(
        &mut self,
        statement: &Statement,
        read: impl FnMut(&dyn Row) -> Result<T> + Send,
    ) -> Result<Vec<T>> {
        let rows = async { read_each(bound(statement).fetch(&mut self.conn), read).await.map_err(failed) };
        self.patience.wait(rows).await?.into_iter().collect()
    }
}

impl Tx for MySqlConnection {
    async fn run(&mut self, statement: &Statement) -> Result<Done> {
        match bound(statement).execute(self).await {
            Ok(done) => statement.check(done.rows_affected()),
            // The statement did nothing, and the transaction goes on.
            Err(error) if statement.expects == Expects::RowOrDuplicate && number_of(&error) == Some(DUPLICATE) => {
                statement.check(0)
            }
            Err(error) => Err(failed(error)),
        }
    }

    async fn read_id(&mut self, statement: &Statement) -> Result<Option<Uuid>> {
        let row = bound(statement).fetch_optional(self).await.map_err(failed)?;
        row.map_or(Ok(None), |row| row.uuid(0))
    }
}

impl Behind for MySql {
    const BEGIN: &'static str = "START TRANSACTION";

    fn failed(source: sqlx::Error) -> Error {
        failed(source)
    }
}

fn bound(statement: &Statement) -> Query<'_, MySql, MySqlArguments> {
    let query = sqlx::query(AssertSqlSafe(statement.sql.clone()));
    statement.values.iter().fold(query, |query, value| match value {
        Value::Int(value) => query.bind(*value),
        Value::Text(value) => query.bind(value.as_deref()),
        Value::Bytes(value) => query.bind(value.as_deref()),
        Value::Uuid(value) => query.bind(*value),
        // Batches travel as rows on MySQL.
        Value::Ints(_) | Value::Texts(_) | Value::Uuids(_) => query,
    })
}

impl Row for MySqlRow {
    fn int(&self, column: usize) -> Result<Option<i64>> {
        self.try_get_unchecked(column).map_err(failed)
    }

    fn str(&self, column: usize) -> Result<Option<&str>> {
        // Keys are stored as bytes.
        let bytes: Option<&[u8]> = self.try_get_unchecked(column).map_err(failed)?;
        bytes
            .map(std::str::from_utf8)
            .transpose()
            .map_err(|source| Error::new(ErrorKind::Corrupt, "a value is not text").caused_by(source))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_told_by_their_version() {
        for new in
            ["8.0.36", "8.4.0-commercial", "9.1.0", "10.6.0-MariaDB", "5.5.5-10.11.6-MariaDB-log", "11.4.2-MariaDB"]
        {
            assert!(is_new_enough(new), "{new}");
        }
        for old in ["5.7.44", "8.0.28", "10.5.20-MariaDB", "5.5.5-10.3.1-MariaDB", "", "nonsense"] {
            assert!(!is_new_enough(old), "{old}");
        }
    }
}

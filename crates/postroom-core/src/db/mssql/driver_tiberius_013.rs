//! tiberius 0.13 on SQL Server.

mod values;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::io::{AsyncRead, AsyncWrite};
use tiberius::error::Error as TdsError;
use tiberius::{Client, ColumnData, Config, EncryptionLevel, Query, SqlBrowser};
use tokio::net::TcpStream;
use tokio_util::compat::TokioAsyncWriteCompatExt;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;
use uuid::Uuid;

use crate::db::mssql::MssqlConnection;
use crate::db::mssql::dialect::{
    BATCH_END, BEGIN, BEGIN_HANDLER, COMMIT, DEPLOY_BEGIN, DEPLOY_END, DEPLOY_LOCK, DEPTH, FORGIVING, HELLO, MOVED,
    ROLL_BACK, ROW_COUNT, SETTINGS, STATE,
};
use crate::db::server::connection::{Patience, Unprinted, ended_inside, may_not_deploy};
use crate::db::server::{Began, ServerConnection};
use crate::sql::{Done, Expects, Row, Session, Statement, Tx, Value};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, ErrorKind, Result};

use crate::db::mssql::error::{self, failed, is_compatible, is_new_enough};
use values::bound;

/// A server may redirect a client to another address, but not without end.
const REDIRECTIONS_MAX: usize = 3;

/// The address of the server, and our credentials there.
#[derive(Clone, Debug)]
pub(crate) struct MssqlTarget {
    config: Unprinted<Config>,
    /// Whether a server without encryption is accepted, because the configuration switched it off.
    may_be_plain: bool,
    was_reached: Arc<AtomicBool>,
}

impl MssqlTarget {
    pub(crate) fn new(mut config: Config, may_be_plain: bool) -> Self {
        // We decide how long an answer may take.
        config.command_timeout(None);
        // Half a character in a text must not break the connection.
        config.lossy_utf16_decoding(true);
        Self { config: Unprinted(config), may_be_plain, was_reached: Arc::default() }
    }

    pub(crate) async fn connect(&self) -> Result<MssqlConnection> {
        let connected = match connect(self.config.0.clone()).await {
            // The driver wants at least the login encrypted, and a server without a certificate closes the connection
            // then.
            Err(TdsError::Io { .. }) if self.may_be_plain => {
                let mut config = self.config.0.clone();
                config.encryption(EncryptionLevel::NotSupported);
                connect(config).await
            }
            connected => connected,
        };
        if connected.is_ok() {
            self.was_reached.store(true, Ordering::Relaxed);
        }
        connected.map_err(|error| {
            // While a database moves to another server, the new server does not have it yet.
            let is_moving = self.was_reached.load(Ordering::Relaxed) && error::is_database_missing(&error);
            if is_moving { error::described(ErrorKind::Unavailable, error) } else { failed(error) }
        })
    }
}

/// One of our connections.
pub(crate) struct MssqlServerConnection {
    conn: MssqlConnection,
    /// The database it was opened in.
    database: String,
    patience: Patience,
    /// Whether what is deployed is one transaction.
    is_deploying: bool,
}

/// The client's own `Debug` would print what it has read last.
impl fmt::Debug for MssqlServerConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MssqlLink").field("patience", &self.patience).finish_non_exhaustive()
    }
}

impl MssqlServerConnection {
    pub(crate) async fn connect(target: &MssqlTarget) -> Result<Self> {
        let conn = target.connect().await?;
        let (database, patience) = (String::new(), Patience::new());
        let mut link = Self { conn, database, patience, is_deploying: false };
        link.database = link.ask(SETTINGS).await?.str(0)?.unwrap_or_default().to_owned();
        Ok(link)
    }

    pub(crate) fn connection(&mut self) -> &mut MssqlConnection {
        &mut self.conn
    }

    async fn say(&mut self, text: &str) -> Result<()> {
        let said = quietly(async { self.conn.simple_query(text).await?.into_results().await.map(drop) });
        self.patience.wait(async { said.await.map_err(failed) }).await
    }

    async fn ask(&mut self, text: &str) -> Result<tiberius::Row> {
        let answer = quietly(async { self.conn.simple_query(text).await?.into_row().await });
        let answer = self.patience.wait(async { answer.await.map_err(failed) }).await?;
        answer.ok_or_else(|| Error::new(ErrorKind::Database, "the server sent no answer"))
    }
}

async fn connect(mut config: Config) -> Result<MssqlConnection, TdsError> {
    for _ in 0..REDIRECTIONS_MAX {
        let stream = TcpStream::connect_named(&config).await.map_err(error::of_browser)?;
        stream.set_nodelay(true)?;
        match quietly(Client::connect(config.clone(), stream.compat_write())).await {
            Err(TdsError::Routing { host, port }) => {
                config.host(host);
                config.port(port);
            }
            connected => return connected,
        }
    }
    Err(TdsError::Protocol("the server redirects its clients too often".into()))
}

/// Runs `work` without the driver's trace events: at the finest level the driver logs everything it reads, values
/// included. The driver's futures are large, so they are boxed.
fn quietly<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    Box::pin(work).with_subscriber(NoSubscriber::default())
}

fn number(row: &tiberius::Row, column: usize) -> Result<i64> {
    row.int(column)?.ok_or_else(|| Error::new(ErrorKind::Database, "the answer is not a number"))
}

impl ServerConnection for MssqlServerConnection {
    async fn hello(&mut self) -> Result<Timestamp> {
        let answer = self.ask(HELLO).await?;
        if answer.str(1)? == Some("READ_ONLY") {
            return Err(unsupported("the database is read-only: a secondary replica? connect to the primary"));
        }
        let (version, edition) = (answer.str(2)?.unwrap_or_default(), answer.str(3)?.unwrap_or_default());
        let (level, product) = (answer.int(4)?, answer.str(5)?.unwrap_or_default());
        if !is_new_enough(version, edition, product) {
            return Err(unsupported(&format!(
                "the server has version {version}; SQL Server 2016 (13.0) is the oldest"
            )));
        }
        if !is_compatible(level, product) {
            let level = level.unwrap_or_default();
            return Err(unsupported(&format!("the database has compatibility level {level}; 130 is the lowest")));
        }
        Ok(Timestamp::from_micros(number(&answer, 0)?))
    }

    async fn begin_deploy(&mut self, atomic: bool) -> Result<()> {
        self.is_deploying = atomic;
        self.say(DEPLOY_LOCK).await
    }

    /// The transaction begins here: a query before it may have failed, which would end it.
    async fn run_text(&mut self, text: &str) -> Result<()> {
        if self.is_deploying {
            self.say(DEPLOY_BEGIN).await?;
        }
        for batch in batches(text) {
            self.say(batch).await.map_err(may_not_deploy)?;
        }
        Ok(())
    }

    /// The text changed some of the settings.
    async fn end_deploy(&mut self, _: bool) -> Result<()> {
        self.is_deploying = false;
        self.say(DEPLOY_END).await?;
        self.say(SETTINGS).await
    }

    async fn begin(&mut self) -> Result<Began> {
        let answer = self.ask(BEGIN).await?;
        Ok(self.patience.began(number(&answer, 0)?, number(&answer, 1)?))
    }

    async fn begin_for_handler(&mut self) -> Result<()> {
        let answer = self.ask(BEGIN_HANDLER).await?;
        if answer.str(2)? == Some(self.database.as_str()) {
            return self.patience.check_writable(number(&answer, 1)? != 0);
        }
        Err(Error::new(ErrorKind::Unavailable, "a handler left this connection in another database"))
    }

    async fn commit(&mut self) -> Result<()> {
        self.say(COMMIT).await
    }

    async fn roll_back(&mut self) -> Result<()> {
        let answer = self.ask(ROLL_BACK).await?;
        self.patience.began(number(&answer, 0)?, number(&answer, 1)?);
        Ok(())
    }

    fn patience(&mut self) -> &mut Patience {
        &mut self.patience
    }

    async fn check_open(&mut self) -> Result<()> {
        match number(&self.ask(DEPTH).await?, 0)? {
            1 => Ok(()),
            0 => Err(ended_inside()),
            _ => {
                let why = "the handler began a transaction inside the transaction and did not end it";
                Err(Error::new(ErrorKind::NotCommitted, why))
            }
        }
    }
}

/// Splits the schema's text into the batches that a server takes one at a time.
fn batches(schema: &str) -> impl Iterator<Item = &str> {
    schema.split(BATCH_END).map(str::trim).filter(|batch| !batch.is_empty())
}

impl Session for MssqlServerConnection {
    async fn execute(&mut self, statement: &Statement) -> Result<Done> {
        self.patience.wait(run(&mut self.conn, statement)).await
    }

    async fn query<T: Send>(
        &mut self,
        statement: &Statement,
        mut read: impl FnMut(&dyn Row) -> Result<T> + Send,
    ) -> Result<Vec<T>> {
        let rows = async {
            let rows = rows(&mut self.conn, &statement.sql, &statement.values).await;
            rows.map_err(|error| of_statement(statement, error))
        };
        let rows = self.patience.wait(rows).await?;
        rows.iter().map(|row| read(row)).collect()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Tx for Client<S> {
    async fn run(&mut self, statement: &Statement) -> Result<Done> {
        run(self, statement).await
    }
}

/// Runs a statement and counts its rows. If another transaction wrote the same row between its read and its write, the
/// server refuses the statement. Then it runs once more: it finds the other row, or it is refused for another reason.
async fn run<S>(client: &mut Client<S>, statement: &Statement) -> Result<Done>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let forgiving = if statement.expects == Expects::RowOrDuplicate { FORGIVING } else { "" };
    let count = if statement.sql.ends_with(MOVED) { "" } else { ROW_COUNT };
    let text = format!("{forgiving}{}{count}", statement.sql);
    let counts = match rows(client, &text, &statement.values).await {
        Err(error) if statement.expects == Expects::RowOrDuplicate && error::is_duplicate(&error) => {
            if !is_open(client).await? {
                return Err(of_statement(statement, error));
            }
            rows(client, &text, &statement.values).await
        }
        counts => counts,
    };
    let counts = counts.map_err(failed)?;
    let count = counts.last().map_or(Ok(0), |row| number(row, 0))?;
    statement.check(u64::try_from(count).unwrap_or(0))
}

/// Whether the transaction can still be committed.
async fn is_open<S>(client: &mut Client<S>) -> Result<bool>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let state = quietly(async { client.simple_query(STATE).await?.into_row().await }).await.map_err(failed)?;
    Ok(state.map_or(Ok(0), |row| number(&row, 0))? == 1)
}

/// If another transaction wrote the same row first, a retry finds it.
fn of_statement(statement: &Statement, error: TdsError) -> Error {
    if statement.expects == Expects::RowOrDuplicate && error::is_duplicate(&error) {
        return Error::new(ErrorKind::NotCommitted, "SQL Server: another transaction wrote the same row first");
    }
    failed(error)
}

async fn rows<S>(client: &mut Client<S>, text: &str, values: &[Value]) -> Result<Vec<tiberius::Row>, TdsError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (text, bound) = bound(text, values);
    let mut query = Query::new(text);
    bound.into_iter().for_each(|value| query.bind(value));
    let answer = quietly(async { query.query(client).await?.into_results().await });
    Ok(answer.await?.into_iter().flatten().collect())
}

impl Row for tiberius::Row {
    fn int(&self, column: usize) -> Result<Option<i64>> {
        match self.get_column_data(column).map_err(failed)? {
            ColumnData::U8(value) => Ok(value.map(i64::from)),
            ColumnData::I16(value) => Ok(value.map(i64::from)),
            ColumnData::I32(value) => Ok(value.map(i64::from)),
            ColumnData::I64(value) => Ok(*value),
            ColumnData::Bit(value) => Ok(value.map(i64::from)),
            _ => Err(Error::new(ErrorKind::Corrupt, "a value is not a number")),
        }
    }

    fn str(&self, column: usize) -> Result<Option<&str>> {
        self.try_get(column).map_err(failed)
    }

    fn bytes(&self, column: usize) -> Result<Option<Vec<u8>>> {
        let bytes: Option<&[u8]> = self.try_get(column).map_err(failed)?;
        Ok(bytes.map(<[u8]>::to_vec))
    }

    fn uuid(&self, column: usize) -> Result<Option<Uuid>> {
        self.try_get(column).map_err(failed)
    }
}

fn unsupported(why: &str) -> Error {
    Error::new(ErrorKind::Unsupported, why)
}

#[cfg(test)]
mod tests;

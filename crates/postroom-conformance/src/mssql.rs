//! A connection of a test's own to SQL Server, by nothing but tiberius.

use std::sync::OnceLock;

use anyhow::Context;
use tiberius::error::Error;
use tiberius::{AuthMethod, ColumnData, Config, EncryptionLevel};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

use crate::servers::{self, Client};

/// What handlers are lent, too.
pub type MssqlConnection = tiberius::Client<Compat<TcpStream>>;

/// Reads a URL as a test's variable holds it: `mssql://user:password@host:port/database?encrypt=…`.
pub fn config(url: &str) -> Result<Config, Error> {
    let unreadable = || Error::Conversion("not a URL of SQL Server".into());
    let rest = url.split_once("://").ok_or_else(unreadable)?.1;
    let (login, rest) = rest.rsplit_once('@').ok_or_else(unreadable)?;
    let (user, password) = login.split_once(':').ok_or_else(unreadable)?;
    let (address, rest) = rest.split_once('/').ok_or_else(unreadable)?;
    let (host, port) = address.split_once(':').unwrap_or((address, "1433"));
    let (database, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut config = Config::new();
    config.host(host);
    config.port(port.parse()?);
    config.database(database);
    config.authentication(AuthMethod::sql_server(user, password));
    if query.contains("encrypt=false") {
        config.encryption(EncryptionLevel::NotSupported);
    } else {
        config.trust_cert();
    }
    config.command_timeout(None);
    Ok(config)
}

/// Connects with another login, if there is one.
pub async fn connect(url: &str, login: Option<(&str, &str)>) -> Result<MssqlConnection, Error> {
    let mut config = config(url)?;
    if let Some((user, password)) = login {
        config.authentication(AuthMethod::sql_server(user, password));
    }
    let stream = TcpStream::connect(config.get_addr()).await?;
    stream.set_nodelay(true)?;
    // A handshake of this driver is large.
    Box::pin(tiberius::Client::connect(config, stream.compat_write())).await
}

impl Client for MssqlConnection {
    type Error = Error;

    async fn reach(url: &str) -> Result<Self, Error> {
        connect(url, None).await
    }

    /// `GO` ends a batch, as with every client of this database.
    async fn say(&mut self, sql: &str) -> Result<(), Error> {
        for batch in sql.split("\nGO\n").filter(|batch| !batch.trim().is_empty()) {
            self.simple_query(batch).await?.into_results().await?;
        }
        Ok(())
    }

    async fn ask(&mut self, sql: &str) -> Result<Vec<Vec<String>>, Error> {
        let rows = self.simple_query(sql).await?.into_results().await?;
        Ok(rows.iter().flatten().map(|row| row.cells().map(|(_, cell)| as_text(cell)).collect()).collect())
    }
}

fn as_text(cell: &ColumnData<'_>) -> String {
    match cell {
        ColumnData::U8(Some(value)) => value.to_string(),
        ColumnData::I16(Some(value)) => value.to_string(),
        ColumnData::I32(Some(value)) => value.to_string(),
        ColumnData::I64(Some(value)) => value.to_string(),
        ColumnData::Guid(Some(value)) => value.to_string(),
        ColumnData::String(Some(value)) => value.to_string(),
        _ => String::new(),
    }
}

type Chore = (String, oneshot::Sender<Result<(), Error>>);

/// Runs statements on a connection that all cases share: a server like Babelfish takes ten times as long for a schema
/// on one that is new. It has its own thread, because each case has its own runtime.
pub async fn chore(sql: String) -> anyhow::Result<()> {
    static CHORES: OnceLock<mpsc::UnboundedSender<Chore>> = OnceLock::new();
    let chores = CHORES.get_or_init(|| {
        let (chores, waiting) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(work(waiting)))
        });
        chores
    });
    let (done, ended) = oneshot::channel();
    chores.send((sql, done))?;
    Ok(ended.await.context("nobody does the chores")??)
}

async fn work(mut chores: mpsc::UnboundedReceiver<Chore>) {
    let mut client = None;
    while let Some((sql, done)) = chores.recv().await {
        let said = async {
            let mut open = match client.take() {
                Some(open) => open,
                None => MssqlConnection::reach(&servers::url(servers::MSSQL)).await?,
            };
            open.say(&sql).await?;
            client = Some(open);
            Ok(())
        };
        let said = said.await;
        done.send(said).ok();
    }
}

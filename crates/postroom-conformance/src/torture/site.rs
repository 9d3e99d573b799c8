//! The server a run takes place on, and what is done to it.

use std::time::Duration;

use anyhow::{Context, Result};
use postroom_testbed::{Engine, Mode, Proxy, Server};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, PgConnection};
use tokio::runtime::Runtime;

use super::ground::Base;
use super::pace;
use crate::mssql::MssqlConnection;
use crate::servers::Client;

/// What is done to a server under load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Blow {
    /// All its processes are killed, and it is started again.
    Kill,
    /// All connections are ended from the server's side, again and again for a while.
    Storm,
    /// A few connections are cut between a COMMIT and its answer.
    Cut,
}

impl Blow {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kill => "server-kill",
            Self::Storm => "storm",
            Self::Cut => "cut",
        }
    }
}

const GUSTS: u32 = 5;
const BETWEEN_GUSTS: Duration = Duration::from_millis(20);
const CUTS: u64 = 3;
/// How long the next commits may take to come.
const CUTS_MAX: Duration = Duration::from_secs(2);

/// Our own server, or one that was named, with a proxy before it.
pub(crate) struct Site {
    server: Option<Server>,
    url: String,
    proxy: Proxy,
    runtime: Runtime,
    pub(crate) terminations: u64,
}

impl Site {
    pub(crate) fn open(engine: Engine) -> Result<Self> {
        let server = Server::start(engine, Mode::Durable)?;
        let url = server.url();
        Self::at(url, Some(server))
    }

    /// An SQL Server that is not ours: it cannot be killed.
    pub(crate) fn named(url: String) -> Result<Self> {
        Self::at(url, None)
    }

    fn at(url: String, server: Option<Server>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let proxy = runtime.block_on(async { Proxy::start(&url) })?;
        Ok(Self { server, url, proxy, runtime, terminations: 0 })
    }

    /// How the server is reached directly.
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// How it is reached through the proxy.
    pub(crate) fn proxied_url(&self) -> String {
        self.proxy.url().to_owned()
    }

    /// How many connections were cut between a COMMIT and its answer.
    pub(crate) fn cuts(&self) -> u64 {
        self.proxy.cuts()
    }

    pub(crate) fn strike(&mut self, blow: Blow, outage: Duration) -> Result<()> {
        match blow {
            Blow::Kill => {
                let server = self.server.as_mut().context("the server is not ours to kill")?;
                server.kill()?;
                pace::wait(outage);
                server.restart()
            }
            Blow::Storm => self.storm(),
            Blow::Cut => {
                let before = self.proxy.cuts();
                self.proxy.cut_next_commits(CUTS);
                let all_are_cut = self.proxy.has_cut(before + CUTS);
                // With little to do there are fewer commits; the others stay whole.
                let _ = self.runtime.block_on(async { tokio::time::timeout(CUTS_MAX, all_are_cut).await });
                self.proxy.cut_next_commits(0);
                Ok(())
            }
        }
    }

    fn storm(&mut self) -> Result<()> {
        for _ in 0..GUSTS {
            let ended = match self.server.as_ref().map(Server::engine) {
                Some(Engine::Postgres) => self.runtime.block_on(terminate(&self.url)),
                Some(Engine::MariaDb) => self.runtime.block_on(kill_connections(&self.url)),
                None => self.runtime.block_on(end_sessions(&self.url)),
            };
            self.terminations += ended.context("the connections could not be ended")?;
            pace::wait(BETWEEN_GUSTS);
        }
        Ok(())
    }
}

async fn terminate(url: &str) -> Result<u64> {
    let mut conn = PgConnection::connect(url).await?;
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                  WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
    Ok(conn.execute(others).await?.rows_affected())
}

async fn kill_connections(url: &str) -> Result<u64> {
    let mut conn = MySqlConnection::connect(url).await?;
    let others = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist
                  WHERE id <> connection_id() AND user = 'root'";
    let others: Vec<(i64,)> = sqlx::query_as(others).fetch_all(&mut conn).await?;
    let mut ended = 0;
    for (id,) in others {
        // One that ended by itself in the meantime is no failure.
        ended += u64::from(conn.execute(AssertSqlSafe(format!("KILL {id}"))).await.is_ok());
    }
    Ok(ended)
}

/// Those to our own databases: others of that server are none of our business.
async fn end_sessions(url: &str) -> Result<u64> {
    let mut conn = MssqlConnection::reach(url).await?;
    let ours = Base::BOTH.map(|base| format!("N'{}'", base.name())).join(", ");
    let sessions = format!("SELECT session_id FROM sys.dm_exec_sessions WHERE DB_NAME(database_id) IN ({ours})");
    let mut ended = 0;
    for session in conn.ask(&sessions).await?.concat() {
        ended += u64::from(conn.say(&format!("KILL {session}")).await.is_ok());
    }
    Ok(ended)
}

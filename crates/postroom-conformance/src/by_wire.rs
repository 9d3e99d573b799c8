//! What cases need of a backend that is a server: other ways to it, separate connections, and what a handler says.

use std::time::Duration;

use postroom::clock::Clock;
use postroom::mssql::{Mssql, MssqlStore};
use postroom::mysql::{MySql, MySqlStore};
use postroom::postgres::{Postgres, PostgresStore};
use postroom::sql::Tx;
use postroom::testing::Sabotage;
use postroom::{Ctx, HandlerResult};
use postroom_testbed::Proxy;
use sqlx::{MySqlConnection, PgConnection};

use crate::harness::{Place, Stage, Testable};
use crate::mssql::MssqlConnection;
use crate::servers::{self, Client};

/// A backend that is a server.
pub trait ByWire: Testable {
    /// A connection of a case's own, and what handlers are lent.
    type Client: Client + Tx;
    /// The variable with its URL.
    const VARIABLE: &'static str;
    /// Whether a claim that finds nothing looks when to claim again in the same statement.
    const LOOKS_AS_IT_CLAIMS: bool = false;
    /// Begins a transaction.
    const BEGIN: &'static str = "BEGIN";
    /// Ends one, if there still is one.
    const ROLL_BACK: &'static str = "ROLLBACK";
    /// Ends the connection it is said on, or tells which it is.
    const END: &'static str;
    /// How long a healthy server may take to answer.
    const PATIENCE: Duration = Duration::from_millis(300);
    /// Makes a deadlock show at once.
    const SEE_DEADLOCKS: &'static str;
    /// The numbers of all other connections that are in a transaction of this case's.
    fn open_transactions(place: &Place) -> String;

    /// How a connection of the case's own gets to its tables.
    fn url(place: &Place) -> String;

    /// Opens the case's store by another way, perhaps without one of its guards.
    fn open_by(
        place: &Place,
        url: &str,
        sabotage: Option<Sabotage>,
    ) -> impl Future<Output = postroom::Result<Self::Store>> + Send;

    /// Opens the case's store by another way, with the server's own clock.
    fn open_in_real_time(place: &Place, url: &str) -> impl Future<Output = postroom::Result<Self::Store>> + Send;

    /// Opens the case's store by another way, and waits no longer than this for an answer.
    fn open_impatient(
        place: &Place,
        url: &str,
        patience: Duration,
    ) -> impl Future<Output = postroom::Result<Self::Store>> + Send;

    /// Ends the connection of a handler.
    fn end(ctx: &mut Ctx<Self>) -> impl Future<Output = HandlerResult<()>> + Send {
        say(ctx, Self::END)
    }

    /// What a handler is lent, as a client.
    fn client(conn: Self::Conn<'_>) -> &mut Self::Client;
}

impl ByWire for Postgres {
    type Client = PgConnection;
    const VARIABLE: &'static str = servers::POSTGRES;
    const LOOKS_AS_IT_CLAIMS: bool = true;
    const END: &'static str = "SELECT pg_terminate_backend(pg_backend_pid())";
    const SEE_DEADLOCKS: &'static str = "SET deadlock_timeout = '2ms'";

    fn open_transactions(place: &Place) -> String {
        let name = place.own_name();
        format!(
            "SELECT DISTINCT activity.pid FROM pg_stat_activity AS activity JOIN pg_locks AS locks USING (pid)
             JOIN pg_class AS class ON class.oid = locks.relation
             WHERE class.relnamespace = '{name}'::regnamespace AND activity.pid <> pg_backend_pid()"
        )
    }

    fn url(_: &Place) -> String {
        servers::url(servers::POSTGRES)
    }

    async fn open_by(place: &Place, url: &str, sabotage: Option<Sabotage>) -> postroom::Result<PostgresStore> {
        place.postgres_options_at(url)?.sabotage(sabotage).in_transactions().open().await
    }

    async fn open_in_real_time(place: &Place, url: &str) -> postroom::Result<PostgresStore> {
        place.postgres_options_at(url)?.clock(Clock::Database).in_transactions().open().await
    }

    async fn open_impatient(place: &Place, url: &str, patience: Duration) -> postroom::Result<PostgresStore> {
        place.postgres_options_at(url)?.answer_within(patience).open().await
    }

    fn client(conn: Self::Conn<'_>) -> &mut PgConnection {
        conn
    }
}

impl ByWire for MySql {
    type Client = MySqlConnection;
    const VARIABLE: &'static str = servers::MYSQL;
    const END: &'static str = "KILL CONNECTION_ID()";
    const SEE_DEADLOCKS: &'static str = "SELECT 1";

    fn open_transactions(place: &Place) -> String {
        format!(
            "SELECT list.id FROM information_schema.innodb_trx AS trx
             JOIN information_schema.processlist AS list ON list.id = trx.trx_mysql_thread_id
             WHERE list.db = '{}' AND list.id <> connection_id()",
            place.own_name()
        )
    }

    fn url(place: &Place) -> String {
        servers::with_database(&servers::url(servers::MYSQL), &place.own_name())
    }

    async fn open_by(place: &Place, url: &str, sabotage: Option<Sabotage>) -> postroom::Result<MySqlStore> {
        place.mysql_options_at(url)?.sabotage(sabotage).in_transactions().open().await
    }

    async fn open_in_real_time(place: &Place, url: &str) -> postroom::Result<MySqlStore> {
        place.mysql_options_at(url)?.clock(Clock::Database).in_transactions().open().await
    }

    async fn open_impatient(place: &Place, url: &str, patience: Duration) -> postroom::Result<MySqlStore> {
        place.mysql_options_at(url)?.answer_within(patience).open().await
    }

    fn client(conn: Self::Conn<'_>) -> &mut MySqlConnection {
        conn
    }
}

impl ByWire for Mssql {
    type Client = MssqlConnection;
    const VARIABLE: &'static str = servers::MSSQL;
    const BEGIN: &'static str = "BEGIN TRANSACTION";
    const ROLL_BACK: &'static str = "IF @@TRANCOUNT > 0 ROLLBACK";
    const END: &'static str = "SELECT @@SPID";
    /// A first statement takes Babelfish a second.
    const PATIENCE: Duration = Duration::from_secs(5);
    const SEE_DEADLOCKS: &'static str = "SELECT 1";

    fn open_transactions(place: &Place) -> String {
        format!(
            "SELECT session_id FROM sys.dm_exec_sessions
             WHERE open_transaction_count > 0 AND session_id <> @@SPID AND program_name = N'{}'",
            place.own_name()
        )
    }

    fn url(_: &Place) -> String {
        servers::url(servers::MSSQL)
    }

    async fn open_by(place: &Place, url: &str, sabotage: Option<Sabotage>) -> postroom::Result<MssqlStore> {
        place.mssql_options_at(url)?.sabotage(sabotage).in_transactions().open().await
    }

    async fn open_in_real_time(place: &Place, url: &str) -> postroom::Result<MssqlStore> {
        place.mssql_options_at(url)?.clock(Clock::Database).in_transactions().open().await
    }

    async fn open_impatient(place: &Place, url: &str, patience: Duration) -> postroom::Result<MssqlStore> {
        place.mssql_options_at(url)?.answer_within(patience).open().await
    }

    /// Nobody may end his own connection here: another one does.
    async fn end(ctx: &mut Ctx<Self>) -> HandlerResult<()> {
        let number = Self::client(ctx.tx().await?).ask(Self::END).await?.concat().concat();
        Ok(MssqlConnection::reach(&servers::url(servers::MSSQL)).await?.say(&format!("KILL {number}")).await?)
    }

    fn client(conn: Self::Conn<'_>) -> &mut MssqlConnection {
        conn
    }
}

impl<B: ByWire> Stage<B> {
    /// A connection of the case's own.
    pub async fn client(&self) -> anyhow::Result<B::Client> {
        Ok(B::Client::reach(&B::url(&self.place)).await?)
    }

    /// A table of the case's own, with its schema or database before it.
    pub fn table(&self, name: &str) -> String {
        format!("{}.{name}", self.place.own_name())
    }

    /// A table for effects without a unique constraint: a second effect has to show.
    pub async fn create_effects(&self) -> anyhow::Result<Effects> {
        let effects = Effects { table: self.table("effects") };
        self.client().await?.say(&format!("CREATE TABLE {} (message VARCHAR(36) NOT NULL)", effects.table)).await?;
        Ok(effects)
    }

    /// The messages that had an effect, each as often as it had one.
    pub async fn effects(&self) -> anyhow::Result<Vec<String>> {
        let sql = format!("SELECT message FROM {} ORDER BY message", self.table("effects"));
        Ok(self.client().await?.ask(&sql).await?.into_iter().flatten().collect())
    }

    /// A proxy before the server, and the case's store behind it.
    pub async fn behind_proxy(&self) -> anyhow::Result<(Proxy, B::Store)> {
        let proxy = Proxy::start(&servers::url(B::VARIABLE))?;
        let store = B::open_by(&self.place, proxy.url(), None).await?;
        Ok((proxy, store))
    }
}

/// Where handlers leave their effects.
#[derive(Clone, Debug)]
pub struct Effects {
    table: String,
}

impl Effects {
    /// Notes an effect of this message in the handler's transaction.
    pub async fn note<B: ByWire>(&self, ctx: &mut Ctx<B>) -> HandlerResult<()> {
        let sql = format!("INSERT INTO {} (message) VALUES ('{}')", self.table, ctx.message().id());
        Ok(B::client(ctx.tx().await?).say(&sql).await?)
    }
}

/// Runs statements in a handler's transaction.
pub async fn say<B: ByWire>(ctx: &mut Ctx<B>, sql: &str) -> HandlerResult<()> {
    Ok(B::client(ctx.tx().await?).say(sql).await?)
}

//! What cases with their own schemas, users and servers need of a database server.

use anyhow::Context;
use postroom::doctor::Report;
use postroom::mssql::{Mssql, MssqlOptions, MssqlStore};
use postroom::mysql::{MySql, MySqlOptions, MySqlStore};
use postroom::postgres::{Postgres, PostgresOptions, PostgresStore};
use postroom::sql::TableNames;
use postroom_testbed::Engine;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, Row};

use crate::harness::{Place, Testable};
use crate::mssql::{self, MssqlConnection};
use crate::servers::{self, Client};

/// A user that exists for one case.
pub const PASSWORD: &str = "only-for-tests";

/// A backend on a database server.
pub trait OnServer: Testable {
    /// Names every table of the case, in one column.
    const TABLES: &'static str;
    /// Tells the columns of every index of the table `{t}`, in one column.
    const INDEXES: &'static str;

    /// What follows the name of a queue's table in the names of the tables for places.
    const PLACES: &'static [&'static str];
    /// Whether later arrivals of a message are noted in a table of their own.
    const HAS_SEEN: bool = true;
    /// Whether there are unique keys.
    const HAS_KEYS: bool = true;
    /// Where messages that wait and those that are done are found by time: what follows the name of the table, and the
    /// columns of the index.
    const BY_TIME: [(&'static str, &'static str); 2] = [("line", "(visible_at, seq)"), ("done", "(at)")];

    /// Opens a store at a URL, in the usual tables.
    fn open_url(url: &str, deploy: bool) -> impl Future<Output = postroom::Result<Self::Store>> + Send;

    /// Opens a store in these tables of the case.
    fn open_tables(
        place: &Place,
        tables: TableNames,
        deploy: bool,
    ) -> impl Future<Output = postroom::Result<Self::Store>> + Send;

    /// Opens the case's store as another user.
    fn open_as(place: &Place, user: &str, deploy: bool) -> impl Future<Output = postroom::Result<Self::Store>> + Send;

    /// Looks at a server.
    fn examine(url: &str) -> impl Future<Output = postroom::Result<Report>> + Send;

    /// Names for tables of the case.
    fn tables(place: &Place, outbox: &str, inbox: &str) -> postroom::Result<TableNames>;

    /// The schema as text.
    fn schema(tables: &TableNames) -> String;

    /// Runs statements where the case's tables are.
    fn tell(place: &Place, sql: &str) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Asks there; the answer's first column.
    fn ask(place: &Place, sql: &str) -> impl Future<Output = anyhow::Result<Vec<String>>> + Send;

    /// Asks as another user.
    fn ask_as(place: &Place, user: &str, sql: &str) -> impl Future<Output = anyhow::Result<Vec<String>>> + Send;
}

/// A server that a case can start for itself.
pub trait Startable: OnServer {
    /// Which one.
    const ENGINE: Engine;
}

impl Startable for Postgres {
    const ENGINE: Engine = Engine::Postgres;
}

impl Startable for MySql {
    const ENGINE: Engine = Engine::MariaDb;
}

impl OnServer for Postgres {
    const TABLES: &'static str = "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()";
    const PLACES: &'static [&'static str] =
        &["answer", "done", "held", "lane", "lane_notes", "rates", "rules", "lease", "line", "trouble"];
    const INDEXES: &'static str = "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = '{t}'::regclass";

    async fn open_url(url: &str, deploy: bool) -> postroom::Result<PostgresStore> {
        PostgresOptions::new(url)?.deploy_schema(deploy).open().await
    }

    async fn open_tables(place: &Place, tables: TableNames, deploy: bool) -> postroom::Result<PostgresStore> {
        place.postgres_options()?.tables(tables).deploy_schema(deploy).open().await
    }

    async fn open_as(place: &Place, user: &str, deploy: bool) -> postroom::Result<PostgresStore> {
        let url: PgConnectOptions = servers::url(servers::POSTGRES).parse().map_err(postroom::Error::callback)?;
        let options = PostgresOptions::with(url.username(user).password(PASSWORD));
        let options = options.tables(Self::tables(place, "outbox", "inbox")?).deploy_schema(deploy);
        options.clock(place.clock()).open().await
    }

    async fn examine(url: &str) -> postroom::Result<Report> {
        PostgresOptions::new(url)?.examine().await
    }

    fn tables(place: &Place, outbox: &str, inbox: &str) -> postroom::Result<TableNames> {
        TableNames::new(outbox, inbox)?.in_schema(place.own_name())
    }

    fn schema(tables: &TableNames) -> String {
        PostgresStore::schema(tables)
    }

    async fn tell(place: &Place, sql: &str) -> anyhow::Result<()> {
        servers::postgres(&format!("SET search_path TO {}; {sql}", place.own_name())).await
    }

    async fn ask(place: &Place, sql: &str) -> anyhow::Result<Vec<String>> {
        let options: PgConnectOptions = servers::url(servers::POSTGRES).parse()?;
        postgres_column(options, place, sql).await
    }

    async fn ask_as(place: &Place, user: &str, sql: &str) -> anyhow::Result<Vec<String>> {
        let options: PgConnectOptions = servers::url(servers::POSTGRES).parse()?;
        postgres_column(options.username(user).password(PASSWORD), place, sql).await
    }
}

async fn postgres_column(options: PgConnectOptions, place: &Place, sql: &str) -> anyhow::Result<Vec<String>> {
    let options = options.options([("search_path", place.own_name())]);
    let mut conn = PgConnection::connect_with(&options).await.context("no connection to PostgreSQL")?;
    let rows = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(&mut conn).await?;
    rows.iter().map(|row| Ok(row.try_get_unchecked(0)?)).collect()
}

impl OnServer for MySql {
    const TABLES: &'static str = "SELECT table_name FROM information_schema.tables WHERE table_schema = database()
         AND table_type = 'BASE TABLE'";
    const PLACES: &'static [&'static str] =
        &["answer", "lane", "lane_notes", "rates", "rules", "lease", "line", "taken", "trouble"];
    const BY_TIME: [(&'static str, &'static str); 2] = [("line", "(visible_at, seq)"), ("taken", "(done_at, lease)")];
    const INDEXES: &'static str =
        "SELECT concat('(', group_concat(column_name ORDER BY seq_in_index SEPARATOR ', '), ')')
         FROM information_schema.statistics WHERE table_schema = database() AND table_name = '{t}' GROUP BY index_name";

    async fn open_url(url: &str, deploy: bool) -> postroom::Result<MySqlStore> {
        MySqlOptions::new(url)?.deploy_schema(deploy).open().await
    }

    async fn open_tables(place: &Place, tables: TableNames, deploy: bool) -> postroom::Result<MySqlStore> {
        place.mysql_options()?.tables(tables).deploy_schema(deploy).open().await
    }

    async fn open_as(place: &Place, user: &str, deploy: bool) -> postroom::Result<MySqlStore> {
        let options = MySqlOptions::with(own_database(place)?.username(user).password(PASSWORD));
        options.deploy_schema(deploy).clock(place.clock()).open().await
    }

    async fn examine(url: &str) -> postroom::Result<Report> {
        MySqlOptions::new(url)?.examine().await
    }

    fn tables(_: &Place, outbox: &str, inbox: &str) -> postroom::Result<TableNames> {
        TableNames::new(outbox, inbox)
    }

    fn schema(tables: &TableNames) -> String {
        MySqlStore::schema(tables)
    }

    async fn tell(place: &Place, sql: &str) -> anyhow::Result<()> {
        servers::mysql(&format!("USE {}; {sql}", place.own_name())).await
    }

    async fn ask(place: &Place, sql: &str) -> anyhow::Result<Vec<String>> {
        mysql_column(own_database(place)?, sql).await
    }

    async fn ask_as(place: &Place, user: &str, sql: &str) -> anyhow::Result<Vec<String>> {
        mysql_column(own_database(place)?.username(user).password(PASSWORD), sql).await
    }
}

fn own_database(place: &Place) -> postroom::Result<MySqlConnectOptions> {
    let url = servers::url_of_database(servers::MYSQL, &place.own_name());
    url.parse().map_err(postroom::Error::callback)
}

async fn mysql_column(options: MySqlConnectOptions, sql: &str) -> anyhow::Result<Vec<String>> {
    let mut conn = MySqlConnection::connect_with(&options).await.context("no connection to MariaDB")?;
    let rows = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(&mut conn).await?;
    rows.iter().map(|row| Ok(row.try_get_unchecked(0)?)).collect()
}

impl OnServer for Mssql {
    const TABLES: &'static str = "SELECT name FROM sys.tables WHERE schema_id = SCHEMA_ID(N'{space}')";
    const INDEXES: &'static str = "SELECT CONCAT(N'(', (
             SELECT STRING_AGG(CAST(c.name AS nvarchar(128)), ', ') WITHIN GROUP (ORDER BY k.key_ordinal)
             FROM sys.index_columns AS k
             JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
             WHERE k.object_id = i.object_id AND k.index_id = i.index_id), N') state ', i.filter_definition)
         FROM sys.indexes AS i WHERE i.object_id = OBJECT_ID(N'{space}.{t}') AND i.index_id > 0";
    const PLACES: &'static [&'static str] =
        &["answer", "lane", "lane_notes", "rates", "rules", "line", "taken", "trouble"];
    const HAS_SEEN: bool = false;
    const HAS_KEYS: bool = false;
    const BY_TIME: [(&'static str, &'static str); 2] = [("line", "(visible_at, seq)"), ("taken", "(done_at, seq)")];

    async fn open_url(url: &str, deploy: bool) -> postroom::Result<MssqlStore> {
        MssqlOptions::new(url)?.deploy_schema(deploy).open().await
    }

    async fn open_tables(place: &Place, tables: TableNames, deploy: bool) -> postroom::Result<MssqlStore> {
        place.mssql_options()?.tables(tables).deploy_schema(deploy).open().await
    }

    async fn open_as(place: &Place, user: &str, deploy: bool) -> postroom::Result<MssqlStore> {
        let url = servers::url(servers::MSSQL);
        let rest = url.rsplit_once('@').map(|(_, rest)| rest).unwrap_or_default();
        place.mssql_options_at(&format!("mssql://{user}:{PASSWORD}@{rest}"))?.deploy_schema(deploy).open().await
    }

    async fn examine(url: &str) -> postroom::Result<Report> {
        MssqlOptions::new(url)?.examine().await
    }

    fn tables(place: &Place, outbox: &str, inbox: &str) -> postroom::Result<TableNames> {
        TableNames::new(outbox, inbox)?.in_schema(place.own_name())
    }

    fn schema(tables: &TableNames) -> String {
        MssqlStore::schema(tables)
    }

    async fn tell(place: &Place, sql: &str) -> anyhow::Result<()> {
        servers::tell::<MssqlConnection>(servers::MSSQL, &in_its_schema(place, sql)).await
    }

    async fn ask(place: &Place, sql: &str) -> anyhow::Result<Vec<String>> {
        first_column(mssql::connect(&servers::url(servers::MSSQL), None).await?, place, sql).await
    }

    async fn ask_as(place: &Place, user: &str, sql: &str) -> anyhow::Result<Vec<String>> {
        let login = Some((user, PASSWORD));
        first_column(mssql::connect(&servers::url(servers::MSSQL), login).await?, place, sql).await
    }
}

/// There is no path along which SQL Server looks for a table: those of the case get their schema.
fn in_its_schema(place: &Place, sql: &str) -> String {
    let space = place.own_name();
    let names = ["postroom_schema", "fresh_orders", "outbox_enqueue"];
    let sql = sql.replace("{space}", &space);
    names.iter().fold(sql, |sql, name| sql.replace(&format!(" {name}"), &format!(" {space}.{name}")))
}

async fn first_column(mut client: MssqlConnection, place: &Place, sql: &str) -> anyhow::Result<Vec<String>> {
    let rows = client.ask(&in_its_schema(place, sql)).await?;
    Ok(rows.into_iter().filter_map(|row| row.into_iter().next()).collect())
}

//! The database servers the cases run on: named by the environment, started by `cargo xtask test`.

use anyhow::Context;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, Row};

/// Names the variable with PostgreSQL's URL.
pub const POSTGRES: &str = "POSTROOM_TEST_POSTGRES_URL";

/// Names the variable with MariaDB's or MySQL's URL.
pub const MYSQL: &str = "POSTROOM_TEST_MYSQL_URL";

/// Names the variable with SQL Server's URL. None is started for it: there is none to install.
pub const MSSQL: &str = "POSTROOM_TEST_MSSQL_URL";

/// Names the variable with the file of the authority that signed that server's certificate, if it is to be checked.
pub const MSSQL_CA: &str = "POSTROOM_TEST_MSSQL_CA";

/// Names the variable with the URL of a pooler in front of that PostgreSQL.
pub const POOLER: &str = "POSTROOM_TEST_POOLER_URL";

/// What PostgreSQL behind a pooler is called in the matrix.
pub const PGBOUNCER: &str = "pgbouncer";

/// The variable a backend needs, if it needs one.
pub fn variable(backend: &str) -> Option<&'static str> {
    match backend {
        "postgres" => Some(POSTGRES),
        "mariadb" => Some(MYSQL),
        "mssql" => Some(MSSQL),
        PGBOUNCER => Some(POOLER),
        _ => None,
    }
}

/// Why a backend cannot be tested here, if it cannot. What is optional may be missing in CI too.
pub fn why_not(backend: &str) -> Option<&'static str> {
    let variable = variable(backend).filter(|variable| std::env::var_os(variable).is_none())?;
    Some(match variable {
        MSSQL => "optional: POSTROOM_TEST_MSSQL_URL names no SQL Server, and none can be installed for a test",
        _ => "skipped: no server is named",
    })
}

/// The URL a variable holds; empty, and so refused by everybody, when it is not set.
pub fn url(variable: &str) -> String {
    std::env::var(variable).unwrap_or_default()
}

/// A connection of a test's own.
pub trait Client: Sized + Send + 'static {
    /// The driver's own.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Connects.
    fn reach(url: &str) -> impl Future<Output = Result<Self, Self::Error>> + Send;

    /// Runs statements.
    fn say(&mut self, sql: &str) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Runs a statement and returns its answer as text.
    fn ask(&mut self, sql: &str) -> impl Future<Output = Result<Vec<Vec<String>>, Self::Error>> + Send;
}

macro_rules! client {
    ($conn:ty) => {
        impl Client for $conn {
            type Error = sqlx::Error;

            async fn reach(url: &str) -> sqlx::Result<Self> {
                <$conn>::connect(url).await
            }

            async fn say(&mut self, sql: &str) -> sqlx::Result<()> {
                sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(self).await.map(drop)
            }

            async fn ask(&mut self, sql: &str) -> sqlx::Result<Vec<Vec<String>>> {
                let rows = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(self).await?;
                rows.iter().map(|row| (0..row.len()).map(|column| row.try_get_unchecked(column)).collect()).collect()
            }
        }
    };
}

client!(PgConnection);
client!(MySqlConnection);

/// Runs statements on the server that a variable names, on a separate connection.
pub async fn tell<C: Client>(variable: &str, sql: &str) -> anyhow::Result<()> {
    run::<C>(&url(variable), sql).await.with_context(|| format!("on the server of {variable}"))
}

/// The same on the server at that URL.
pub async fn run<C: Client>(url: &str, sql: &str) -> anyhow::Result<()> {
    let mut client = C::reach(url).await.context("no connection")?;
    Ok(client.say(sql).await?)
}

/// Runs statements on PostgreSQL, on a separate connection.
pub async fn postgres(sql: &str) -> anyhow::Result<()> {
    tell::<PgConnection>(POSTGRES, sql).await
}

/// Runs statements on MariaDB or MySQL, on a separate connection.
pub async fn mysql(sql: &str) -> anyhow::Result<()> {
    tell::<MySqlConnection>(MYSQL, sql).await
}

/// The URL a variable holds, with another database.
pub fn url_of_database(variable: &str, database: &str) -> String {
    with_database(&url(variable), database)
}

/// A URL with another database.
pub fn with_database(url: &str, database: &str) -> String {
    let (address, query) = url.split_once('?').map_or((url, None), |(address, query)| (address, Some(query)));
    let server = address.rsplit_once('/').map_or(address, |(server, _)| server);
    format!("{server}/{database}{}", query.map(|query| format!("?{query}")).unwrap_or_default())
}

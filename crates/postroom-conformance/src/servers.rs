//! The database servers the cases run on: named by the environment, started by `cargo xtask test`.

use anyhow::Context;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection};

/// Names the variable with PostgreSQL's URL.
pub const POSTGRES: &str = "POSTROOM_TEST_POSTGRES_URL";

/// Names the variable with MariaDB's or MySQL's URL.
pub const MYSQL: &str = "POSTROOM_TEST_MYSQL_URL";

/// The variable a backend needs, if it needs one.
pub fn variable(backend: &str) -> Option<&'static str> {
    match backend {
        "postgres" => Some(POSTGRES),
        "mariadb" => Some(MYSQL),
        _ => None,
    }
}

/// Whether a backend can be tested here.
pub fn is_there(backend: &str) -> bool {
    variable(backend).is_none_or(|variable| std::env::var_os(variable).is_some())
}

/// The URL a variable holds; empty, and so refused by everybody, when it is not set.
pub fn url(variable: &str) -> String {
    std::env::var(variable).unwrap_or_default()
}

/// Runs statements on PostgreSQL, on a connection of their own.
pub async fn postgres(sql: &str) -> anyhow::Result<()> {
    let mut conn = PgConnection::connect(&url(POSTGRES)).await.context("no connection to PostgreSQL")?;
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut conn).await?;
    Ok(conn.close().await?)
}

/// Runs statements on MariaDB or MySQL, on a connection of their own.
pub async fn mysql(sql: &str) -> anyhow::Result<()> {
    let mut conn = MySqlConnection::connect(&url(MYSQL)).await.context("no connection to MariaDB")?;
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut conn).await?;
    Ok(conn.close().await?)
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

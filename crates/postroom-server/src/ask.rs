//! Queries that the library does not offer: read-only, bounded, and the same on every database.

use std::time::Duration;

use anyhow::{Context, Result};
use postroom::{MssqlConnection, MssqlOptions, Queue, SqliteStore, TableNames};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, Row as _};

use crate::database::Database;
use crate::open::Opened;
use crate::problem::Problem;

/// How long SQL Server may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
const NO_ANSWER: &str = "SQL Server does not answer";
/// The number of that error.
const LOCK_TIMEOUT: u32 = 1222;

/// One row of a result, with every column as text.
pub(crate) type Row = Vec<Option<String>>;

/// A connection for queries.
pub(crate) enum Asker {
    Sqlite(SqliteStore),
    Postgres(PgConnection),
    MySql(MySqlConnection),
    Mssql(Box<MssqlConnection>),
}

impl Asker {
    pub(crate) async fn new(opened: &Opened, database: &Database) -> Result<Self> {
        let cannot = || format!("cannot use {}", database.shown());
        Ok(match (opened, database) {
            (Opened::Postgres(_), Database::Postgres(url)) => {
                Self::Postgres(PgConnection::connect(url).await.with_context(cannot)?)
            }
            (Opened::MySql(_), Database::MySql(url)) => Self::MySql(
                MySqlConnection::connect(&url.replacen("mariadb://", "mysql://", 1)).await.with_context(cannot)?,
            ),
            (Opened::Mssql(_), Database::Mssql(url)) => Self::Mssql(Box::new(mssql(url).await.with_context(cannot)?)),
            (Opened::Sqlite(store), _) => Self::Sqlite(store.clone()),
            _ => anyhow::bail!("{} was opened as another kind of database", database.shown()),
        })
    }

    /// Queries one queue. In `columns` and `rest`, `{t}` is its table, `{s}` the schema prefix, `{id}` the message id,
    /// `{party}` the other service, `{no}` the number of a failure, and `{1}` the bound text. Numbers are part of the
    /// SQL, because they come from this program. ORDER BY must qualify its column (`m.seq`): on PostgreSQL a bare name
    /// would be the column as text.
    pub(crate) async fn rows(
        &mut self,
        queue: Queue,
        columns: &[&str],
        rest: &str,
        bound: Option<&str>,
    ) -> Result<Vec<Row>> {
        let columns: Vec<_> = columns.iter().map(|column| self.as_text(&self.rendered(queue, column))).collect();
        let sql = format!("SELECT {} {}", columns.join(", "), self.rendered(queue, rest));
        let (width, bound) = (columns.len(), bound.map(str::to_owned));
        match self {
            Self::Sqlite(store) => Ok(store
                .read(move |conn| {
                    let mut select = conn.prepare(&sql)?;
                    let rows = select.query_map(rusqlite::params_from_iter(bound), |row| {
                        (0..width).map(|column| row.get(column)).collect::<Result<Row, _>>()
                    })?;
                    Ok(rows.collect::<Result<Vec<_>, _>>()?)
                })
                .await?),
            Self::Postgres(conn) => {
                let mut query = sqlx::query(AssertSqlSafe(sql)).persistent(false);
                if let Some(bound) = bound {
                    query = query.bind(bound);
                }
                let rows = query.fetch_all(conn).await.context("PostgreSQL does not answer")?;
                rows.iter().map(|row| (0..width).map(|column| Ok(row.try_get(column)?)).collect()).collect()
            }
            Self::MySql(conn) => {
                let mut query = sqlx::query(AssertSqlSafe(sql)).persistent(false);
                if let Some(bound) = bound {
                    query = query.bind(bound);
                }
                let rows = query.fetch_all(conn).await.context("the server does not answer")?;
                rows.iter().map(|row| (0..width).map(|column| Ok(row.try_get(column)?)).collect()).collect()
            }
            Self::Mssql(conn) => {
                let mut query = tiberius::Query::new(limited(&sql));
                bound.into_iter().for_each(|bound| query.bind(bound));
                let rows = answer(async { query.query(conn).await?.into_first_result().await }).await?;
                let text = |row: &tiberius::Row, column| Ok(row.try_get::<&str, _>(column)?.map(str::to_owned));
                rows.iter().map(|row| (0..width).map(|column| text(row, column)).collect()).collect()
            }
        }
    }

    /// The numbers of the only row; NULL becomes `None`.
    pub(crate) async fn numbers<const N: usize>(
        &mut self,
        queue: Queue,
        columns: [&str; N],
        rest: &str,
    ) -> Result<[Option<i64>; N]> {
        let row = self.rows(queue, &columns, rest, None).await?.into_iter().next().unwrap_or_default();
        let mut numbers = [None; N];
        for (number, told) in numbers.iter_mut().zip(row) {
            // A sum on a server may have decimals.
            *number = told.and_then(|told| told.split('.').next().and_then(|whole| whole.parse().ok()));
        }
        Ok(numbers)
    }

    /// One number.
    pub(crate) async fn number(&mut self, queue: Queue, column: &str, rest: &str) -> Result<Option<i64>> {
        let [number] = self.numbers(queue, [column], rest).await?;
        Ok(number)
    }

    fn names(&self) -> TableNames {
        match self {
            Self::Sqlite(_) => TableNames::default(),
            Self::Postgres(_) => TableNames::infra_schema(),
            Self::MySql(_) => TableNames::infra_prefix(),
            Self::Mssql(_) => TableNames::infra_capitals(),
        }
    }

    fn as_text(&self, column: &str) -> String {
        match self {
            Self::Sqlite(_) | Self::Postgres(_) => format!("CAST({column} AS TEXT)"),
            Self::MySql(_) => format!("CONVERT({column} USING utf8mb4)"),
            // SQL Server counts characters here, not bytes.
            Self::Mssql(_) if column.starts_with("octet_length(") => {
                let counted = column.trim_start_matches("octet_length(").trim_end_matches(')');
                format!("CAST(LEN({counted} + N'.') - 1 AS nvarchar(max))")
            }
            Self::Mssql(_) => format!("CAST({column} AS nvarchar(max))"),
        }
    }

    fn rendered(&self, queue: Queue, text: &str) -> String {
        let names = self.names();
        let schema = names.schema().map(|schema| format!("{schema}.")).unwrap_or_default();
        let id = match (self, queue) {
            (_, Queue::Inbox) => "message_id",
            (Self::Postgres(_) | Self::Mssql(_), Queue::Outbox) => "coalesce(message_id, id)",
            (_, Queue::Outbox) => "lower(hex(coalesce(message_id, id)))",
        };
        let party = if queue == Queue::Outbox { "destination" } else { "source" };
        let (no, bound) = match self {
            Self::Sqlite(_) => ("rowid", "?1"),
            Self::Postgres(_) => ("no", "$1"),
            Self::MySql(_) => ("no", "?"),
            Self::Mssql(_) => ("no", "@P1"),
        };
        text.replace("{id}", id)
            .replace("{party}", party)
            .replace("{no}", no)
            .replace("{1}", bound)
            .replace("{t}", &format!("{schema}{}", names.of(queue)))
            .replace("{outbox}", names.of(Queue::Outbox))
            .replace("{s}", &schema)
    }
}

/// A connection to SQL Server with a short lock timeout: an abandoned transaction may hold a row.
pub(crate) async fn mssql(url: &str) -> Result<MssqlConnection> {
    let options = MssqlOptions::new(url)?;
    let mut conn = tokio::time::timeout(ANSWER_MAX, options.connect()).await.context(NO_ANSWER)??;
    answer(async { conn.simple_query("SET LOCK_TIMEOUT 5000").await?.into_results().await }).await?;
    Ok(conn)
}

/// Waits for SQL Server's answer, with a timeout.
pub(crate) async fn answer<T>(asked: impl Future<Output = Result<T, tiberius::error::Error>>) -> Result<T> {
    let answered = tokio::time::timeout(ANSWER_MAX, asked).await.context(NO_ANSWER)?;
    answered.map_err(|error| match error.code() {
        Some(LOCK_TIMEOUT) => {
            let what = "another transaction holds a lock on these rows";
            Problem::new(what, "again later, or `postroom doctor`, which lists long transactions").into()
        }
        _ => anyhow::Error::new(error).context(NO_ANSWER),
    })
}

/// LIMIT in the syntax of SQL Server, which needs an ORDER BY.
fn limited(sql: &str) -> String {
    let mut pieces = sql.split(" LIMIT ");
    let mut said = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        let select = said.rsplit("SELECT").next().unwrap_or_default();
        let order = if select.contains("ORDER BY") { "" } else { " ORDER BY (SELECT NULL)" };
        let (count, rest) = piece.split_at(digits);
        said = format!("{said}{order} OFFSET 0 ROWS FETCH NEXT {count} ROWS ONLY{rest}");
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_told_to_sql_server_in_its_own_words() {
        assert_eq!(
            limited("SELECT a FROM (SELECT b FROM t LIMIT 10) AS c ORDER BY a LIMIT 2"),
            "SELECT a FROM (SELECT b FROM t ORDER BY (SELECT NULL) OFFSET 0 ROWS FETCH NEXT 10 ROWS ONLY) AS c \
             ORDER BY a OFFSET 0 ROWS FETCH NEXT 2 ROWS ONLY"
        );
        assert_eq!(limited("SELECT 1"), "SELECT 1");
    }
}

//! Questions that the library's verbs do not answer: read-only, bounded, and the same on every database.

use anyhow::{Context, Result};
use postroom::{Queue, SqliteStore, TableNames};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, Row as _};

use crate::database::Database;
use crate::open::Opened;

/// One row of an answer: every column as text.
pub(crate) type Row = Vec<Option<String>>;

/// A connection that is only asked.
pub(crate) enum Asker {
    Sqlite(SqliteStore),
    Postgres(PgConnection),
    MySql(MySqlConnection),
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
            (Opened::Sqlite(store), _) => Self::Sqlite(store.clone()),
            _ => anyhow::bail!("{} was opened as something else", database.shown()),
        })
    }

    /// Asks about one queue. In `columns` and `rest`, `{t}` is its table, `{s}` what stands before a table's name,
    /// `{id}` what its messages are known by, `{party}` the other service, `{no}` the number of a failure, and `{1}`
    /// the text that is bound. Numbers stand in the text: they come from us. An order names its table (`m.seq`): on
    /// PostgreSQL a bare name would be the column as text.
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
        }
    }

    /// The numbers of the only row; a column that is null is none.
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

    /// The one number that is asked for.
    pub(crate) async fn number(&mut self, queue: Queue, column: &str, rest: &str) -> Result<Option<i64>> {
        let [number] = self.numbers(queue, [column], rest).await?;
        Ok(number)
    }

    fn names(&self) -> TableNames {
        match self {
            Self::Sqlite(_) => TableNames::default(),
            Self::Postgres(_) => TableNames::infra_schema(),
            Self::MySql(_) => TableNames::infra_prefix(),
        }
    }

    fn as_text(&self, column: &str) -> String {
        match self {
            Self::Sqlite(_) | Self::Postgres(_) => format!("CAST({column} AS TEXT)"),
            Self::MySql(_) => format!("CONVERT({column} USING utf8mb4)"),
        }
    }

    fn rendered(&self, queue: Queue, text: &str) -> String {
        let names = self.names();
        let schema = names.schema().map(|schema| format!("{schema}.")).unwrap_or_default();
        let id = match (self, queue) {
            (_, Queue::Inbox) => "message_id",
            (Self::Postgres(_), Queue::Outbox) => "coalesce(message_id, id)",
            (_, Queue::Outbox) => "lower(hex(coalesce(message_id, id)))",
        };
        let party = if queue == Queue::Outbox { "destination" } else { "source" };
        let (no, bound) = match self {
            Self::Sqlite(_) => ("rowid", "?1"),
            Self::Postgres(_) => ("no", "$1"),
            Self::MySql(_) => ("no", "?"),
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

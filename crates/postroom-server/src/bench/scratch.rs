//! Temporary tables for the benchmark: a separate file, or separate names on a server.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use postroom::{MssqlOptions, MySqlOptions, MySqlStore, PostgresOptions, SqliteOptions, TableNames};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection};
use tempfile::TempDir;

use crate::database::{Database, absolute};
use crate::open::Opened;

/// The statements that drop a schema's tables and procedures on SQL Server.
const OBJECTS: &str = "SELECT CAST(N'DROP ' + CASE type WHEN 'U' THEN N'TABLE ' ELSE N'PROCEDURE ' END
         + SCHEMA_NAME(schema_id) + N'.' + name AS nvarchar(400))
     FROM sys.objects WHERE schema_id = SCHEMA_ID(@P1) AND type IN ('U', 'P')";

/// The temporary tables, and how to remove them.
pub(crate) struct Scratch {
    pub(crate) opened: Opened,
    gone: Gone,
}

enum Gone {
    /// The folder is deleted on drop.
    Folder(#[allow(dead_code)] TempDir),
    Postgres {
        url: String,
        schema: String,
    },
    MySql {
        url: String,
        outbox: String,
        drops: Vec<String>,
    },
    /// A schema can be dropped once it is empty.
    Mssql {
        url: String,
        schema: String,
    },
}

impl Scratch {
    pub(crate) async fn new(database: &Database) -> Result<Self> {
        let name = format!("postroom_bench_{:08x}", fastrand::u32(..));
        let cannot = || format!("cannot use {}", database.shown());
        match database {
            Database::Sqlite(path) => Self::file(path).await,
            Database::Postgres(url) => {
                let tables = TableNames::infra_schema().in_schema(&name)?;
                let gone = Gone::Postgres { url: url.clone(), schema: name };
                let opening = PostgresOptions::new(url)?.tables(tables).deploy_schema(true);
                let opened = Opened::Postgres(opening.open().await.with_context(cannot)?);
                Ok(Self { opened, gone })
            }
            Database::MySql(url) => {
                let tables = TableNames::new(format!("{name}_outbox"), format!("{name}_inbox"))?;
                let (url, outbox) = (url.clone(), format!("{name}_outbox"));
                let drops = drops(&MySqlStore::schema(&tables), &name);
                let opening = MySqlOptions::new(&url)?.tables(tables).deploy_schema(true);
                let opened = Opened::MySql(opening.open().await.with_context(cannot)?);
                Ok(Self { opened, gone: Gone::MySql { url, outbox, drops } })
            }
            Database::Mssql(url) => {
                let tables = TableNames::infra_capitals().in_schema(&name)?;
                let gone = Gone::Mssql { url: url.clone(), schema: name };
                let opening = MssqlOptions::new(url)?.tables(tables).deploy_schema(true);
                let opened = Opened::Mssql(opening.open().await.with_context(cannot)?);
                Ok(Self { opened, gone })
            }
        }
    }

    /// A new file next to the database, on the same disk.
    async fn file(path: &Path) -> Result<Self> {
        let beside = absolute(path).parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let folder = tempfile::Builder::new().prefix(".postroom-bench-").tempdir_in(&beside);
        let folder = folder.with_context(|| format!("cannot write to {}", beside.display()))?;
        let store = SqliteOptions::new(folder.path().join("bench.db")).deploy_schema(true).open().await?;
        Ok(Self { opened: Opened::Sqlite(store), gone: Gone::Folder(folder) })
    }

    /// Removes everything.
    pub(crate) async fn remove(self) -> Result<()> {
        self.opened.close().await;
        match self.gone {
            Gone::Folder(_) => Ok(()),
            Gone::Postgres { url, schema } => {
                let left = format!("cannot drop the schema {schema}; drop it by hand");
                let drop = format!("DROP SCHEMA {schema} CASCADE");
                let mut conn = PgConnection::connect(&url).await.with_context(|| left.clone())?;
                sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut conn).await.context(left)?;
                Ok(())
            }
            Gone::Mssql { url, schema } => {
                let left = || format!("cannot drop the schema {schema}; drop it by hand");
                let mut conn = MssqlOptions::new(&url)?.connect().await.with_context(left)?;
                let named = conn.query(OBJECTS, &[&schema]).await.with_context(left)?;
                let named = named.into_first_result().await.with_context(left)?;
                let drops = named.iter().filter_map(|row| row.get::<&str, _>(0)).map(str::to_owned);
                for drop in drops.chain([format!("DROP SCHEMA {schema}")]) {
                    let dropped = conn.simple_query(drop).await.with_context(left)?;
                    dropped.into_results().await.with_context(left)?;
                }
                Ok(())
            }
            Gone::MySql { url, outbox, drops } => {
                let left = || format!("cannot drop the tables of {outbox}; drop them by hand");
                let url = url.replacen("mariadb://", "mysql://", 1);
                let mut conn = MySqlConnection::connect(&url).await.with_context(left)?;
                for drop in drops {
                    sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut conn).await.with_context(left)?;
                }
                let forget = "DELETE FROM postroom_schema WHERE outbox = ?";
                sqlx::query(forget).bind(&outbox).execute(&mut conn).await.with_context(left)?;
                let others: i64 =
                    sqlx::query_scalar("SELECT count(*) FROM postroom_schema").fetch_one(&mut conn).await?;
                if others == 0 {
                    sqlx::raw_sql("DROP TABLE postroom_schema").execute(&mut conn).await.with_context(left)?;
                }
                Ok(())
            }
        }
    }
}

/// The DROP statements for every object of a schema whose name starts with `prefix`.
fn drops(schema: &str, prefix: &str) -> Vec<String> {
    let created = schema.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix("CREATE ")?;
        let (kind, rest) = rest.split_once(" IF NOT EXISTS ")?;
        let name = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
        let is_ours = name.starts_with(prefix) && ["TABLE", "PROCEDURE", "FUNCTION"].contains(&kind);
        is_ours.then(|| format!("DROP {kind} {name}"))
    });
    created.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_for_it_is_dropped() {
        let tables = TableNames::new("x_outbox", "x_inbox").unwrap();
        let expected = [
            "DROP TABLE x_outbox",
            "DROP TABLE x_outbox_failures",
            "DROP TABLE x_outbox_holds",
            "DROP TABLE x_outbox_audit",
            "DROP TABLE x_inbox",
            "DROP TABLE x_inbox_failures",
            "DROP TABLE x_inbox_holds",
            "DROP TABLE x_inbox_audit",
            "DROP TABLE x_inbox_marks",
            "DROP PROCEDURE x_outbox_enqueue_with",
            "DROP PROCEDURE x_outbox_enqueue",
        ];
        assert_eq!(drops(&MySqlStore::schema(&tables), "x_"), expected);
    }
}

//! Temporary tables for the benchmark: a separate file, or separate names on a server.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use postroom::mssql::MssqlOptions;
use postroom::mysql::MySqlOptions;
use postroom::postgres::PostgresOptions;
use postroom::sql::TableNames;
use postroom::sqlite::SqliteOptions;
use tempfile::TempDir;

use crate::database::{Database, absolute};
use crate::open::Opened;

/// Where the benchmark runs, and what to remove afterwards.
pub(crate) struct Scratch {
    pub(crate) opened: Opened,
    /// Its name on a server.
    name: String,
    /// Dropping the value removes the folder.
    folder: Option<TempDir>,
}

impl Scratch {
    pub(crate) async fn new(database: &Database) -> Result<Self> {
        let name = format!("postroom_bench_{:08x}", fastrand::u32(..));
        let cannot = || format!("cannot use {}", database.shown());
        let opened = match database {
            Database::Sqlite(path) => return Self::file(path).await,
            Database::Postgres(url) => {
                let tables = TableNames::infra_schema().in_schema(&name)?;
                let opening = PostgresOptions::new(url)?.tables(tables).deploy_schema(true);
                Opened::Postgres(opening.open().await.with_context(cannot)?)
            }
            Database::MySql(url) => {
                let tables = TableNames::new(format!("{name}_outbox"), format!("{name}_inbox"))?;
                let opening = MySqlOptions::new(url)?.tables(tables).deploy_schema(true);
                Opened::MySql(opening.open().await.with_context(cannot)?)
            }
            Database::Mssql(url) => {
                let tables = TableNames::infra_capitals().in_schema(&name)?;
                let opening = MssqlOptions::new(url)?.tables(tables).deploy_schema(true);
                Opened::Mssql(opening.open().await.with_context(cannot)?)
            }
        };
        Ok(Self { opened, name, folder: None })
    }

    /// A new file next to the database, on the same disk.
    async fn file(path: &Path) -> Result<Self> {
        let beside = absolute(path).parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let folder = tempfile::Builder::new().prefix(".postroom-bench-").tempdir_in(&beside);
        let folder = folder.with_context(|| format!("cannot write to {}", beside.display()))?;
        let store = SqliteOptions::new(folder.path().join("bench.db")).deploy_schema(true).open().await?;
        Ok(Self { opened: Opened::Sqlite(store), name: String::new(), folder: Some(folder) })
    }

    /// Removes everything.
    pub(crate) async fn remove(self) -> Result<()> {
        let dropped = match self.opened {
            Opened::Sqlite(store) => {
                store.close().await;
                Ok(())
            }
            Opened::Postgres(store) => store.drop_schema().await,
            Opened::MySql(store) => store.drop_schema().await,
            Opened::Mssql(store) => store.drop_schema().await,
        };
        drop(self.folder);
        dropped.with_context(|| format!("cannot drop {} on the server; drop it by hand", self.name))
    }
}

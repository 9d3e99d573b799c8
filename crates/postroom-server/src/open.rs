//! Opens the database.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use postroom::mssql::{MssqlOptions, MssqlStore};
use postroom::mysql::{MySqlOptions, MySqlStore};
use postroom::postgres::{PostgresOptions, PostgresStore};
use postroom::queue::WorkQueue;
use postroom::sql::Migration;
use postroom::sqlite::{SqliteOptions, SqliteStore};
use postroom::store::Store;

use crate::config;
use crate::database::{Database, absolute};
use crate::problem::Problem;

/// A store on any of the databases.
#[derive(Clone)]
pub(crate) enum Opened {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
    MySql(MySqlStore),
    Mssql(MssqlStore),
}

impl Opened {
    /// The store, whatever the database.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            Self::Postgres(store) => Arc::new(store.clone()),
            Self::MySql(store) => Arc::new(store.clone()),
            Self::Mssql(store) => Arc::new(store.clone()),
        }
    }

    /// One of the two queues.
    pub(crate) fn queue(&self, queue: postroom::queue::Queue) -> WorkQueue {
        match queue {
            postroom::queue::Queue::Outbox => postroom::Outbox::of(self.store()).queue().clone(),
            postroom::queue::Queue::Inbox => postroom::Inbox::of(self.store()).queue().clone(),
        }
    }

    pub(crate) async fn close(self) {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
            Self::MySql(store) => store.close().await,
            Self::Mssql(store) => store.close().await,
        }
    }
}

/// Opens the database to enqueue or handle messages. Creates a missing file and its tables, but not the tables of a
/// server: `postroom migrate` does that.
pub(crate) async fn or_create(database: &Database) -> Result<Opened> {
    match database {
        Database::Sqlite(path) => file_or_create(path).await.map(Opened::Sqlite),
        Database::Postgres(url) => on_server(database, Box::pin(postgres(url, false))).await,
        Database::MySql(url) => on_server(database, Box::pin(mysql(url, false))).await,
        Database::Mssql(url) => on_server(database, Box::pin(mssql(url, false))).await,
    }
}

/// Opens the database for a node. By default the tables of a file are created and those of a server are not.
pub(crate) async fn for_node(database: &Database, store: &config::Store) -> Result<Opened> {
    let (deploy, dead_letters) = (store.deploy_schema, store.dead_letter_topic.as_deref());
    match database {
        Database::Sqlite(path) => {
            let options = SqliteOptions::new(path).deploy_schema(deploy.unwrap_or(true));
            let options = dead_letters.into_iter().fold(options, SqliteOptions::dead_letters);
            kept(options).await.map(Opened::Sqlite)
        }
        Database::Postgres(url) => {
            let options = PostgresOptions::new(url)?.deploy_schema(deploy.unwrap_or(false));
            let options = dead_letters.into_iter().fold(options, PostgresOptions::dead_letters);
            let options = if store.pooler { options.behind_pooler() } else { options };
            on_server(database, Box::pin(async { options.open().await.map(Opened::Postgres) })).await
        }
        Database::MySql(url) => {
            let options = MySqlOptions::new(url)?.deploy_schema(deploy.unwrap_or(false));
            let options = dead_letters.into_iter().fold(options, MySqlOptions::dead_letters);
            on_server(database, Box::pin(async { options.open().await.map(Opened::MySql) })).await
        }
        Database::Mssql(url) => {
            let options = MssqlOptions::new(url)?.deploy_schema(deploy.unwrap_or(false));
            let options = dead_letters.into_iter().fold(options, MssqlOptions::dead_letters);
            on_server(database, Box::pin(async { options.open().await.map(Opened::Mssql) })).await
        }
    }
}

/// Opens a database that must exist. Queries and operator commands create nothing.
pub(crate) async fn existing(database: &Database) -> Result<Opened> {
    match database {
        Database::Sqlite(path) => existing_file(path).await.map(Opened::Sqlite),
        server => or_create(server).await,
    }
}

/// What it takes to bring the tables to a version, or to the newest one. With `change`, it is done.
pub(crate) async fn migration(database: &Database, to: Option<i64>, change: bool) -> Result<Migration> {
    macro_rules! way {
        ($options:expr) => {
            if change { Box::pin($options.migrate(to)).await } else { Box::pin($options.migration(to)).await }
        };
    }
    let way = match database {
        Database::Sqlite(path) => return Ok(way!(SqliteOptions::new(path))?),
        Database::Postgres(url) => way!(PostgresOptions::new(url)?),
        Database::MySql(url) => way!(MySqlOptions::new(url)?),
        Database::Mssql(url) => way!(MssqlOptions::new(url)?),
    };
    way.with_context(|| format!("cannot use {}", database.shown()))
}

/// Opens the file. Creates it and its tables if they are missing.
pub(crate) async fn file_or_create(path: &Path) -> Result<SqliteStore> {
    kept(SqliteOptions::new(path).deploy_schema(true)).await
}

/// Opens a file that must exist.
pub(crate) async fn existing_file(path: &Path) -> Result<SqliteStore> {
    // Nothing waits for messages here, so nothing needs to be woken.
    kept(existing_options(path)?.watch(false)).await
}

/// Opens a file that must exist, for a worker.
pub(crate) async fn watched_file(path: &Path) -> Result<SqliteStore> {
    kept(existing_options(path)?).await
}

/// The options for a file that must exist.
pub(crate) fn existing_options(path: &Path) -> Result<SqliteOptions> {
    if !path.exists() {
        let what = format!("there is no database at {}", absolute(path).display());
        let advice = "`postroom up` or `postroom send`, which create it; or --db PATH for another file";
        return Err(Problem::new(what, advice).into());
    }
    Ok(SqliteOptions::new(path).create_file(false))
}

async fn postgres(url: &str, deploy: bool) -> postroom::Result<Opened> {
    PostgresOptions::new(url)?.deploy_schema(deploy).open().await.map(Opened::Postgres)
}

async fn mysql(url: &str, deploy: bool) -> postroom::Result<Opened> {
    MySqlOptions::new(url)?.deploy_schema(deploy).open().await.map(Opened::MySql)
}

async fn mssql(url: &str, deploy: bool) -> postroom::Result<Opened> {
    MssqlOptions::new(url)?.deploy_schema(deploy).open().await.map(Opened::Mssql)
}

async fn on_server(database: &Database, opening: impl Future<Output = postroom::Result<Opened>>) -> Result<Opened> {
    let opened = opening.await.with_context(|| format!("cannot use {}", database.shown()))?;
    remember(opened.clone());
    Ok(opened)
}

/// The open stores of this process. It closes them at exit, so that SQLite removes its log files.
static OPEN: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

fn remember(opened: Opened) {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).push(opened);
}

async fn kept(options: SqliteOptions) -> Result<SqliteStore> {
    let store = options.open().await?;
    remember(Opened::Sqlite(store.clone()));
    Ok(store)
}

/// Closes every store. Everything committed is safe without this.
pub(crate) async fn close_all() {
    let stores = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    for store in stores {
        store.close().await;
    }
}

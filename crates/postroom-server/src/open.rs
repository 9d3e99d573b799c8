//! Opening the file that was named.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use postroom::{SqliteOptions, SqliteStore};

use crate::problem::Problem;

/// Opens the file; it is created, and its tables too, when they are missing.
pub(crate) async fn or_create(path: &Path) -> Result<SqliteStore> {
    kept(SqliteOptions::new(path).deploy_schema(true)).await
}

/// Opens a file that must be there: a question, or an operator's verb, creates nothing.
pub(crate) async fn existing(path: &Path) -> Result<SqliteStore> {
    // Nobody waits for messages here, so nobody has to be woken.
    kept(existing_options(path)?.watch(false)).await
}

/// Opens a file that must be there, for a worker.
pub(crate) async fn watched(path: &Path) -> Result<SqliteStore> {
    kept(existing_options(path)?).await
}

fn existing_options(path: &Path) -> Result<SqliteOptions> {
    if !path.exists() {
        let what = format!("there is no database at {}", absolute(path).display());
        let advice = "`postroom up` or `postroom send`, which create it, or --db PATH for another file";
        return Err(Problem::new(what, advice).into());
    }
    Ok(SqliteOptions::new(path).create_file(false))
}

/// The path from the root, so that it means the same in another terminal.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Stores this process has open, to be closed at its end: otherwise the log stays beside the database.
static OPEN: Mutex<Vec<SqliteStore>> = Mutex::new(Vec::new());

async fn kept(options: SqliteOptions) -> Result<SqliteStore> {
    let store = options.open().await?;
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).push(store.clone());
    Ok(store)
}

/// Closes every store; what they were told is stored in any case.
pub(crate) async fn close_all() {
    let stores = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    for store in stores {
        store.close().await;
    }
}

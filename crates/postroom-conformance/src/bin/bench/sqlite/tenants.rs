//! Many idle files.

use std::path::{Path, PathBuf};

use postroom::sqlite::{SqliteOptions, SqliteStore};
use rusqlite::Connection;

use crate::tenants::Tenants;

pub(crate) struct Files(pub(crate) PathBuf);

fn file(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("tenant-{index}.db"))
}

pub(crate) async fn open(dir: &Path, count: usize) -> anyhow::Result<Vec<SqliteStore>> {
    let mut stores = Vec::with_capacity(count);
    for index in 0..count {
        stores.push(SqliteOptions::new(file(dir, index)).deploy_schema(true).open().await?);
    }
    Ok(stores)
}

impl Tenants for Files {
    fn place(&self) -> String {
        self.0.display().to_string()
    }

    fn write(&mut self, store: usize, now: i64) -> anyhow::Result<()> {
        let conn = Connection::open(file(&self.0, store))?;
        conn.execute_batch("PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000")?;
        let sql =
            "INSERT INTO outbox_messages (id, topic, payload, visible_at) VALUES (randomblob(16), 'bench', ?1, ?2)";
        conn.execute(sql, (now.to_string(), now))?;
        Ok(())
    }
}

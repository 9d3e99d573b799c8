//! `postroom migrate`: the tables.

use anyhow::Result;
use clap::Args;
use postroom::{SqliteStore, TableNames};

use super::Global;
use crate::{open, output};

/// Create the tables in the file, or bring them up to date; other tables stay as they are
#[derive(Args)]
pub(crate) struct Migrate {
    /// Print the SQL instead, for migrations of your own; no file is touched
    #[arg(long)]
    print: bool,
}

impl Migrate {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        if self.print {
            let sql = SqliteStore::schema(&TableNames::default()).trim_end().to_owned();
            return if global.json { output::json(&serde_json::json!({ "sql": sql })) } else { output::line(sql) };
        }
        let store = open::or_create(&global.db).await?;
        if global.json {
            return output::json(&serde_json::json!({ "db": store.path(), "tables": "up to date" }));
        }
        output::line(format!("{}: the tables are up to date", store.path().display()))
    }
}

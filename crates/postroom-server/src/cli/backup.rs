//! `postroom backup`: copies the database while it is in use.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::Global;
use crate::database::{Database, absolute};
use crate::problem::Problem;
use crate::{open, output};

/// Copy the database to a new file while it is in use, and verify the copy
#[derive(Args)]
pub(crate) struct Backup {
    /// The new file
    to: PathBuf,
}

impl Backup {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let store = open::existing_file(&file(global.database()?)?).await?;
        let to = absolute(&self.to);
        check_target(&to)?;
        // Drawn on stderr, and only when that is a terminal.
        let bar = ProgressBar::new(0).with_style(
            ProgressStyle::with_template("{bar:40} {percent}% of {len} pages, {eta} left")
                .context("invalid template for the progress bar")?,
        );
        let drawn = bar.clone();
        let copied = store.backup(&to, move |progress| {
            drawn.set_length(progress.pages_total);
            drawn.set_position(progress.pages_done);
        });
        copied.await?;
        bar.finish_and_clear();
        let bytes = std::fs::metadata(&to).with_context(|| format!("cannot read {}", to.display()))?.len();
        if global.json {
            return output::json(&serde_json::json!({ "path": to, "bytes": bytes }));
        }
        output::line(format!("{}: {} bytes, verified", to.display(), output::thousands(bytes)))
    }
}

/// Only a SQLite file is copied here; servers have their own tools.
fn file(database: Database) -> Result<PathBuf> {
    let tool = match &database {
        Database::Sqlite(path) => return Ok(path.clone()),
        Database::Postgres(_) => "`pg_dump`; or WAL archiving with `pg_basebackup`, which loses nothing",
        Database::Mssql(_) => "`BACKUP DATABASE`, with `BACKUP LOG` in between to lose nothing",
        Database::MySql(_) => "`mariadb-dump --single-transaction`, with the binary log to lose nothing",
    };
    let what = format!("this command backs up SQLite files only, and this database is {}", database.kind());
    Err(Problem::new(what, tool).into())
}

fn check_target(to: &Path) -> Result<()> {
    if to.exists() {
        let what = format!("{} already exists, and a backup never overwrites a file", to.display());
        bail!(Problem::new(what, "another file name"));
    }
    let folder = to.parent().unwrap_or(Path::new("/"));
    if !folder.is_dir() {
        let what = format!("the folder {} does not exist", folder.display());
        bail!(Problem::new(what, "create it first, or use another folder"));
    }
    Ok(())
}

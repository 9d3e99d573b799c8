//! `postroom backup`: a copy as of one moment, while everybody goes on.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::Global;
use crate::database::{Database, absolute};
use crate::problem::Problem;
use crate::{open, output};

/// Copy the database to a new file, as it is at one moment, and check the copy; workers go on meanwhile
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
            ProgressStyle::with_template("{bar:40} {percent}% of {len} pages, {eta} left").context("the bar's form")?,
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
        output::line(format!("{}: {} bytes, whole", to.display(), output::thousands(bytes)))
    }
}

/// A server's database is more than we may copy, and others know how.
fn file(database: Database) -> Result<PathBuf> {
    let tool = match &database {
        Database::Sqlite(path) => return Ok(path.clone()),
        Database::Postgres(_) => "`pg_dump`, or the archive of its log (`pg_basebackup`), which loses nothing",
        Database::Mssql(_) => "`BACKUP DATABASE`, and `BACKUP LOG` in between, which loses nothing",
        Database::MySql(_) => "`mariadb-dump --single-transaction`, or its binary log, which loses nothing",
    };
    let what = format!("only a SQLite file is backed up here, and this is {}", database.kind());
    Err(Problem::new(what, tool).into())
}

fn check_target(to: &Path) -> Result<()> {
    if to.exists() {
        let what = format!("{} exists already, and a backup never overwrites", to.display());
        bail!(Problem::new(what, "a new name"));
    }
    let folder = to.parent().unwrap_or(Path::new("/"));
    if !folder.is_dir() {
        let what = format!("the folder {} does not exist", folder.display());
        bail!(Problem::new(what, "to create it, or another folder"));
    }
    Ok(())
}

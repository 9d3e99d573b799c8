//! SQLite beside raw rusqlite.

mod claim;
pub(crate) mod crashed;
mod drain;
mod enqueue;
mod handlers;
mod latency;
pub(crate) mod memory;
pub(crate) mod raw;
pub(crate) mod tenants;

use std::path::Path;

use postroom::sqlite::{SqliteOptions, SqliteStore};

use crate::{Report, Sizes};

pub(crate) async fn run(
    dir: Option<&Path>,
    sizes: Sizes,
    wants: &impl Fn(&str) -> bool,
    report: &mut Report,
) -> anyhow::Result<()> {
    report.backend = "sqlite";
    let dir = dir.map_or_else(tempfile::tempdir, tempfile::tempdir_in)?;
    raw::print_statements();
    if wants("a") {
        enqueue::producers(dir.path(), sizes, report).await?;
    }
    if wants("b") {
        enqueue::batch(dir.path(), sizes, report).await?;
    }
    if wants("c") {
        drain::run(dir.path(), sizes, report).await?;
    }
    if wants("d") {
        latency::run(dir.path(), sizes, report).await?;
    }
    if wants("e") {
        claim::run(dir.path(), sizes, report).await?;
    }
    if wants("h") {
        handlers::run(dir.path(), sizes, report).await?;
    }
    if wants("l") {
        let open = async |name: &str| Ok(open(dir.path(), &format!("{name}.db")).await?);
        let amounts = crate::lanes::Amounts { lanes: sizes.pending_rows, deep: sizes.messages };
        crate::lanes::run::<postroom::sqlite::Sqlite>(open, amounts, sizes, report).await?;
    }
    if wants("m") {
        memory::run(dir.path(), sizes, report).await?;
    }
    if wants("n") {
        let open = async |name: &str| Ok(open(dir.path(), &format!("{name}.db")).await?);
        crate::beside::run::<postroom::sqlite::Sqlite>(open, sizes, report).await?;
    }
    if wants("q") {
        crashed::run(dir.path(), sizes, report).await?;
    }
    crate::services::run(dir.path(), sizes, wants, report).await?;
    if wants("t") {
        let mut files = tenants::Files(dir.path().to_path_buf());
        crate::tenants::run(&mut files, sizes.idle_stores, sizes, report)?;
    }
    Ok(())
}

async fn open(dir: &Path, name: &str) -> postroom::Result<SqliteStore> {
    SqliteOptions::new(dir.join(name)).deploy_schema(true).open().await
}

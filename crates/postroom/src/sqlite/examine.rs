//! Asking a SQLite file about itself, and the place it lies in.

use std::path::Path;

use rusqlite::Connection;

use crate::doctor::{self, Facts, Report};
use crate::error::{Error, ErrorKind, Result};
use crate::sql::doctor::SQLITE as QUESTIONS;
use crate::sql::sqlite::SQLITE;
use crate::sqlite::store::{blocking, schema_version};
use crate::sqlite::{Durability, SqliteOptions, connect};
use crate::store::sql::Verbs;

pub(super) async fn examine(options: SqliteOptions) -> Result<Report> {
    blocking(move || {
        let path = &options.path;
        if !path.is_file() {
            let message = format!("there is no database at {}", path.display());
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let facts = facts(&options, &connect::reader(path)?)?;
        Ok(doctor::sqlite::report(path, &facts))
    })
    .await
}

fn facts(options: &SqliteOptions, conn: &Connection) -> Result<Facts> {
    let mut facts = Facts::default();
    facts.add("version", rusqlite::version());
    facts.add("version_number", rusqlite::version_number());
    facts.add("synchronous", if options.durability == Durability::Full { "FULL" } else { "NORMAL" });
    for (name, question) in QUESTIONS {
        let answer = conn.query_row(question, [], |row| row.get::<_, String>(0)).map_err(Error::from);
        facts.add(name, unless_damaged(answer)?);
    }
    let verbs = Verbs::new(&SQLITE, options.tables.clone(), None, SQLITE.fence);
    facts.add("schema.wanted", verbs.statements.schema_version);
    match schema_version(conn, &verbs) {
        Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error),
        found => found.into_iter().flatten().for_each(|version| facts.add("schema.found", version)),
    }
    doctor::files::look(&options.path, &mut facts);
    facts.add("log_bytes", size(&log_of(&options.path)));
    Ok(facts)
}

/// A damaged file is a finding, not the end of the examination.
fn unless_damaged(answer: Result<String>) -> Result<String> {
    answer.or_else(|error| if error.kind() == ErrorKind::Corrupt { Ok(error.to_string()) } else { Err(error) })
}

fn log_of(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

//! Asks a SQLite file about itself, and examines its location.

use std::path::Path;

use rusqlite::Connection;

use crate::db::doctor::{Facts, Report};
use crate::db::sqlite::blocking::{blocking, now};
use crate::db::sqlite::dialect::SQLITE;
use crate::db::sqlite::doctor::{self, QUESTIONS};
use crate::db::sqlite::driver_rusqlite::SqliteConn;
use crate::db::sqlite::schema::schema_version;
use crate::db::sqlite::{Durability, SqliteOptions, connect};
use crate::store::sql::SqlVerbs;
use crate::support::error::{Error, ErrorKind, Result};

pub(super) async fn examine(options: SqliteOptions) -> Result<Report> {
    blocking(move || {
        let path = &options.path;
        if !path.is_file() {
            let message = format!("there is no database at {}", path.display());
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut facts = Facts::default();
        facts.add("version", rusqlite::version());
        facts.add("version_number", rusqlite::version_number());
        match connect::reader(path).and_then(|conn| ask(&options, &conn, &mut facts)) {
            // A damaged file is a finding, not the end of the examination.
            Err(error) if error.kind() == ErrorKind::Corrupt => facts.add("quick_check", error),
            asked => asked?,
        }
        doctor::look(path, &mut facts);
        facts.add("log_bytes", size(&connect::log_of(path)));
        Ok(doctor::report(path, &facts))
    })
    .await
}

fn ask(options: &SqliteOptions, conn: &Connection, facts: &mut Facts) -> Result<()> {
    facts.add("synchronous", if options.durability == Durability::Full { "FULL" } else { "NORMAL" });
    let verbs = SqlVerbs::new(&SQLITE, options.tables.clone(), None, SQLITE.fence);
    facts.add("schema.wanted", verbs.statements.schema_version);
    if let Some(version) = schema_version(conn, &verbs)? {
        facts.add("schema.found", version);
        if version == verbs.statements.schema_version {
            let session = &mut SqliteConn::new(conn);
            facts.add("places.wrong", now(verbs.count_misplaced(session))?);
            facts.add("times.ahead", now(verbs.count_ahead(session, options.clock.now()))?);
        }
    }
    if let Some(jump) = options.clock.jump() {
        facts.add("clock.jump", jump);
    }
    for (name, question) in QUESTIONS {
        let answer: String = conn.query_row(question, [], |row| row.get(0))?;
        facts.add(name, answer);
    }
    Ok(())
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

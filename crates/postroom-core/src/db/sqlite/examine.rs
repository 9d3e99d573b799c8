//! Asks a SQLite file about itself, and examines its location.

use std::path::Path;

use rusqlite::Connection;

use crate::db::doctor::{Facts, Report};
use crate::db::sqlite::blocking::{blocking, now};
use crate::db::sqlite::dialect::SQLITE;
use crate::db::sqlite::doctor::{self, MISPLACED, QUESTIONS};
use crate::db::sqlite::driver_rusqlite::SqliteConn;
use crate::db::sqlite::schema::schema_version;
use crate::db::sqlite::{Durability, SqliteOptions, connect};
use crate::queue::Queue;
use crate::sql::TableNames;
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
            facts.add("places.wrong", misplaced(conn, &options.tables)?);
            facts.add("times.ahead", now(verbs.count_ahead(&mut SqliteConn::new(conn), options.clock.now()))?);
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

/// Counts messages that do not stand in exactly one place, up to a thousand in each queue.
fn misplaced(conn: &Connection, tables: &TableNames) -> Result<i64> {
    [Queue::Outbox, Queue::Inbox].into_iter().try_fold(0, |wrong, queue| {
        let count = MISPLACED.replace("{t}", tables.of(queue));
        Ok(wrong + conn.query_row(&count, [], |row| row.get::<_, i64>(0))?)
    })
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

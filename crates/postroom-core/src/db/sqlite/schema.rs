//! The tables of a file.

use std::time::Duration;

use rusqlite::Connection;

use crate::db::sqlite::blocking::{blocking, now};
use crate::db::sqlite::dialect::SQLITE;
use crate::db::sqlite::driver_rusqlite::SqliteConn;
use crate::db::sqlite::place::Place;
use crate::db::sqlite::{Durability, SqliteOptions, connect, patience};
use crate::sql::Migration;
use crate::sql::steps::{Found, Way};
use crate::store::sql::SqlVerbs;
use crate::support::clock::monotonic;
use crate::support::crash::crash_here;
use crate::support::error::Result;

/// How long a program waits for another one that deploys, as on a server.
const TURN_WAIT: Duration = Duration::from_secs(60);

impl SqliteOptions {
    /// Returns what [`migrate`](Self::migrate) would do. Nothing is created or changed.
    pub async fn migration(self, to: Option<i64>) -> Result<Migration> {
        blocking(move || {
            let found =
                if self.path.exists() { schema_version(&connect::reader(&self.path)?, &self.verbs())? } else { None };
            Way::new(&SQLITE, &self.tables).told(found, to)
        })
        .await
    }

    /// Carries the tables to this version, or to the newest one, and creates them if there are none. No store is
    /// opened. Returns what was done.
    pub async fn migrate(self, to: Option<i64>) -> Result<Migration> {
        let ahead = self.clone().migration(to).await?;
        blocking(move || {
            if self.create_file {
                connect::create_private(&self.path)?;
            }
            let place = Place::new(connect::file_key(&self.path));
            migrate(&place, self.durability, &self.verbs(), to)
        })
        .await?;
        Ok(ahead)
    }

    fn verbs(&self) -> SqlVerbs {
        SqlVerbs::new(&SQLITE, self.tables.clone(), None, SQLITE.fence)
    }
}

/// Brings the tables to a version, step by step. Tables that are up to date are only read.
pub(super) fn migrate(place: &Place, durability: Durability, verbs: &SqlVerbs, to: Option<i64>) -> Result<()> {
    let way = Way::new(&SQLITE, &verbs.tables);
    loop {
        let found = schema_version(&place.look()?.conn, verbs)?;
        let Some(change) = way.plan(found, to)?.first() else { return Ok(()) };
        let conn = &place.writer(durability)?.conn;
        patience::until(monotonic() + TURN_WAIT, || conn.execute_batch(way.begin))?;
        // Another program may have done it while this one waited for its turn.
        if schema_version(conn, verbs)? == found {
            conn.execute_batch(&change.text)?;
            crash_here("in the middle of a migration");
        }
        conn.execute_batch(way.commit)?;
    }
}

/// The version of the tables; `None` if they do not exist.
pub(crate) fn schema_version(conn: &Connection, verbs: &SqlVerbs) -> Result<Option<Found>> {
    now(verbs.schema_version(&mut SqliteConn::new(conn)))
}

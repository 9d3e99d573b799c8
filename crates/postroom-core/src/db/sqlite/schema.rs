//! The tables of a file.

use rusqlite::Connection;

use crate::db::sqlite::blocking::now;
use crate::db::sqlite::driver_rusqlite::SqliteConn;
use crate::store::sql::SqlVerbs;
use crate::support::error::Result;

/// Creates what is missing. Tables of another version are not touched.
pub(super) fn deploy_schema(conn: &Connection, verbs: &SqlVerbs) -> Result<()> {
    if let found @ Some(_) = schema_version(conn, verbs)? {
        verbs.check_schema(found)?;
    }
    conn.execute_batch("BEGIN IMMEDIATE")?;
    conn.execute_batch(&verbs.statements.schema)?;
    conn.execute_batch("COMMIT")?;
    Ok(())
}

/// The version of the schema; `None` if the tables do not exist.
pub(crate) fn schema_version(conn: &Connection, verbs: &SqlVerbs) -> Result<Option<i64>> {
    now(verbs.schema_version(&mut SqliteConn::new(conn)))
}

//! The version of the tables.

use crate::queue::Queue;
use crate::sql::Session;
use crate::store::sql::SqlVerbs;
use crate::store::sql::rows::text;
use crate::support::error::{Error, ErrorKind, Result};

impl SqlVerbs {
    /// Returns the version of the schema, or `None` if there are no tables. Run this inside a transaction.
    pub(crate) async fn schema_version(&self, session: &mut impl Session) -> Result<Option<i64>> {
        let names = [Queue::Outbox, Queue::Inbox].map(|queue| text(Some(self.tables.of(queue))));
        let read = session.query(&self.statements.schema_read.with(names.to_vec()), |row| row.int(0)).await;
        match read {
            Err(error) if error.kind() == ErrorKind::Schema => Ok(None),
            read => Ok(read?.into_iter().flatten().next()),
        }
    }

    /// Checks that this program supports the version that was found.
    pub(crate) fn check_schema(&self, found: Option<i64>) -> Result<()> {
        let wanted = self.statements.schema_version;
        let what = match found {
            Some(version) if version == wanted => return Ok(()),
            Some(version) => {
                format!("the schema has version {version}, this program needs {wanted}; upgrade the older of the two")
            }
            None => {
                let (outbox, inbox) = (self.tables.of(Queue::Outbox), self.tables.of(Queue::Inbox));
                format!("the tables {outbox} and {inbox} are not there; deploy the schema (`postroom migrate`)")
            }
        };
        Err(Error::new(ErrorKind::Schema, what))
    }
}

//! The version of the tables.

use crate::queue::Queue;
use crate::sql::Session;
use crate::sql::steps::Found;
use crate::store::sql::SqlVerbs;
use crate::store::sql::rows::text;
use crate::support::error::{Error, ErrorKind, Result};

impl SqlVerbs {
    /// Returns the version of the tables, or `None` if there are none. Run this inside a transaction.
    pub(crate) async fn schema_version(&self, session: &mut impl Session) -> Result<Option<Found>> {
        let names = [Queue::Outbox, Queue::Inbox].map(|queue| text(Some(self.tables.of(queue))));
        let read = &self.statements.schema_read.with(names.to_vec());
        let read = session.query(read, |row| Ok(row.int(0)?.zip(row.int(1)?))).await;
        match read {
            Err(error) if error.kind() == ErrorKind::Schema => Ok(None),
            read => Ok(read?.into_iter().flatten().next().map(|(version, needs)| Found { version, needs })),
        }
    }

    /// Checks that this program works with the tables that were found.
    pub(crate) fn check_schema(&self, found: Option<Found>) -> Result<()> {
        if let Some(found) = found {
            return self.statements.known.check(found);
        }
        let (outbox, inbox) = (self.tables.of(Queue::Outbox), self.tables.of(Queue::Inbox));
        let what = format!("the tables {outbox} and {inbox} are not there; deploy the schema (`postroom migrate`)");
        Err(Error::new(ErrorKind::Schema, what))
    }
}

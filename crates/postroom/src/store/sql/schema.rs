//! Which version of the tables is there.

use crate::error::{ErrorKind, Result};
use crate::queue::Queue;
use crate::sql::Session;
use crate::store::sql::Verbs;
use crate::store::sql::rows::text;

impl Verbs {
    /// The version of the schema; none when the tables are not there. Run inside a transaction.
    pub(crate) async fn schema_version(&self, session: &mut impl Session) -> Result<Option<i64>> {
        let names = [Queue::Outbox, Queue::Inbox].map(|queue| text(Some(self.tables.of(queue))));
        let read = session.query(&self.statements.schema_read.with(names.to_vec()), |row| row.int(0)).await;
        match read {
            Err(error) if error.kind() == ErrorKind::Schema => Ok(None),
            read => Ok(read?.into_iter().flatten().next()),
        }
    }
}

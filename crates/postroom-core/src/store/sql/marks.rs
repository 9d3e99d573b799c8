//! The verbs of marks: one mark for each handler of a message that does not come through the inbox.

use super::rows::{int, row_count, text};
use super::{Session, SqlVerbs};
use crate::sql::{Expects, Value};
use crate::store::{HandledMark, Marked};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

impl SqlVerbs {
    /// Adds a mark, or waits for the transaction that is adding it. Returns `None` if it exists already.
    pub(crate) async fn put_mark(
        &self,
        session: &mut impl Session,
        mark: &HandledMark,
        topic: &str,
        now: Timestamp,
    ) -> Result<Option<Timestamp>> {
        let (now, mut values) = (self.late(now), id_values(mark));
        values.extend([text(Some(topic)), int(now.as_micros())]);
        let insert = self.statements.inbox_alone.mark_put.with(values).expecting(Expects::RowOrDuplicate);
        if !session.execute(&insert).await?.duplicate {
            return Ok(Some(now));
        }
        let is_ours = session.in_doubt() && self.is_marked_at(session, mark, now).await?;
        Ok(is_ours.then_some(now))
    }

    pub(crate) async fn remove_mark(
        &self,
        session: &mut impl Session,
        mark: &HandledMark,
        marked_at: Timestamp,
    ) -> Result<bool> {
        let mut values = id_values(mark);
        values.push(int(marked_at.as_micros()));
        let removed = session.execute(&self.statements.inbox_alone.mark_remove.with(values)).await?.rows > 0;
        Ok(removed || session.in_doubt())
    }

    pub(crate) async fn purge_marks(
        &self,
        session: &mut impl Session,
        handler: &str,
        before: Timestamp,
        limit: usize,
    ) -> Result<u64> {
        let values = vec![text(Some(handler)), int(self.early(before).as_micros()), int(row_count(limit))];
        Ok(session.execute(&self.statements.inbox_alone.marks_purge.with(values)).await?.rows)
    }

    /// Returns whether the mark exists that a transaction added at that time. It tries to add the mark again, so it
    /// waits while the server still works on that transaction.
    pub(crate) async fn is_marked(
        &self,
        session: &mut impl Session,
        mark: &HandledMark,
        marked_at: Timestamp,
        now: Timestamp,
    ) -> Result<bool> {
        if let Some(asked_at) = self.put_mark(session, mark, "", now).await? {
            self.remove_mark(session, mark, asked_at).await?;
            return Ok(false);
        }
        self.is_marked_at(session, mark, marked_at).await
    }

    async fn is_marked_at(&self, session: &mut impl Session, mark: &HandledMark, at: Timestamp) -> Result<bool> {
        Ok(self.find_mark(session, mark).await?.is_some_and(|found| found.at == at))
    }

    pub(crate) async fn find_mark(&self, session: &mut impl Session, mark: &HandledMark) -> Result<Option<Marked>> {
        let find = self.statements.inbox_alone.mark_find.with(id_values(mark));
        let found = session.query(&find, |row| Ok((row.int(0)?, row.text(1)?))).await?.into_iter().next();
        let Some((at, topic)) = found else { return Ok(None) };
        Ok(Some(Marked { topic: topic.unwrap_or_default(), at: Timestamp::from_micros(at.unwrap_or_default()) }))
    }
}

fn id_values(mark: &HandledMark) -> Vec<Value> {
    vec![text(Some(mark.key.source())), text(Some(mark.key.message_id())), text(Some(&mark.handler))]
}

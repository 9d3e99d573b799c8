//! Unique keys in the database. Whether a message has its key is decided there, when another one wants it.

use super::rows::{int, number, row_count, text, time, uuid};
use super::{Session, SqlVerbs};
use crate::message::{Clash, HasIt, NewMessage, WorkItemId};
use crate::queue::State;
use crate::sql::{Expects, Row, UniqueKey};
use crate::store::unique::{look_again, look_first, unsupported};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

impl SqlVerbs {
    pub(super) fn unique_key(&self, message: &NewMessage, now: Timestamp) -> Result<Option<Box<UniqueKey>>> {
        let Some(unique) = &message.unique else { return Ok(None) };
        let sql = self.statements.unique.as_ref().ok_or_else(unsupported)?;
        let (name, id) = (|| text(Some(&unique.key)), || uuid(Some(message.work_item_id().as_uuid())));
        let (until, replaces) = (unique.until(now), unique.clash == Clash::Replace);
        let take = sql.take.with(vec![
            name(),
            id(),
            time(until),
            int((unique.has_it == HasIt::UntilDone).into()),
            int(replaces.into()),
            int(now.as_micros()),
            int(look_first(until, now).as_micros()),
        ]);
        Ok(Some(Box::new(UniqueKey {
            take: take.expecting(Expects::RowOrDuplicate),
            holder: sql.holder.with(vec![name(), id()]),
            replaced: replaces.then(|| sql.replaced.with(vec![name(), id()])),
            refuses: unique.clash == Clash::Refuse,
        })))
    }

    /// Returns the message that has a key, or had it last.
    pub(crate) async fn last_holder(&self, session: &mut impl Session, key: &str) -> Result<Option<WorkItemId>> {
        let sql = self.statements.unique.as_ref().ok_or_else(unsupported)?;
        let found = session.query(&sql.last.with(vec![text(Some(key))]), |row| row.uuid(0)).await?;
        found.into_iter().flatten().next().map(WorkItemId::from_uuid).transpose()
    }

    /// Deletes up to `limit` rows of keys that no message has any more, and returns how many it looked at.
    pub(crate) async fn sweep_keys(&self, session: &mut impl Session, limit: usize, now: Timestamp) -> Result<u64> {
        let Some(sql) = &self.statements.unique else { return Ok(0) };
        let due = sql.due.with(vec![int(now.as_micros()), int(row_count(limit))]);
        let read = |row: &dyn Row| {
            let key = vec![text(row.str(0)?), uuid(row.uuid(1)?), int(number(row, 2)?)];
            let until = row.int(3)?.map(Timestamp::from_micros);
            let lives = matches!(row.int(4)?.and_then(State::from_code), Some(State::Ready | State::Leased));
            Ok((key, look_again(until, lives, now)))
        };
        let rows = session.query(&due, read).await?;
        let looked_at = rows.len() as u64;
        for (mut key, look_at) in rows {
            let sweep = match look_at {
                Some(at) => {
                    key.push(int(at.as_micros()));
                    sql.postpone.with(key)
                }
                None => sql.remove.with(key),
            };
            session.execute(&sweep).await?;
        }
        Ok(looked_at)
    }
}

//! Changes by operators, with their entries in the audit trail.

use super::rows::{int, row_count, text, uuid};
use super::{Session, SqlVerbs};
use crate::queue::{Queue, State};
use crate::sql::Row;
use crate::store::{Act, Audited, Deed, Operation};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

impl SqlVerbs {
    /// Applies the change and adds its entry, in the transaction of the session.
    pub(crate) async fn change(
        &self,
        session: &mut impl Session,
        queue: Queue,
        change: &Operation,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<u64> {
        let changed = match change {
            Operation::Dismiss(filter, operator) => self.dismiss(session, queue, filter, operator, now).await?,
            Operation::Revive(filter, revival) => {
                self.again(session, queue, filter.dead_letters(), filter, *revival, now).await?
            }
            Operation::Redrive(filter, revival) => {
                self.again(session, queue, &[State::Done], filter, *revival, now).await?
            }
            Operation::Expire(limit) => self.expire(session, queue, *limit, now).await?,
            Operation::Purge(retention, limit) => {
                self.purge(session, queue, State::Done, now.minus(*retention), *limit).await?
            }
            Operation::Pause(scope, operator) => self.pause(session, queue, scope, operator, now).await?,
            Operation::Resume(scope, _) => self.resume(session, queue, scope).await?,
            Operation::Limit(scope, limit, _) => self.limit(session, queue, scope, limit, now).await?,
        };
        if changed > 0 {
            let act = change.act();
            self.note(session, queue, (act, act.messages(changed)), deed, now).await?;
        }
        Ok(changed)
    }

    pub(super) async fn note(
        &self,
        session: &mut impl Session,
        queue: Queue,
        (act, changed): (Act, u64),
        deed: &Deed,
        now: Timestamp,
    ) -> Result<()> {
        let statements = self.statements.of(queue);
        let changed = i64::try_from(changed).unwrap_or(i64::MAX);
        let mut values = vec![uuid(Some(deed.id)), text(Some(act.as_str())), int(changed)];
        // A further step of the same act.
        if session.execute(&statements.audit_more.with(values.clone())).await?.rows == 0 {
            values.push(int(now.as_micros()));
            values.extend(deed.told().map(text));
            session.execute(&statements.audit_add.with(values)).await?;
        }
        Ok(())
    }

    pub(crate) async fn audit(&self, session: &mut impl Session, queue: Queue, limit: usize) -> Result<Vec<Audited>> {
        let list = self.statements.of(queue).audit_list.with(vec![int(row_count(limit))]);
        Ok(session.query(&list, read).await?.into_iter().flatten().collect())
    }
}

/// Returns `None` if a newer program wrote the entry.
fn read(row: &dyn Row) -> Result<Option<Audited>> {
    let at = Timestamp::from_micros(row.int(0)?.unwrap_or(0));
    let messages = row.int(2)?.and_then(|rows| u64::try_from(rows).ok()).unwrap_or(0);
    let told = [row.text(3)?, row.text(4)?, row.text(5)?];
    Ok(row.str(1)?.and_then(Act::read).map(|act| Audited::read(at, act, messages, told)))
}

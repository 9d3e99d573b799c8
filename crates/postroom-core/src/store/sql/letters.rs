//! Dead letters and old rows: dismisses, expires and deletes them without loading their content.

use super::rows::{int, row_count, text};
use super::{Session, SqlVerbs};
use crate::queue::{Queue, State};
use crate::sql::Statement;
use crate::sql::plans::Claim;
use crate::sql::purge::Reclaim;
use crate::store::{Filter, Operator};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

impl SqlVerbs {
    pub(crate) async fn dismiss(
        &self,
        session: &mut impl Session,
        queue: Queue,
        filter: &Filter,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<u64> {
        let mut count = 0;
        for ended in self.ended(session, queue, &[State::Dead, State::Expired], filter).await? {
            // Another operator may have requeued it in the meantime; then it stays in the queue.
            let found = (ended.failed.seq, ended.claim_no, ended.failed.state);
            count += session.execute(&self.dismissing(queue, found, operator, now)).await?.rows;
        }
        Ok(count)
    }

    /// Returns a statement that changes nothing if the row has changed since it was read.
    pub(super) fn dismissing(
        &self,
        queue: Queue,
        (seq, claim_no, state): (i64, i64, State),
        operator: &Operator,
        now: Timestamp,
    ) -> Statement {
        self.statements.of(queue).dismiss.with(vec![
            int(seq),
            int(claim_no),
            int(state.code()),
            int(now.as_micros()),
            text(Some(operator.who())),
            text(operator.why()),
        ])
    }

    pub(crate) async fn expire_dead(
        &self,
        session: &mut impl Session,
        queue: Queue,
        limit: usize,
        now: Timestamp,
    ) -> Result<u64> {
        let values = vec![int(self.early(now).as_micros()), int(row_count(limit))];
        Ok(session.execute(&self.statements.of(queue).expire_dead.with(values)).await?.rows)
    }

    pub(crate) async fn purge(
        &self,
        session: &mut impl Session,
        queue: Queue,
        state: State,
        before: Timestamp,
        limit: usize,
    ) -> Result<u64> {
        let Some(purge) = self.statements.of(queue).purges.of(state) else { return Ok(0) };
        let values = vec![int(self.early(before).as_micros()), int(row_count(limit))];
        if let Claim::Front { front, .. } = &self.statements.of(queue).claim {
            // What nobody claims, because it was never ready, must not stay behind the front.
            session.execute(&front.catch_up.with(Vec::new())).await?;
        }
        let purged = session.execute(&purge.rows.with(values)).await?.rows;
        if let Some(Reclaim { is_due, step }) = &purge.reclaim {
            let is_due = session.query(&is_due.with(Vec::new()), |row| row.int(0)).await?;
            if is_due.contains(&Some(1)) {
                // It answers with one row for each page.
                session.query(&step.with(Vec::new()), |_| Ok(())).await?;
            }
        }
        Ok(purged)
    }

    /// Drops the payloads of a few more messages of the inbox that were done before that time. Returns how many, or
    /// `None` if there are no such messages. Small payloads stay, and so does what was done while the clock was wrong.
    pub(crate) async fn drop_payloads(
        &self,
        session: &mut impl Session,
        (now, before): (Timestamp, Timestamp),
        limit: usize,
    ) -> Result<Option<u64>> {
        let mut tables = [Queue::Outbox, Queue::Inbox].map(|queue| text(Some(self.tables.of(queue)))).to_vec();
        let from = self.statements.payloads_from.with(tables.clone());
        let from = session.query(&from, |row| row.int(0)).await?.into_iter().flatten().next().unwrap_or(0);
        let sql = &self.statements.inbox_alone;
        let next = vec![int(from), int(self.early(before).as_micros()), int(row_count(limit))];
        let until = session.query(&sql.payloads_until.with(next), |row| row.int(0)).await?;
        let Some(until) = until.into_iter().flatten().next() else { return Ok(None) };
        let dropped = sql.payloads_drop.with(vec![int(from), int(until), int(now.as_micros())]);
        let dropped = session.execute(&dropped).await?.rows;
        tables.push(int(until));
        session.execute(&self.statements.payloads_dropped.with(tables)).await?;
        Ok(Some(dropped))
    }
}

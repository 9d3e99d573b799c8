//! Dead letters and old rows: dismissed, expired, deleted. None of it loads what the rows hold.

use super::rows::{int, row_count, text};
use super::{Session, Verbs};
use crate::queue::{Queue, State};
use crate::store::{Filter, Operator};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

impl Verbs {
    pub(crate) async fn dismiss(
        &self,
        session: &mut impl Session,
        queue: Queue,
        filter: &Filter,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<u64> {
        let sql = &self.statements.of(queue).dismiss;
        let mut count = 0;
        for ended in self.ended(session, queue, &[State::Dead, State::Expired], filter).await? {
            // Another operator may have put it back in line in the meantime: then it stays there.
            let dismiss = sql.with(vec![
                int(ended.failed.seq),
                int(ended.claim_no),
                int(ended.failed.state.code()),
                int(now.as_micros()),
                text(Some(operator.who())),
                text(operator.why()),
            ]);
            count += session.execute(&dismiss).await?.rows;
        }
        Ok(count)
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
        let Some(purge) = self.statements.purges(queue).of(state) else { return Ok(0) };
        let values = vec![int(self.early(before).as_micros()), int(row_count(limit))];
        if let Some(failures) = &purge.failures {
            session.execute(&failures.with(values.clone())).await?;
        }
        Ok(session.execute(&purge.rows.with(values)).await?.rows)
    }
}

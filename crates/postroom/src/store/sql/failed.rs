//! What was given up, without what it holds; and what would be expired or deleted.

use std::collections::HashMap;

use super::rows::{count, int, moment, number, opt, read_origin, row_count, text, time};
use super::{Session, Verbs};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::queue::{Queue, State};
use crate::sql::Row;
use crate::sql::text::Text;
use crate::store::{Failed, FailedGroup, Filter};

/// The columns of a message that was given up, in the order every dialect selects them.
mod column {
    pub(super) const SEQ: usize = 0;
    pub(super) const ATTEMPTS: usize = 1;
    pub(super) const PROCESSED_AT: usize = 2;
    pub(super) const EXPIRES_AT: usize = 3;
    pub(super) const ERROR: usize = 4;
    pub(super) const TOPIC: usize = 5;
    pub(super) const IDENTITY: usize = 6;
}

/// The states in which a queue gives messages up. What arrived does not expire.
pub(crate) fn ends(queue: Queue) -> &'static [State] {
    match queue {
        Queue::Outbox => &[State::Dead, State::Expired],
        Queue::Inbox => &[State::Dead],
    }
}

impl Verbs {
    pub(crate) async fn failed_groups(
        &self,
        session: &mut impl Session,
        queue: Queue,
        rows: usize,
    ) -> Result<Vec<FailedGroup>> {
        let statements = self.statements.of(queue);
        let mut groups = Vec::new();
        for &state in ends(queue) {
            let sql = if state == State::Dead { &statements.groups_dead } else { &statements.groups_expired };
            let select = sql.with(vec![int(state.code()), int(row_count(rows))]);
            groups.extend(merged(session.query(&select, |row| read_group(row, state)).await?));
        }
        Ok(groups)
    }

    pub(crate) async fn failed(
        &self,
        session: &mut impl Session,
        queue: Queue,
        filter: &Filter,
    ) -> Result<Vec<Failed>> {
        let statements = self.statements.of(queue);
        let mut failed = Vec::new();
        for &state in ends(queue).iter().filter(|&&state| filter.state.is_none_or(|wanted| wanted == state)) {
            let sql = if state == State::Dead { &statements.brief_dead } else { &statements.brief_expired };
            let values = vec![
                int(state.code()),
                text(filter.topic.as_deref()),
                text(filter.party.as_deref()),
                time(filter.finished_since),
                opt(filter.after),
                int(row_count(filter.limit)),
            ];
            failed.extend(session.query(&sql.with(values), |row| read_failed(row, queue, state)).await?);
        }
        failed.sort_by_key(|failed| failed.seq);
        failed.truncate(filter.limit);
        failed.retain(|failed| filter.accepts_row(failed.seq));
        Ok(failed)
    }

    pub(crate) async fn overdue(&self, session: &mut impl Session, limit: usize, now: Timestamp) -> Result<u64> {
        self.counted(session, &self.statements.outbox.count_overdue, now, limit).await
    }

    pub(crate) async fn purgeable(
        &self,
        session: &mut impl Session,
        queue: Queue,
        before: Timestamp,
        limit: usize,
    ) -> Result<u64> {
        self.counted(session, &self.statements.of(queue).count_purgeable, before, limit).await
    }

    async fn counted(&self, session: &mut impl Session, sql: &Text, at: Timestamp, limit: usize) -> Result<u64> {
        let select = sql.with(vec![int(at.as_micros()), int(row_count(limit))]);
        let rows = session.query(&select, |row| row.int(0)).await?.into_iter().flatten().next();
        Ok(rows.and_then(|rows| u64::try_from(rows).ok()).unwrap_or(0))
    }
}

/// What the database did not count together.
fn merged(counted: Vec<FailedGroup>) -> impl Iterator<Item = FailedGroup> {
    let mut groups: HashMap<_, FailedGroup> = HashMap::with_capacity(counted.len());
    for FailedGroup { topic, party, error, state, messages, first_at, last_at } in counted {
        let group = groups.entry((topic, party, error)).or_insert_with_key(|(topic, party, error)| {
            let (topic, party, error) = (topic.clone(), party.clone(), error.clone());
            FailedGroup { topic, party, error, state, messages: 0, first_at, last_at }
        });
        group.messages += messages;
        (group.first_at, group.last_at) = (group.first_at.min(first_at), group.last_at.max(last_at));
    }
    groups.into_values()
}

fn read_group(row: &dyn Row, state: State) -> Result<FailedGroup> {
    Ok(FailedGroup {
        topic: row.text(0)?.unwrap_or_default(),
        party: row.text(1)?,
        error: row.text(2)?,
        state,
        messages: u64::try_from(number(row, 3)?).unwrap_or(0),
        first_at: moment(row, 4)?,
        last_at: moment(row, 5)?,
    })
}

/// A row that nobody can read as a message is listed all the same.
fn read_failed(row: &dyn Row, queue: Queue, state: State) -> Result<Failed> {
    Ok(Failed {
        seq: number(row, column::SEQ)?,
        origin: read_origin(row, queue, column::IDENTITY).ok(),
        topic: row.text(column::TOPIC)?.unwrap_or_default(),
        state,
        attempts: count(row, column::ATTEMPTS).ok().flatten().unwrap_or(0),
        error: row.text(column::ERROR)?,
        at: moment(row, column::PROCESSED_AT)?,
        expires_at: moment(row, column::EXPIRES_AT)?,
    })
}

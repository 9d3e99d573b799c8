//! Dead letters without their content, and the counts of rows that would be expired or deleted.

use std::collections::HashMap;

use super::rows::{count, filter_values, int, moment, number, read_dismissal, read_origin, row_count};
use super::{Session, SqlVerbs};
use crate::queue::{Queue, State, Work};
use crate::sql::Row;
use crate::sql::columns::brief;
use crate::sql::text::SqlTemplate;
use crate::store::{Failed, FailedGroup, Filter};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

/// The states of dead letters.
const ENDS: [State; 2] = [State::Dead, State::Expired];

impl SqlVerbs {
    pub(crate) async fn failed_groups(
        &self,
        session: &mut impl Session,
        queue: Queue,
        rows: usize,
    ) -> Result<Vec<FailedGroup>> {
        let statements = self.statements.of(queue);
        // Both states start at the same row.
        let mut first = i64::MIN;
        for state in ENDS {
            let Some(sql) = statements.in_state(state) else { continue };
            let select = sql.nth_newest.with(vec![int(row_count(rows).saturating_sub(1))]);
            first = session.query(&select, |row| number(row, 0)).await?.into_iter().fold(first, i64::max);
        }
        let mut groups = Vec::new();
        for state in ENDS {
            let Some(sql) = statements.in_state(state) else { continue };
            let select = sql.groups.with(vec![int(first)]);
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
        let ended = self.ended(session, queue, filter.dead_letters(), filter).await?;
        Ok(ended.into_iter().map(|ended| ended.failed).collect())
    }

    /// Returns rows that ended in one of `states`, in the order of their numbers, without their content.
    pub(super) async fn ended(
        &self,
        session: &mut impl Session,
        queue: Queue,
        states: &[State],
        filter: &Filter,
    ) -> Result<Vec<Ended>> {
        let statements = self.statements.of(queue);
        let mut ended = Vec::new();
        if let Some(numbers) = filter.numbers() {
            let read = |row: &dyn Row| read_ended(row, queue);
            ended = self.by_number(session, &statements.brief_rows, &numbers, read).await?;
            ended.retain(|row| states.contains(&row.failed.state) && filter.accepts_ended(&row.failed));
        } else {
            for &state in states.iter().filter(|&&state| filter.state.is_none_or(|wanted| wanted == state)) {
                let Some(sql) = statements.in_state(state) else { continue };
                let select = sql.brief.with(filter_values(filter));
                ended.extend(session.query(&select, |row| read_ended(row, queue)).await?);
            }
        }
        ended.sort_by_key(|row| row.failed.seq);
        ended.truncate(filter.limit);
        Ok(ended)
    }

    pub(crate) async fn overdue(
        &self,
        session: &mut impl Session,
        queue: Queue,
        limit: usize,
        now: Timestamp,
    ) -> Result<u64> {
        self.counted(session, &self.statements.of(queue).count_overdue, self.early(now), limit).await
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

    async fn counted(&self, session: &mut impl Session, sql: &SqlTemplate, at: Timestamp, limit: usize) -> Result<u64> {
        let select = sql.with(vec![int(at.as_micros()), int(row_count(limit))]);
        let rows = session.query(&select, |row| row.int(0)).await?.into_iter().flatten().next();
        Ok(rows.and_then(|rows| u64::try_from(rows).ok()).unwrap_or(0))
    }
}

/// Merges groups that the database counted separately.
fn merged(counted: Vec<FailedGroup>) -> impl Iterator<Item = FailedGroup> {
    let mut groups: HashMap<_, FailedGroup> = HashMap::with_capacity(counted.len());
    for FailedGroup { topic, party, error, state, messages, first_at, last_at, first_row } in counted {
        let group = groups.entry((topic, party, error)).or_insert_with_key(|(topic, party, error)| {
            let (topic, party, error) = (topic.clone(), party.clone(), error.clone());
            FailedGroup { topic, party, error, state, messages: 0, first_at, last_at, first_row }
        });
        group.messages += messages;
        (group.first_at, group.last_at) = (group.first_at.min(first_at), group.last_at.max(last_at));
        group.first_row = group.first_row.min(first_row);
    }
    groups.into_values()
}

/// Unreadable values count as missing, so that they do not hide the others.
fn read_group(row: &dyn Row, state: State) -> Result<FailedGroup> {
    Ok(FailedGroup {
        topic: row.text(0).ok().flatten().unwrap_or_default(),
        party: row.text(1).unwrap_or(None),
        error: row.text(2).unwrap_or(None),
        state,
        messages: u64::try_from(number(row, 3)?).unwrap_or(0),
        first_at: moment(row, 4).unwrap_or(None),
        last_at: moment(row, 5).unwrap_or(None),
        first_row: number(row, 6)?,
    })
}

/// A finished row, and what is needed to put it back in the queue.
pub(super) struct Ended {
    pub(super) failed: Failed,
    pub(super) claim_no: i64,
    pub(super) work: Work,
}

/// Reads a finished row. A row that is unreadable as a message is listed too. A row with an unknown state has not
/// ended: it counts as ready, which no list of finished rows contains.
fn read_ended(row: &dyn Row, queue: Queue) -> Result<Ended> {
    let state = row.int(brief::STATE).ok().flatten().and_then(State::from_code).unwrap_or(State::Ready);
    let expires_at = moment(row, brief::EXPIRES_AT).unwrap_or(None);
    let created_at = Timestamp::from_micros(number(row, brief::CREATED_AT).unwrap_or(0));
    let due_at = moment(row, brief::DUE_AT).unwrap_or(None);
    let failed = Failed {
        seq: number(row, brief::SEQ)?,
        origin: read_origin(row, queue, brief::NEXT + 2).ok(),
        topic: row.text(brief::TOPIC).ok().flatten().unwrap_or_default(),
        state,
        attempts: count(row, brief::ATTEMPTS).ok().flatten().unwrap_or(0),
        error: row.text(brief::NEXT).unwrap_or(None),
        at: moment(row, brief::PROCESSED_AT).unwrap_or(None),
        expires_at,
        dismissal: read_dismissal(row, brief::DISMISSED_BY, brief::DISMISSED_WHY).filter(|_| state == State::Dismissed),
        party: row.text(brief::NEXT + 1).unwrap_or(None),
    };
    let mut work = Work::new(state, created_at);
    (work.due_at, work.expires_at) = (due_at, expires_at);
    Ok(Ended { failed, claim_no: number(row, brief::CLAIM_NO).unwrap_or(0), work })
}

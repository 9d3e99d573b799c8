//! The queries of operators.

use super::rows::{count, int, moment, number, row_count, text};
use super::{Session, SqlVerbs};
use crate::message::InboxKey;
use crate::queue::{Cause, Queue, State};
use crate::sql::Row;
use crate::sql::text::SqlTemplate;
use crate::store::questions::{
    Activity, Flow, LastFailure, Newest, Occurrence, OccurrencesAfter, Passed, Place, Tally,
};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

/// The columns of an occurrence, in the order every dialect selects them.
mod column {
    pub(super) const NUMBER: usize = 0;
    pub(super) const IDENTITY: usize = 1;
    pub(super) const TOPIC: usize = 5;
    pub(super) const PARTY: usize = 6;
    pub(super) const AT: usize = 7;
    pub(super) const ERROR: usize = 8;
    pub(super) const ATTEMPTS: usize = 9;
    pub(super) const PAYLOAD_BYTES: usize = 10;
    pub(super) const PAYLOAD: usize = 11;
}

impl SqlVerbs {
    pub(crate) async fn keys_of(&self, session: &mut impl Session, id: &str) -> Result<Vec<InboxKey>> {
        let select = self.statements.inbox.questions.keys.with(vec![text(Some(id))]);
        let read = |row: &dyn Row| InboxKey::new(row.text(0)?.unwrap_or_default(), row.text(1)?.unwrap_or_default());
        session.query(&select, read).await
    }

    pub(crate) async fn newest(&self, session: &mut impl Session, queue: Queue) -> Result<Newest> {
        let select = self.statements.of(queue).questions.newest.with(Vec::new());
        let read = |row: &dyn Row| {
            Ok(Newest {
                row: row.int(0)?,
                created_at: moment(row, 1)?,
                failure: row.int(2)?,
                done_at: moment(row, 3)?,
                dead_at: moment(row, 4)?,
                expired_at: moment(row, 5)?,
                dismissed_at: moment(row, 6)?,
            })
        };
        Ok(session.query(&select, read).await?.pop().unwrap_or_default())
    }

    pub(crate) async fn activity(&self, session: &mut impl Session, queue: Queue, now: Timestamp) -> Result<Activity> {
        let select = self.statements.of(queue).questions.activity.with(vec![
            int(now.as_micros()),
            int(row_count(Activity::HELD_MAX)),
            text(Some(self.tables.of(Queue::Outbox))),
            text(Some(self.tables.of(Queue::Inbox))),
        ]);
        let read = |row: &dyn Row| {
            Ok(Activity {
                held: counted(row, 0)?,
                claimed_at: moment(row, 1)?,
                done_at: moment(row, 2)?,
                failed_at: moment(row, 3)?,
                // Zero means never.
                maintained_at: moment(row, 4)?.filter(|at| at.as_micros() > 0),
            })
        };
        Ok(session.query(&select, read).await?.pop().unwrap_or_default())
    }

    pub(crate) async fn ahead_of(
        &self,
        session: &mut impl Session,
        queue: Queue,
        (visible_at, seq): (Timestamp, i64),
        limit: usize,
    ) -> Result<u64> {
        let values = vec![int(visible_at.as_micros()), int(seq), int(row_count(limit))];
        let select = self.statements.of(queue).questions.ahead.with(values);
        Ok(session.query(&select, |row| counted(row, 0)).await?.pop().unwrap_or(0))
    }

    pub(crate) async fn flow(
        &self,
        session: &mut impl Session,
        queue: Queue,
        (from, until): (Timestamp, Timestamp),
        rows: usize,
    ) -> Result<Flow> {
        let statements = &self.statements.of(queue).questions;
        let values = vec![int(from.as_micros()), int(until.as_micros()), int(row_count(rows))];
        let read = |row: &dyn Row| Ok(Passed { messages: counted(row, 0)?, first_at: moment(row, 1)? });
        let arrived = session.query(&statements.arrived_rate.with(values.clone()), read).await?.pop();
        let done = session.query(&statements.done_rate.with(values), read).await?.pop();
        Ok(Flow { arrived: arrived.unwrap_or_default(), done: done.unwrap_or_default() })
    }

    pub(crate) async fn tally(
        &self,
        session: &mut impl Session,
        queue: Queue,
        state: State,
        rows: usize,
    ) -> Result<Vec<Tally>> {
        let statements = &self.statements.of(queue).questions;
        let sql = match state {
            State::Ready => &statements.tally_ready,
            State::Dead => &statements.tally_dead,
            _ => return Ok(Vec::new()),
        };
        // An unreadable name counts as missing, so that it does not hide the others.
        let read = |row: &dyn Row| {
            Ok(Tally {
                topic: row.text(0).unwrap_or(None),
                party: row.text(1).unwrap_or(None),
                messages: counted(row, 2)?,
            })
        };
        session.query(&sql.with(vec![int(row_count(rows))]), read).await
    }

    pub(crate) async fn last_failures(
        &self,
        session: &mut impl Session,
        queue: Queue,
        limit: usize,
    ) -> Result<Vec<LastFailure>> {
        let select = self.statements.of(queue).questions.last_failures.with(vec![int(row_count(limit))]);
        let read = |row: &dyn Row| {
            Ok(LastFailure {
                at: Timestamp::from_micros(number(row, 0)?),
                topic: row.text(1).unwrap_or(None),
                attempt: count(row, 2)?.unwrap_or(0),
                error: row.text(3).unwrap_or(None),
                cause: row.str(4)?.and_then(Cause::of_code),
            })
        };
        session.query(&select, read).await
    }

    pub(crate) async fn occurrences(
        &self,
        session: &mut impl Session,
        queue: Queue,
        request: &OccurrencesAfter,
    ) -> Result<Vec<Occurrence>> {
        let (statements, full) = (&self.statements.of(queue).questions, request.with_payload);
        let read = |row: &dyn Row| read_occurrence(row, queue, full);
        let limit = int(row_count(request.limit));
        let behind = |sql: &SqlTemplate, number: i64| sql.with(vec![int(number), limit.clone()]);
        match &request.place {
            Place::Row { number, skipped } => {
                let mut found = self.skipped(session, statements.arrived_rows.of(full), skipped, read).await?;
                found.extend(session.query(&behind(statements.arrived.of(full), *number), read).await?);
                Ok(found)
            }
            Place::Failure { number, skipped } => {
                let mut found = self.skipped(session, statements.failed_rows.of(full), skipped, read).await?;
                found.extend(session.query(&behind(statements.failed.of(full), *number), read).await?);
                Ok(found)
            }
            Place::Finished { state, at, row } => {
                let Some(shown) = statements.finished(*state) else { return Ok(Vec::new()) };
                let select = shown.of(full).with(vec![int(at.as_micros()), int(*row), limit]);
                session.query(&select, read).await
            }
        }
    }

    /// Returns the skipped rows that exist by now, in the order of their numbers.
    async fn skipped(
        &self,
        session: &mut impl Session,
        sql: &SqlTemplate,
        numbers: &[i64],
        read: impl FnMut(&dyn Row) -> Result<Occurrence> + Send,
    ) -> Result<Vec<Occurrence>> {
        let mut found = self.by_number(session, sql, numbers, read).await?;
        found.sort_unstable_by_key(|occurrence| occurrence.number);
        // A statement with a fixed number of values may get one of them twice.
        found.dedup_by_key(|occurrence| occurrence.number);
        Ok(found)
    }

    pub(crate) async fn count_delivered(
        &self,
        session: &mut impl Session,
        destination: &str,
        since: Timestamp,
    ) -> Result<u64> {
        let values = vec![int(since.as_micros()), text(Some(destination))];
        let select = self.statements.outbox.questions.count_delivered.with(values);
        Ok(session.query(&select, |row| counted(row, 0)).await?.pop().unwrap_or(0))
    }

    pub(crate) async fn delivered_up_to(
        &self,
        session: &mut impl Session,
        (destination, since): (&str, Timestamp),
        after: i64,
        limit: usize,
    ) -> Result<Option<i64>> {
        let values = vec![int(since.as_micros()), text(Some(destination)), int(after), int(row_count(limit))];
        let select = self.statements.outbox.questions.delivered_up_to.with(values);
        Ok(session.query(&select, |row| row.int(0)).await?.into_iter().flatten().next())
    }
}

pub(super) fn counted(row: &dyn Row, column: usize) -> Result<u64> {
    Ok(row.int(column)?.and_then(|rows| u64::try_from(rows).ok()).unwrap_or(0))
}

/// Reads the id in a message's identity, which begins at that column. An unreadable one is empty.
pub(super) fn read_id(row: &dyn Row, queue: Queue, first: usize) -> String {
    let id = match queue {
        Queue::Outbox => {
            row.uuid(first + 1).and_then(|id| Ok(id.or(row.uuid(first)?))).map(|id| id.map(|id| id.to_string()))
        }
        Queue::Inbox => row.text(first + 1),
    };
    id.ok().flatten().unwrap_or_default()
}

/// Unreadable values count as missing, so that they do not hide the others.
fn read_occurrence(row: &dyn Row, queue: Queue, with_payload: bool) -> Result<Occurrence> {
    Ok(Occurrence {
        number: number(row, column::NUMBER)?,
        id: read_id(row, queue, column::IDENTITY),
        topic: row.text(column::TOPIC).ok().flatten().unwrap_or_default(),
        party: row.text(column::PARTY).unwrap_or(None),
        at: Timestamp::from_micros(number(row, column::AT)?),
        error: row.text(column::ERROR).unwrap_or(None),
        attempts: count(row, column::ATTEMPTS).ok().flatten().unwrap_or(0),
        payload_bytes: counted(row, column::PAYLOAD_BYTES)?,
        payload: if with_payload { row.text(column::PAYLOAD).unwrap_or(None) } else { None },
    })
}

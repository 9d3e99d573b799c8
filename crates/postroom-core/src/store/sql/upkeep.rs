//! Maintenance of the tables, and queries of operators.

use std::time::Duration;

use super::failed::Ended;
use super::inbox::key_values;
use super::rows::{self, filter_values, int, read_failure, read_record, row_count, text, time};
use super::{Change, Record, Session, SqlVerbs, uuid};
use crate::queue::{AHEAD, Queue, Reaped, State};
use crate::sql::Row;
use crate::sql::plans::Claim;
use crate::store::{Failure, Filter, Identity, QueueStats, Revival};
use crate::support::clock::Timestamp;
use crate::support::error::Result;

impl SqlVerbs {
    pub(crate) async fn reap(
        &self,
        session: &mut impl Session,
        queue: Queue,
        limit: usize,
        now: Timestamp,
    ) -> Result<Reaped> {
        let now = self.early(now);
        let values = vec![int(now.as_micros()), int(row_count(limit))];
        let over = self.statements.of(queue).load_over.with(values);
        let (mut reaped, mut changes) = (Reaped::default(), Vec::new());
        let mut over = self.load(session, queue, &over).await?;
        over.retain(|record| !self.holding(queue).has(record.seq));
        let stops = self.stops_of(session, queue, &over.iter().map(|record| record.seq).collect::<Vec<_>>()).await?;
        for mut record in over {
            let (lease, was) = (record.lease(), record.state());
            let failure = match session.outage_at() {
                Some(outage) if record.work.last_attempt_at <= Some(outage) => record.work.lease_over_in_outage(now),
                _ => record.work.lease_over(now),
            };
            if stops.contains_key(&(record.seq, record.work.claim_no)) {
                record.work.wait_again();
            }
            reaped.count(record.state());
            let failure = lease.map(|lease| (Some(lease.owner), failure));
            changes.push(Change { was, claim_no: record.work.claim_no, failure, record });
        }
        self.write_back(session, queue, &changes, now).await?;
        self.dismiss_stopped(session, queue, (&changes, &stops), now).await?;
        Ok(reaped)
    }

    pub(crate) async fn expire(
        &self,
        session: &mut impl Session,
        queue: Queue,
        limit: usize,
        now: Timestamp,
    ) -> Result<u64> {
        let now = self.early(now);
        let values = vec![int(now.as_micros()), int(row_count(limit))];
        let select = self.statements.of(queue).load_expired.with(values);
        let mut changes = Vec::new();
        for mut record in self.load(session, queue, &select).await? {
            let was = record.state();
            record.work.expire(now);
            changes.push(Change { was, claim_no: record.work.claim_no, failure: None, record });
        }
        self.write_back(session, queue, &changes, now).await?;
        if let (true, Claim::Front { front, .. }) = (changes.len() < limit, &self.statements.of(queue).claim) {
            session.execute(&front.expired.with(vec![int(now.as_micros())])).await?;
        }
        Ok(changes.len() as u64)
    }

    /// Puts rows that ended in one of `states` back in the queue.
    pub(crate) async fn again(
        &self,
        session: &mut impl Session,
        queue: Queue,
        states: &[State],
        filter: &Filter,
        revival: Revival,
        now: Timestamp,
    ) -> Result<u64> {
        let sql = &self.statements.of(queue).put_back;
        let mut count = 0;
        for Ended { failed, claim_no, mut work } in self.ended(session, queue, states, filter).await? {
            if revival.put_back(&mut work, count, now) {
                self.scan_start(queue).lower(work.visible_at());
                // Another operator may have been faster; then the row is in the queue already and keeps its place.
                let put_back = rows::put_back(sql, failed.seq, claim_no, failed.state, &work);
                count += session.execute(&put_back).await?.rows;
            }
        }
        Ok(count)
    }

    pub(crate) async fn find(&self, session: &mut impl Session, id: &Identity) -> Result<Vec<Record>> {
        match id {
            Identity::Inbox(key) => {
                let select = self.statements.inbox.find_key.with(key_values(key));
                self.load(session, Queue::Inbox, &select).await
            }
            Identity::Outbox(id) => {
                let select = self.statements.outbox_by_message.with(vec![uuid(Some(*id))]);
                self.load(session, Queue::Outbox, &select).await
            }
        }
    }

    pub(crate) async fn list(&self, session: &mut impl Session, queue: Queue, filter: &Filter) -> Result<Vec<Record>> {
        let statements = self.statements.of(queue);
        if let Some(numbers) = filter.numbers() {
            return self.list_rows(session, queue, filter, &numbers).await;
        }
        let in_state = match filter.state {
            Some(State::Done) if filter.finished_since.is_none() => None,
            Some(state) if State::FINISHED.contains(&state) => statements.in_state(state),
            _ => None,
        };
        let sql = in_state.map_or(&statements.list, |sql| &sql.list);
        self.load(session, queue, &sql.with(filter_values(filter))).await
    }

    /// Reads no more rows at a time than are still needed, because each comes with its content.
    async fn list_rows(
        &self,
        session: &mut impl Session,
        queue: Queue,
        filter: &Filter,
        mut numbers: &[i64],
    ) -> Result<Vec<Record>> {
        let (sql, mut records) = (&self.statements.of(queue).list_rows, Vec::new());
        while !numbers.is_empty() && records.len() < filter.limit {
            let (next, rest) = numbers.split_at(numbers.len().min(filter.limit - records.len()));
            let mut found = self.by_number(session, sql, next, |row| read_record(row, queue)).await?;
            found.retain(|record| filter.accepts(record));
            found.sort_by_key(|record| record.seq);
            records.extend(found);
            numbers = rest;
        }
        Ok(records)
    }

    pub(crate) async fn failures(&self, session: &mut impl Session, queue: Queue, seq: i64) -> Result<Vec<Failure>> {
        let select = self.statements.of(queue).failure_list.with(vec![int(seq)]);
        session.query(&select, read_failure).await
    }

    pub(crate) async fn stats(&self, session: &mut impl Session, queue: Queue, now: Timestamp) -> Result<QueueStats> {
        let statements = self.statements.of(queue);
        let mut stats = QueueStats::default();
        let mut counted = session.query(&statements.count.with(Vec::new()), two_numbers).await?;
        if queue == Queue::Inbox {
            let outside = self.statements.inbox_alone.count.with(Vec::new());
            counted.extend(session.query(&outside, two_numbers).await?);
        }
        for (state, rows) in counted {
            if let Some(state) = state.and_then(State::from_code) {
                stats.add(state, rows.and_then(|rows| u64::try_from(rows).ok()).unwrap_or(0));
            }
        }
        let oldest = statements.oldest.with(Vec::new());
        if let Some((created, visible)) = session.query(&oldest, two_numbers).await?.pop() {
            stats.oldest_waiting = created.map(|created| now.since(Timestamp::from_micros(created)));
            stats.overdue = visible.map(Timestamp::from_micros).filter(|due| *due <= now).map(|due| now.since(due));
        }
        Ok(stats)
    }

    pub(crate) async fn backlog(&self, session: &mut impl Session, queue: Queue) -> Result<u64> {
        let count = self.statements.of(queue).count_waiting.with(Vec::new());
        let rows = session.query(&count, |row| row.int(0)).await?.into_iter().flatten().next();
        Ok(rows.and_then(|rows| u64::try_from(rows).ok()).unwrap_or(0))
    }

    pub(crate) async fn inbox_size(&self, session: &mut impl Session) -> Result<u64> {
        let size = self.statements.inbox_alone.size.with(Vec::new());
        let rows = session.query(&size, |row| row.int(0)).await?.into_iter().flatten().next();
        Ok(rows.and_then(|rows| u64::try_from(rows).ok()).unwrap_or(0))
    }

    /// Counts messages that do not stand in exactly one place, up to a thousand in each queue.
    pub(crate) async fn count_misplaced(&self, session: &mut impl Session) -> Result<i64> {
        let mut wrong = 0;
        for queue in [Queue::Outbox, Queue::Inbox] {
            let count = self.statements.of(queue).misplaced.with(Vec::new());
            wrong += session.query(&count, |row| row.int(0)).await?.into_iter().flatten().sum::<i64>();
        }
        Ok(wrong)
    }

    pub(crate) async fn take_maintenance(
        &self,
        session: &mut impl Session,
        interval: Duration,
        now: Timestamp,
    ) -> Result<bool> {
        let values = vec![
            text(Some(self.tables.of(Queue::Outbox))),
            text(Some(self.tables.of(Queue::Inbox))),
            int(now.as_micros()),
            time(Some(now.minus(interval))),
            time(Some(now.plus(AHEAD))),
        ];
        Ok(session.execute(&self.statements.maintenance_take.with(values)).await?.rows > 0)
    }
}

/// Reads two numbers.
fn two_numbers(row: &dyn Row) -> Result<(Option<i64>, Option<i64>)> {
    Ok((row.int(0)?, row.int(1)?))
}

//! Rows that were read to be changed: found and written back together, so that a settle of many takes as few trips as
//! one of a few. What becomes of each is decided by [`Work`](crate::queue::Work), before anything is written.

use std::collections::HashMap;

use super::batch::{ARRAY_ROWS_MAX, LIST_MAX, chunks_of, filled, lease_columns, lease_list};
use super::rows::{self, int, read_record, row_count, text, uuid};
use super::{Session, SqlVerbs};
use crate::queue::{Lease, Noted, Queue, State};
use crate::sql::Value;
use crate::sql::dialect::Batch;
use crate::sql::text::SqlTemplate;
use crate::store::{FAILURES_KEPT, Record};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, ErrorKind, Result};

/// A row that was changed, and how it was found.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) record: Record,
    pub(super) was: State,
    /// As it must still be.
    pub(super) claim_no: i64,
    /// What is noted of a failed attempt: who failed, and why.
    pub(super) failure: Option<(Lease, Noted)>,
}

/// How many rows of so many values travel in one text.
const SERVER_VALUES_MAX: usize = 2_000;
const FAILURE_VALUES: usize = 6;
const SAVE_VALUES: usize = 17;

impl SqlVerbs {
    /// The rows that these leases still hold, by their numbers, locked in that order. Without what they hold: the
    /// payload stays as it is.
    pub(super) async fn load_held(
        &self,
        session: &mut impl Session,
        queue: Queue,
        leases: &[&Lease],
    ) -> Result<HashMap<i64, Record>> {
        let statements = self.statements.of(queue);
        let mut sorted = leases.to_vec();
        sorted.sort_unstable_by_key(|lease| lease.seq);
        let mut held = HashMap::with_capacity(leases.len());
        for chunk in sorted.chunks(LIST_MAX) {
            let select = match self.batch {
                Batch::EachRow => {
                    for lease in chunk {
                        let load = statements.load_lease.with(Self::fence(lease));
                        held.extend(self.load(session, queue, &load).await?.pop().map(|record| (record.seq, record)));
                    }
                    continue;
                }
                Batch::Arrays => statements.load_leases.with(lease_columns(chunk.iter().copied())),
                Batch::Lists => statements.load_leases.with(vec![lease_list(chunk.iter().copied())]),
                Batch::Rows => {
                    let list = filled(chunk.iter().map(|lease| Self::fence(lease)).collect());
                    statements.load_leases.with_rows(&[], &list)
                }
            };
            let found = session.query(&select, |row| read_record(row, queue)).await?;
            held.extend(found.into_iter().map(|record| (record.seq, record)));
        }
        Ok(held)
    }

    /// Rows by their numbers, as they stand now.
    pub(super) async fn as_they_stand(
        &self,
        session: &mut impl Session,
        queue: Queue,
        seqs: &[i64],
    ) -> Result<HashMap<i64, Record>> {
        let sql = &self.statements.of(queue).list_rows;
        let found = self.by_number(session, sql, seqs, |row| read_record(row, queue)).await?;
        Ok(found.into_iter().map(|record| (record.seq, record)).collect())
    }

    /// Writes rows' work columns back, with what is noted of their failures; deaths are told in the same breath.
    pub(super) async fn write_back(
        &self,
        session: &mut impl Session,
        queue: Queue,
        changes: &[Change],
        now: Timestamp,
    ) -> Result<()> {
        if self.batch == Batch::EachRow || changes.len() == 1 {
            for Change { record, was, claim_no, failure } in changes {
                if let Some((lease, failure)) = failure {
                    self.note_failure(session, queue, record, Some(lease.owner), failure, now).await?;
                }
                self.save(session, queue, record, *was, *claim_no, now).await?;
            }
            return Ok(());
        }
        for change in changes.iter().filter(|change| change.record.state() == State::Ready) {
            self.scan_start(queue).lower(change.record.visible_at());
            self.topic_scan_start.lower(queue, change.record.visible_at());
        }
        self.note_failures(session, queue, changes, now).await?;
        self.save_many(session, queue, changes).await?;
        if let Some(topic) = &self.dead_letter_topic {
            let news = changes.iter().filter_map(|change| change.record.obituary(queue, change.was, topic));
            let news: Vec<_> = news.collect();
            if !news.is_empty() {
                self.enqueue(session, &news, now).await?;
            }
        }
        Ok(())
    }

    async fn note_failures(
        &self,
        session: &mut impl Session,
        queue: Queue,
        changes: &[Change],
        now: Timestamp,
    ) -> Result<()> {
        let statements = self.statements.of(queue);
        let failed = changes.iter().filter_map(|change| Some((change, change.failure.as_ref()?)));
        let rows = failed.clone().map(|(Change { record, .. }, (lease, failure))| {
            let attempt = int(i64::from(record.work.attempts));
            let worker = uuid(Some(lease.owner.as_uuid()));
            let (error, code) = (text(failure.error.as_deref()), text(Some(failure.cause.code())));
            vec![int(record.seq), int(now.as_micros()), attempt, worker, error, code]
        });
        self.write_rows(session, &statements.failure_add_batch, rows.collect(), FAILURE_VALUES).await?;
        // Each failure follows a claim: fewer claims than that, and there is nothing to trim.
        let long = failed.map(|(change, _)| &change.record).filter(|it| it.work.claim_no > row_count(FAILURES_KEPT));
        let seqs: Vec<i64> = long.map(|record| record.seq).collect();
        let kept = int(row_count(FAILURES_KEPT));
        for chunk in seqs.chunks(LIST_MAX) {
            let trim = match self.batch {
                Batch::Arrays => {
                    let numbers = Value::Ints(chunk.iter().copied().map(Some).collect());
                    statements.failure_trim_batch.with(vec![kept.clone(), numbers])
                }
                _ => {
                    let list = filled(chunk.iter().map(|seq| vec![int(*seq)]).collect());
                    statements.failure_trim_batch.with_rows(std::slice::from_ref(&kept), &list)
                }
            };
            session.execute(&trim).await?;
        }
        Ok(())
    }

    async fn save_many(&self, session: &mut impl Session, queue: Queue, changes: &[Change]) -> Result<()> {
        let rows = changes.iter().map(|change| {
            let mut row = rows::save(&change.record, change.claim_no);
            if self.batch == Batch::Lists {
                row.push(int(change.was.code()));
            }
            row
        });
        let saved =
            self.write_rows(session, &self.statements.of(queue).save_batch, rows.collect(), SAVE_VALUES).await?;
        // A server that takes no notice of locks lets others change what was read.
        if saved < changes.len() as u64 && self.batch == Batch::Lists {
            return Err(Error::new(ErrorKind::NotCommitted, "a row was changed by somebody else in the same moment"));
        }
        Ok(())
    }

    /// Runs a text for all rows; says how many were changed.
    async fn write_rows(
        &self,
        session: &mut impl Session,
        sql: &SqlTemplate,
        rows: Vec<Vec<Value>>,
        values: usize,
    ) -> Result<u64> {
        let rows_max = match self.batch {
            Batch::Arrays => ARRAY_ROWS_MAX,
            Batch::Lists => SERVER_VALUES_MAX / values,
            Batch::EachRow | Batch::Rows => LIST_MAX,
        };
        let mut changed = 0;
        for chunk in chunks_of(&rows, rows_max) {
            let statement = match self.batch {
                Batch::Arrays => sql.with(rows::columns_of(chunk)),
                _ => sql.with_rows(&[], chunk),
            };
            changed += session.execute(&statement).await?.rows;
        }
        Ok(changed)
    }
}

//! Reads and writes rows in batches, so that settling many takes as few round trips as settling a few.
//! [`Work`](crate::queue::Work) decides the new state of each before anything is written.

use std::collections::HashMap;

use super::batch::for_rows;
use super::rows::{int, read_record, row_count, saved_row, text, uuid};
use super::{Session, SqlVerbs};
use crate::message::OwnerToken;
use crate::queue::{Lease, Noted, Queue, State};
use crate::store::{FAILURES_KEPT, Record};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, ErrorKind, Result};

/// A row that was changed, and how it was found.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) record: Record,
    pub(super) was: State,
    /// The claim number that the row must still have.
    pub(super) claim_no: i64,
    /// The failed attempt to record: the worker and the failure.
    pub(super) failure: Option<(Option<OwnerToken>, Noted)>,
}

impl SqlVerbs {
    /// Returns the rows that these leases still hold, by number, locked in that order. Payloads are not loaded, because
    /// they do not change.
    pub(super) async fn load_held(
        &self,
        session: &mut impl Session,
        queue: Queue,
        leases: &[&Lease],
    ) -> Result<HashMap<i64, Record>> {
        let statements = self.statements.of(queue);
        let mut sorted = leases.to_vec();
        sorted.sort_unstable_by_key(|lease| lease.seq);
        let rows: Vec<_> = sorted.into_iter().map(Self::fence).collect();
        let many = statements.many.as_ref().map(|many| &many.load_leases);
        let mut held = HashMap::with_capacity(leases.len());
        for select in for_rows((&statements.load_lease, many), &rows, &[]) {
            let found = self.load(session, queue, &select).await?;
            held.extend(found.into_iter().map(|record| (record.seq, record)));
        }
        Ok(held)
    }

    /// Returns the current rows by number.
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

    /// Writes rows' work columns back and records their failures. It also stores the notices about dead messages.
    pub(super) async fn write_back(
        &self,
        session: &mut impl Session,
        queue: Queue,
        changes: &[Change],
        now: Timestamp,
    ) -> Result<()> {
        for change in changes.iter().filter(|change| change.record.state() == State::Ready) {
            self.scan_start(queue).lower(change.record.visible_at());
            self.topic_scan_start.lower(queue, change.record.visible_at());
        }
        self.note_failures(session, queue, changes, now).await?;
        let statements = self.statements.of(queue);
        let save = (&statements.save, statements.many.as_ref().map(|many| &many.save_many));
        let rows: Vec<_> =
            changes.iter().map(|change| saved_row(&change.record, change.claim_no, change.was)).collect();
        let saved = self.write_rows(session, save, &rows, &[]).await?;
        if self.statements.checks_saves && saved < changes.len() as u64 {
            return Err(moved_meanwhile());
        }
        if let (1.., Some(topic)) = (saved, &self.dead_letter_topic) {
            let news = changes.iter().filter_map(|change| change.record.obituary(queue, change.was, topic));
            self.enqueue(session, &news.collect::<Vec<_>>(), now).await?;
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
        let many = statements.many.as_ref();
        let failed = changes.iter().filter_map(|change| Some((change, change.failure.as_ref()?)));
        let rows = failed.clone().map(|(Change { record, .. }, (worker, failure))| {
            let attempt = int(i64::from(record.work.attempts));
            let worker = uuid(worker.map(OwnerToken::as_uuid));
            let (error, code) = (text(failure.error.as_deref()), text(Some(failure.cause.code())));
            vec![int(record.seq), int(now.as_micros()), attempt, worker, error, code]
        });
        let add = (&statements.failure_add, many.map(|many| &many.failure_add_many));
        self.write_rows(session, add, &rows.collect::<Vec<_>>(), &[]).await?;
        // Each failure follows a claim, or a manual mark that counts as one. With fewer claims there is nothing to
        // trim.
        let long = failed.map(|(change, _)| &change.record).filter(|it| it.work.claim_no > row_count(FAILURES_KEPT));
        let rows: Vec<_> = long.map(|record| vec![int(record.seq)]).collect();
        let trim = (&statements.failure_trim, many.map(|many| &many.failure_trim_many));
        self.write_rows(session, trim, &rows, &[int(row_count(FAILURES_KEPT))]).await?;
        Ok(())
    }
}

/// Returns the error for a row that changed between reading and writing it. A retry reads it again.
pub(super) fn moved_meanwhile() -> Error {
    Error::new(ErrorKind::NotCommitted, "another transaction changed a row at the same moment")
}

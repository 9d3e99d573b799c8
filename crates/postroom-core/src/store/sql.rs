//! The verbs, written once for every SQL database: pick the statement, bind, run, read. [`Work`](crate::queue::Work)
//! decides what a verb does to a row. Only the hot verbs (insert, claim, ack, extend) are pure SQL.

mod audit;
mod batch;
mod claim;
mod failed;
mod front;
mod holds;
mod inbox;
mod lane_questions;
mod lanes;
mod letters;
mod look;
mod marks;
mod questions;
mod receive;
mod rows;
mod rules;
mod scan_start;
mod schema;
mod stops;
mod times;
mod topic_scan_start;
mod unique;
mod upkeep;
mod write_back;

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use crate::message::NewMessage;
use crate::queue::{Lease, Queue, Settle, Settled, State, Verb};
use crate::sql::dialect::{Dialect, Fence, Statements};
use crate::sql::text::SIZES;
use crate::sql::{Expects, Session, Statement, TableNames};
use crate::store::{Filter, Holding, Record};
use crate::support::clock::{Clock, Timestamp};
use crate::support::error::Result;
pub(crate) use lanes::by_lock;
pub(crate) use look::Asked;
use rows::{int, outbox_row, read_record, text, uuid};
use scan_start::ScanStart;
use topic_scan_start::TopicScanStart;
use write_back::Change;

/// Everything the verbs need besides a connection.
#[derive(Debug)]
pub(crate) struct SqlVerbs {
    /// Boxed, because there are many statements and they would be part of every future that opens a store.
    pub(crate) statements: Box<Statements>,
    pub(crate) tables: TableNames,
    /// The topic of notices about dead messages. A notice is stored in the transaction that marks the message dead.
    pub(crate) dead_letter_topic: Option<String>,
    scan_starts: [ScanStart; 2],
    topic_scan_start: TopicScanStart,
    skipped: front::Skipped,
    expected: lanes::Expected,
    known_rules: rules::KnownRules,
    holding: [Holding; 2],
    clock: Clock,
    times_checked: [AtomicU64; 2],
}

impl SqlVerbs {
    pub(crate) fn new(dialect: &Dialect, tables: TableNames, dead_letter_topic: Option<String>, fence: Fence) -> Self {
        Self {
            statements: Box::new(Statements::new(dialect, &tables, fence)),
            tables,
            dead_letter_topic,
            scan_starts: [ScanStart::new(), ScanStart::new()],
            topic_scan_start: TopicScanStart::default(),
            skipped: front::Skipped::default(),
            expected: lanes::Expected::default(),
            known_rules: rules::KnownRules::default(),
            holding: Default::default(),
            clock: Clock::Database,
            times_checked: Default::default(),
        }
    }

    /// Forgets what claims have learned that were rolled back.
    pub(crate) fn forget_claims(&self) {
        self.skipped.forget();
    }

    pub(crate) fn holding(&self, queue: Queue) -> &Holding {
        match queue {
            Queue::Outbox => &self.holding[0],
            Queue::Inbox => &self.holding[1],
        }
    }

    fn scan_start(&self, queue: Queue) -> &ScanStart {
        match queue {
            Queue::Outbox => &self.scan_starts[0],
            Queue::Inbox => &self.scan_starts[1],
        }
    }

    pub(crate) fn insert(&self, message: &NewMessage, now: Timestamp) -> Result<Statement> {
        self.notice_new(message, now);
        let insert = self.statements.outbox_insert.with(outbox_row(message, now, self.late(now)));
        Ok(Statement { unique: self.unique_key(message, now)?, ..insert.expecting(Expects::RowOrDuplicate) })
    }

    pub(crate) fn ack(&self, queue: Queue, lease: &Lease, response: Option<&str>, now: Timestamp) -> Statement {
        let mut values = Self::fence(lease);
        values.extend([text(response), int(self.late(now).as_micros())]);
        self.statements.of(queue).ack.with(values).expecting(Expects::RowOrLeaseLost)
    }

    /// Returns a statement that finds the row if the lease is still held.
    pub(crate) fn held(&self, queue: Queue, lease: &Lease) -> Statement {
        self.statements.of(queue).held.with(Self::fence(lease))
    }

    pub(crate) async fn settle(
        &self,
        session: &mut impl Session,
        queue: Queue,
        settles: &[Settle],
        now: Timestamp,
    ) -> Result<Settled> {
        let (mut acks, mut others): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
        let mut settled = Settled::default();
        for settle in settles {
            if let Verb::Ack { response } = &settle.verb {
                acks.push((&settle.lease, response.as_deref()));
            } else if acks.iter().any(|(acked, _)| **acked == settle.lease) {
                // Acks are run together, after the others. An ack that came first still wins.
                settled.count(None);
            } else {
                others.push(settle);
            }
        }
        self.settle_others(session, queue, &others, now, &mut settled).await?;
        // All transactions lock rows in the same order, so that two that settle the same rows cannot deadlock.
        let asked = acks.len() as u64;
        acks.sort_by_key(|(lease, _)| (lease.seq, lease.claim_no));
        // Of two acks under one lease, the first counts.
        acks.dedup_by_key(|(lease, _)| (lease.seq, lease.claim_no, lease.owner));
        let mut held = self.ack_many(session, queue, &acks, now).await?;
        if session.in_doubt() {
            let seqs: Vec<i64> = acks.iter().map(|(lease, _)| lease.seq).collect();
            let stand = self.as_they_stand(session, queue, &seqs).await?;
            held =
                acks.iter().filter(|(lease, _)| stand.get(&lease.seq).is_some_and(|row| is_acked(row, lease))).count()
                    as u64;
        }
        (0..held).for_each(|_| settled.count(Some(State::Done)));
        (held..asked).for_each(|_| settled.count(None));
        Ok(settled)
    }

    /// Settles everything except acks: rows are read together, decided one by one, and written together.
    async fn settle_others(
        &self,
        session: &mut impl Session,
        queue: Queue,
        settles: &[&Settle],
        now: Timestamp,
        settled: &mut Settled,
    ) -> Result<()> {
        if settles.is_empty() {
            return Ok(());
        }
        let leases: Vec<&Lease> = settles.iter().map(|settle| &settle.lease).collect();
        let mut held = self.load_held(session, queue, &leases).await?;
        let stops = self.stops_of(session, queue, &held.keys().copied().collect::<Vec<_>>()).await?;
        let (mut changes, mut lost) = (Vec::with_capacity(held.len()), Vec::new());
        for settle in settles {
            // There may be two leases on one row. One of them is over, and the row that was found belongs to the other.
            let is_other = |record: &Record| record.work.claim_no != settle.lease.claim_no;
            let other = leases.iter().any(|lease| lease.seq == settle.lease.seq && **lease != settle.lease);
            let of_another = other && held.get(&settle.lease.seq).is_some_and(is_other);
            let found = if of_another { None } else { held.remove(&settle.lease.seq) };
            let Some(mut record) = found else {
                lost.push(&settle.lease);
                continue;
            };
            let was = record.state();
            let failure = record.work.settle(&settle.verb, now, now);
            let failure = failure.map(|failure| (Some(settle.lease.owner), failure.clone()));
            if stops.contains_key(&(record.seq, settle.lease.claim_no)) {
                record.work.wait_again();
            }
            settled.count(Some(record.state()));
            changes.push(Change { record, was, claim_no: settle.lease.claim_no, failure });
        }
        self.write_back(session, queue, &changes, now).await?;
        self.dismiss_stopped(session, queue, (&changes, &stops), now).await?;
        self.count_lost(session, queue, &lost, settled).await
    }

    /// Counts leases that are not held. Each is lost, unless an earlier try, whose commit was not answered,
    /// settled it and nobody has claimed the row since.
    async fn count_lost(
        &self,
        session: &mut impl Session,
        queue: Queue,
        lost: &[&Lease],
        settled: &mut Settled,
    ) -> Result<()> {
        let seqs: Vec<i64> = lost.iter().map(|lease| lease.seq).collect();
        let stand = match session.in_doubt() {
            true => self.as_they_stand(session, queue, &seqs).await?,
            false => HashMap::new(),
        };
        for lease in lost {
            let found = stand.get(&lease.seq);
            let ours = found.filter(|row| row.claim_no() == lease.claim_no && row.state() != State::Leased);
            settled.count(ours.map(Record::state));
        }
        Ok(())
    }

    /// Settles with one statement, outside any other transaction. Returns `None` if there is more to do than acks.
    pub(crate) async fn autocommit_settle(
        &self,
        session: &mut impl Session,
        queue: Queue,
        settles: &[Settle],
        now: Timestamp,
    ) -> Result<Option<Settled>> {
        let is_ack = |settle: &Settle| matches!(settle.verb, Verb::Ack { .. });
        let is_answered = |settle: &Settle| matches!(settle.verb, Verb::Ack { response: Some(_) });
        let takes_json = self.statements.of(queue).many.as_ref().is_some_and(|many| many.ack_many.takes_json());
        let goes_alone = takes_json && settles.len() > 1 && settles.iter().any(is_answered);
        if settles.len() > SIZES[0] || goes_alone || !settles.iter().all(is_ack) {
            return Ok(None);
        }
        self.settle(session, queue, settles, now).await.map(Some)
    }

    /// Returns whether the lease's row is done, by the holder of the lease.
    pub(crate) async fn acked_before(&self, session: &mut impl Session, queue: Queue, lease: &Lease) -> Result<bool> {
        let found = self.list(session, queue, &Filter::one(lease.seq)).await?.pop();
        Ok(found.is_some_and(|row| is_acked(&row, lease)))
    }

    /// Returns whether the lease is still held. While another transaction changes the row, this waits.
    pub(crate) async fn is_held(&self, session: &mut impl Session, queue: Queue, lease: &Lease) -> Result<bool> {
        let load = self.statements.of(queue).load_lease.with(Self::fence(lease));
        Ok(!self.load(session, queue, &load).await?.is_empty())
    }

    async fn load(&self, session: &mut impl Session, queue: Queue, select: &Statement) -> Result<Vec<Record>> {
        session.query(select, |row| read_record(row, queue)).await
    }
}

/// Returns whether a row was acknowledged under this lease and is still done.
fn is_acked(row: &Record, lease: &Lease) -> bool {
    row.state() == State::Done && row.claim_no() == lease.claim_no && row.processed_by() == Some(lease.owner)
}

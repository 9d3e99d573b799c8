//! One table of the in-memory store.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::lanes::Lanes;
use crate::message::{InboxKey, Incoming, Message, NewMessage, Origin, OwnerToken, WorkItemId};
use crate::queue::{ClaimRequest, Claimed, Claims, Lease, Noted, Reaped, Ruled, Settle, State, Verb, Work};
use crate::store::{
    Audited, FAILURES_KEPT, Failure, Filter, Hold, Holding, Operator, QueueStats, Record, Revival, Stored,
};
use crate::support::clock::{Doubt, Timestamp};

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) rows: BTreeMap<i64, Record>,
    /// The failures by row, each with its number.
    pub(super) failures: BTreeMap<i64, Vec<(i64, Failure)>>,
    /// Rows that may have become dead, and their earlier states. They have not been reported yet.
    pub(super) deaths: Vec<(Record, State)>,
    /// Held places, with the worker that holds each.
    pub(super) holds: Vec<(OwnerToken, Hold)>,
    pub(super) lanes: Lanes,
    /// Pauses and limits, by kind and name.
    pub(super) rules: BTreeMap<(&'static str, String), super::rules::Kept>,
    /// Who asked a message to stop, by its number and its claim.
    pub(super) stops: BTreeMap<(i64, i64), Operator>,
    /// Unique keys.
    pub(super) unique: BTreeMap<String, super::unique::Key>,
    /// What operators did, by the ids of their acts.
    pub(super) audit: Vec<(Uuid, Audited)>,
    last_seq: i64,
    last_failure: i64,
}

impl Table {
    fn insert(&mut self, work: Work, message: Message) {
        self.last_seq += 1;
        self.lanes.are_used |= message.lane.is_some();
        let record = Record { seq: self.last_seq, work, message: Ok(message), response: None, dismissal: None };
        self.rows.insert(self.last_seq, record);
    }

    /// Its time to live begins at `late`.
    pub(super) fn insert_new(&mut self, new: &NewMessage, now: Timestamp, late: Timestamp) -> Stored {
        let id = new.work_item_id();
        let duplicate = self.knows(id);
        if !duplicate {
            let (due_at, expires_at) = (new.due(now), new.expires(late));
            let work = Work::new(State::Ready, now).with(due_at, expires_at, new.max_attempts);
            self.insert(work, Message { expires_at, ..new.to_message(now) });
        }
        Stored::new(id, duplicate)
    }

    /// Its time to live begins at `late`.
    pub(super) fn insert_incoming(&mut self, incoming: &Incoming, state: State, now: Timestamp, late: Timestamp) {
        let expires_at = incoming.expires(late);
        let work = Work::new(state, now).with(incoming.due_at, expires_at, incoming.max_attempts);
        self.insert(work, Message { expires_at, ..incoming.to_message(now) });
    }

    pub(super) fn knows(&self, wanted: WorkItemId) -> bool {
        self.rows.values().any(
            |record| matches!(&record.message, Ok(Message { origin: Origin::Outbox { id, .. }, .. }) if *id == wanted),
        )
    }

    pub(super) fn by_work_item(&mut self, wanted: WorkItemId) -> Option<&mut Record> {
        self.rows.values_mut().find(
            |record| matches!(&record.message, Ok(Message { origin: Origin::Outbox { id, .. }, .. }) if *id == wanted),
        )
    }

    /// Stores an answer with its message, unless the message has one.
    pub(super) fn answer(&mut self, id: WorkItemId, response: &str) {
        if let Some(record) = self.by_work_item(id) {
            record.response.get_or_insert_with(|| response.to_owned());
        }
    }

    pub(super) fn by_key(&mut self, wanted: &InboxKey) -> Option<&mut Record> {
        self.rows.values_mut().find(
            |record| matches!(&record.message, Ok(Message { origin: Origin::Inbox { key, .. }, .. }) if key == wanted),
        )
    }

    pub(super) fn by_id(&self, wanted: Uuid) -> Vec<Record> {
        let is_wanted = |record: &&Record| {
            matches!(&record.message, Ok(Message { origin: Origin::Outbox { id, message_id, .. }, .. })
                if id.as_uuid() == wanted || message_id.as_uuid() == wanted)
        };
        self.rows.values().filter(is_wanted).cloned().collect()
    }

    pub(super) fn held(&mut self, lease: &Lease) -> Option<&mut Record> {
        self.rows.get_mut(&lease.seq).filter(|record| record.work.is_held_by(lease))
    }

    pub(super) fn claim(&mut self, request: &ClaimRequest, holding: &Holding, now: Timestamp, doubt: Doubt) -> Claims {
        let Ruled { request: within, limited, .. } = self.ruled(request);
        let Some(within) = within else { return Claims::default() };
        let mut reaped = self.reap(request.batch, holding, doubt.early(now));
        reaped.expired += self.expire(request.batch, doubt.early(now));
        self.order_lanes();
        let until = doubt.late(now).plus(request.lease);
        let mut claimed = self.claim_some(&within, until, now);
        let mut next_at = self.next_at(&within);
        let rest = ClaimRequest { batch: request.batch - claimed.len(), ..request.clone() };
        let again_at = self.within_limits(&rest, &limited, now, |table, part| {
            let taken = table.claim_some(&part, until, now);
            next_at = [next_at, table.next_at(&part)].into_iter().flatten().min();
            let count = taken.len();
            claimed.extend(taken);
            count
        });
        let next_at = [next_at, again_at].into_iter().flatten().min().filter(|_| claimed.is_empty());
        Claims { claimed, next_at, reaped }
    }

    fn claim_some(&mut self, request: &ClaimRequest, until: Timestamp, now: Timestamp) -> Vec<Claimed> {
        let in_line = self.in_line(now, request);
        let sizes =
            in_line.iter().map(|seq| self.rows[seq].message.as_ref().map_or(0, |held| held.payload.len() as u64));
        let fitting = request.budget.fitting(sizes);
        let chosen = in_line.into_iter().take(fitting).collect::<Vec<_>>();
        chosen.into_iter().filter_map(|seq| self.take(seq, request, until, now)).collect()
    }

    /// Returns when something of a claim is due, or a lease ends.
    fn next_at(&self, request: &ClaimRequest) -> Option<Timestamp> {
        let turns = self.turns();
        let awaits =
            |record: &&Record| record.state() == State::Leased || (is_among(record, request) && turns.has(record));
        let awaited = self.rows.values().filter(awaits);
        awaited.filter_map(Record::visible_at).min()
    }

    fn in_line(&self, now: Timestamp, request: &ClaimRequest) -> Vec<i64> {
        let is_ready = |record: &&Record| record.work.is_ready(now) && !record.work.is_past_expiry(now);
        let turns = self.turns();
        let is_meant = |record: &&Record| is_among(record, request) && turns.has(record);
        let ready = self.rows.values().filter(is_ready).filter(is_meant);
        let mut in_line: Vec<_> = ready.map(|record| (record.visible_at(), record.seq)).collect();
        in_line.sort_unstable();
        in_line.into_iter().take(request.batch).map(|(_, seq)| seq).collect()
    }

    fn take(&mut self, seq: i64, request: &ClaimRequest, until: Timestamp, now: Timestamp) -> Option<Claimed> {
        let record = self.rows.get_mut(&seq)?;
        record.work.claim(request.owner, until, now);
        Some(Claimed { lease: record.lease()?, message: record.message_now().map(Arc::new) })
    }

    /// Returns the new state of the row, or `None` if the lease is lost.
    pub(super) fn settle(&mut self, settle: &Settle, now: Timestamp, late: Timestamp) -> Option<State> {
        let record = self.rows.get_mut(&settle.lease.seq).filter(|record| record.work.is_held_by(&settle.lease))?;
        let was = record.state();
        let failure = record.work.settle(&settle.verb, now, late);
        if let Verb::Ack { response } = &settle.verb {
            record.response = response.clone().or(record.response.take());
        } else {
            stop(&mut self.stops, record, settle.lease.claim_no, now);
        }
        record.refresh();
        let record = record.clone();
        if let Some(failure) = failure {
            self.note_failure(&record, Some(settle.lease.owner), failure, now);
        }
        let became = record.state();
        self.deaths.push((record, was));
        Some(became)
    }

    pub(super) fn reap(&mut self, limit: usize, holding: &Holding, now: Timestamp) -> Reaped {
        let over = self.rows.values().filter(|record| record.work.lease_is_over(now) && !holding.has(record.seq));
        let mut over: Vec<_> = over.map(|record| (record.visible_at(), record.seq, record.lease())).collect();
        over.sort_unstable_by_key(|(visible_at, seq, _)| (*visible_at, *seq));
        let mut reaped = Reaped::default();
        for (_, seq, lease) in over.into_iter().take(limit) {
            let Some(record) = self.rows.get_mut(&seq) else { continue };
            let was = record.state();
            let failure = record.work.lease_over(now);
            stop(&mut self.stops, record, record.work.claim_no, now);
            record.refresh();
            let record = record.clone();
            reaped.count(record.state());
            if let Some(lease) = lease {
                self.note_failure(&record, Some(lease.owner), &failure, now);
            }
            self.deaths.push((record, was));
        }
        reaped
    }

    pub(super) fn expire(&mut self, limit: usize, now: Timestamp) -> u64 {
        let ready = self.rows.values_mut().filter(|record| record.state() == State::Ready);
        let mut over: Vec<_> = ready.filter(|record| record.work.is_past_expiry(now)).collect();
        over.sort_by_key(|record| record.work.expires_at);
        over.truncate(limit);
        for record in &mut over {
            let was = record.state();
            record.work.expire(now);
            self.deaths.push(((**record).clone(), was));
        }
        over.len() as u64
    }

    pub(super) fn correct_times(&mut self, now: Timestamp) -> u64 {
        let mut corrected = 0;
        for record in self.rows.values_mut() {
            corrected += u64::from(record.work.correct_times(now));
            record.refresh();
        }
        corrected
    }

    pub(super) fn again(&mut self, states: &[State], filter: &Filter, revival: Revival, now: Timestamp) -> u64 {
        let chosen = |record: &&mut Record| states.contains(&record.state()) && filter.accepts(record);
        let mut count = 0;
        for record in self.rows.values_mut().filter(chosen).take(filter.limit) {
            count += u64::from(record.put_back(revival, count, now));
            record.refresh();
        }
        count
    }

    pub(super) fn stats(&self, now: Timestamp) -> QueueStats {
        let mut stats = QueueStats::default();
        self.rows.values().for_each(|record| stats.add(record.state(), 1));
        let waiting = self.rows.values().filter(|record| record.state() == State::Ready);
        let first = waiting.min_by_key(|record| (record.visible_at(), record.seq));
        stats.oldest_waiting = first.map(|record| now.since(record.work.created_at));
        let due = first.and_then(Record::visible_at).filter(|due| *due <= now);
        stats.overdue = due.map(|due| now.since(due));
        stats
    }

    pub(super) fn failures_of(&self, seq: i64) -> Vec<Failure> {
        self.failures.get(&seq).into_iter().flatten().map(|(_, failure)| failure.clone()).collect()
    }

    pub(super) fn note_failure(
        &mut self,
        record: &Record,
        worker: Option<OwnerToken>,
        failure: &Noted,
        now: Timestamp,
    ) {
        self.last_failure += 1;
        let kept = self.failures.entry(record.seq).or_default();
        let Noted { cause, error } = failure.clone();
        let failure = Failure { at: now, attempt: record.work.attempts, worker, cause: Some(cause), error };
        kept.push((self.last_failure, failure));
        if kept.len() > FAILURES_KEPT {
            kept.remove(0);
        }
    }
}

/// Dismisses a message that was to stop, now that its claim has ended without an ack.
fn stop(stops: &mut BTreeMap<(i64, i64), Operator>, record: &mut Record, claim_no: i64, now: Timestamp) {
    if let Some(by) = stops.remove(&(record.seq, claim_no)) {
        record.cancel(by, now);
    }
}

fn is_among(record: &Record, request: &ClaimRequest) -> bool {
    if (record.work.crashes > 0) != request.suspects {
        return false;
    }
    let Some(topics) = &request.topics else { return true };
    record.message.as_ref().is_ok_and(|message| topics.contains(&message.topic, message.destination()))
}

impl Work {
    fn with(mut self, due: Option<Timestamp>, expires: Option<Timestamp>, max_attempts: Option<u32>) -> Self {
        (self.due_at, self.expires_at, self.max_attempts) = (due, expires, max_attempts);
        self
    }
}

//! Dismisses, expires and deletes dead letters and old rows in memory.

use super::table::Table;
use crate::message::{Message, Origin};
use crate::queue::State;
use crate::store::{Filter, Operator, Record};
use crate::support::clock::Timestamp;

/// The most bytes of a payload that is never dropped.
const SMALL_PAYLOAD: usize = 1024;

impl Table {
    pub(super) fn dismiss(&mut self, filter: &Filter, operator: &Operator, now: Timestamp) -> u64 {
        let is_meant =
            |record: &&mut Record| matches!(record.state(), State::Dead | State::Expired) && filter.accepts(record);
        let (mut count, by) = (0, Operator::dismissed(operator.who().into(), operator.why().map(str::to_owned)));
        for record in self.rows.values_mut().filter(is_meant).take(filter.limit) {
            record.work.dismiss(now);
            record.dismissal = Some(Box::new(by.clone()));
            count += 1;
        }
        count
    }

    pub(super) fn expire_dead(&mut self, limit: usize, now: Timestamp) -> u64 {
        let dead = self.rows.values_mut().filter(|record| record.state() == State::Dead);
        let mut over: Vec<_> = dead.filter(|record| record.work.is_past_expiry(now)).collect();
        over.sort_by_key(|record| (record.work.expires_at, record.seq));
        over.truncate(limit);
        over.iter_mut().for_each(|record| record.work.expire_dead(now));
        over.len() as u64
    }

    pub(super) fn purge(&mut self, state: State, before: Timestamp, limit: usize) -> u64 {
        let old = self.old(state, before, limit);
        for seq in &old {
            self.rows.remove(seq);
            self.failures.remove(seq);
        }
        old.len() as u64
    }

    pub(super) fn drop_payloads(&mut self, before: Timestamp, limit: usize) -> Option<u64> {
        let is_old = |record: &&mut Record| record.state() == State::Done && record.processed_at() <= Some(before);
        let large = self.rows.values_mut().filter(is_old).filter_map(|record| record.message.as_mut().ok());
        let mut dropped = 0;
        for message in large.filter(|message| message.payload.len() > SMALL_PAYLOAD).take(limit) {
            (message.payload, message.payload_dropped) = (String::new(), true);
            dropped += 1;
        }
        (dropped > 0).then_some(dropped)
    }

    /// Returns rows that entered that state before that time, oldest first.
    pub(super) fn old(&self, state: State, before: Timestamp, limit: usize) -> Vec<i64> {
        let rows = self.rows.values().filter(|record| record.state() == state);
        let mut old: Vec<_> = rows.filter_map(|record| Some((since(record)?, record.seq))).collect();
        old.retain(|(at, _)| *at < before);
        old.sort_unstable();
        old.into_iter().take(limit).map(|(_, seq)| seq).collect()
    }
}

/// Returns when a row entered its state; for a row that was only seen, when it was last seen.
fn since(record: &Record) -> Option<Timestamp> {
    match (&record.message, record.state()) {
        (Ok(Message { origin: Origin::Inbox { last_seen_at, .. }, .. }), State::Seen) => Some(*last_seen_at),
        _ => record.processed_at(),
    }
}

//! Dead letters in memory, without their content.

use std::collections::BTreeMap;

use super::table::Table;
use crate::message::Message;
use crate::queue::State;
use crate::store::failed::looked_at;
use crate::store::{Failed, FailedGroup, Filter, Record};
use crate::support::clock::Timestamp;

impl Table {
    fn given_up(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.rows.values().filter(|record| matches!(record.state(), State::Dead | State::Expired))
    }

    pub(super) fn failed(&self, filter: &Filter) -> Vec<Failed> {
        let is_meant = |record: &&Record| filter.dead_letters().contains(&record.state()) && filter.accepts(record);
        self.rows.values().filter(is_meant).take(filter.limit).map(Failed::from).collect()
    }

    pub(super) fn failed_groups(&self, rows: usize) -> Vec<FailedGroup> {
        let mut groups: BTreeMap<_, FailedGroup> = BTreeMap::new();
        let nth_newest = |state| self.given_up().rev().filter(move |record| record.state() == state).nth(rows - 1);
        let first = [State::Dead, State::Expired].into_iter().filter_map(nth_newest).map(|record| record.seq).max();
        for record in self.given_up().filter(|record| Some(record.seq) >= first) {
            let Failed { seq, topic, party, error, state, at, .. } = Failed::from(record);
            let key = (state.code(), topic.clone(), party.clone(), error.clone());
            let group = groups.entry(key).or_insert_with(|| FailedGroup {
                topic,
                party,
                error,
                state,
                messages: 0,
                first_at: at,
                last_at: at,
                first_row: seq,
            });
            group.messages += 1;
            (group.first_at, group.last_at) = (group.first_at.min(at), group.last_at.max(at));
        }
        groups.into_values().collect()
    }

    pub(super) fn overdue(&self, limit: usize, now: Timestamp) -> u64 {
        let waiting = self.rows.values().filter(|record| record.state() == State::Ready);
        waiting.filter(|record| record.work.is_past_expiry(now)).take(limit).count() as u64
    }
}

impl From<&Record> for Failed {
    fn from(record: &Record) -> Self {
        let message: Option<&Message> = record.message.as_ref().ok();
        Self {
            seq: record.seq,
            origin: message.map(|message| message.origin.clone()),
            topic: message.map(|message| message.topic.clone()).unwrap_or_default(),
            state: record.state(),
            attempts: record.attempts(),
            error: record.last_error().map(looked_at),
            at: record.processed_at(),
            expires_at: record.expires_at(),
            dismissal: record.dismissal().cloned(),
            party: message.and_then(|message| message.source().or(message.destination())).map(str::to_owned),
        }
    }
}

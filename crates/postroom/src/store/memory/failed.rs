//! What was given up, without what it holds.

use std::collections::BTreeMap;

use super::table::Table;
use crate::clock::Timestamp;
use crate::message::Message;
use crate::queue::State;
use crate::store::failed::looked_at;
use crate::store::{Failed, FailedGroup, Filter, Record};

impl Table {
    fn given_up(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.rows.values().filter(|record| matches!(record.state(), State::Dead | State::Expired))
    }

    pub(super) fn failed(&self, filter: &Filter) -> Vec<Failed> {
        self.given_up().filter(|record| filter.accepts(record)).take(filter.limit).map(Failed::from).collect()
    }

    pub(super) fn failed_groups(&self, rows: usize) -> Vec<FailedGroup> {
        let mut groups: BTreeMap<_, FailedGroup> = BTreeMap::new();
        for state in [State::Dead, State::Expired] {
            for record in self.given_up().filter(|record| record.state() == state).rev().take(rows) {
                let failed = Failed::from(record);
                let (at, party) = (failed.at, failed.party().map(str::to_owned));
                let key = (state.code(), failed.topic.clone(), party.clone(), failed.error.clone());
                let group = groups.entry(key).or_insert_with(|| FailedGroup {
                    topic: failed.topic,
                    party,
                    error: failed.error,
                    state,
                    messages: 0,
                    first_at: at,
                    last_at: at,
                });
                group.messages += 1;
                (group.first_at, group.last_at) = (group.first_at.min(at), group.last_at.max(at));
            }
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
        }
    }
}

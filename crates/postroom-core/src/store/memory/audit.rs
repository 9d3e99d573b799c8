//! Changes by operators in memory, with their entries in the audit trail.

use super::table::Table;
use crate::queue::State;
use crate::store::{Act, Audited, Deed, Operation};
use crate::support::clock::Timestamp;

impl Table {
    pub(super) fn change(&mut self, change: &Operation, deed: Deed, now: Timestamp, early: Timestamp) -> u64 {
        let changed = match change {
            Operation::Dismiss(filter, operator) => self.dismiss(filter, operator, now),
            Operation::Revive(filter, revival) => self.again(filter.dead_letters(), filter, *revival, now),
            Operation::Redrive(filter, revival) => self.again(&[State::Done], filter, *revival, now),
            Operation::Expire(limit) => self.expire(*limit, early),
            Operation::Purge(retention, limit) => self.purge(State::Done, early.minus(*retention), *limit),
            Operation::Pause(scope, operator) => self.pause(scope, operator, now),
            Operation::Resume(scope, _) => self.resume(scope),
            Operation::Limit(scope, limit, _) => self.limit(scope, *limit, now),
        };
        if changed > 0 {
            let act = change.act();
            self.note((act, act.messages(changed)), deed, now);
        }
        changed
    }

    pub(super) fn note(&mut self, (act, messages): (Act, u64), deed: Deed, now: Timestamp) {
        let Deed { id, operator } = deed;
        match self.audit.iter_mut().find(|(known, entry)| *known == id && entry.act == act) {
            Some((_, entry)) => entry.messages += messages,
            None => self.audit.push((id, Audited { at: now, act, messages, operator })),
        }
    }

    pub(super) fn audit(&self, limit: usize) -> Vec<Audited> {
        self.audit.iter().rev().take(limit).map(|(_, entry)| entry.clone()).collect()
    }
}

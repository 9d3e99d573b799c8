//! Changes by operators in memory, with their entries in the audit trail.

use super::table::Table;
use crate::queue::State;
use crate::store::{Audited, Deed, Operation};
use crate::support::clock::Timestamp;

impl Table {
    pub(super) fn change(&mut self, change: &Operation, deed: Deed, now: Timestamp, early: Timestamp) -> u64 {
        let changed = match change {
            Operation::Dismiss(filter, operator) => self.dismiss(filter, operator, now),
            Operation::Revive(filter, revival) => self.again(filter.dead_letters(), filter, *revival, now),
            Operation::Redrive(filter, revival) => self.again(&[State::Done], filter, *revival, now),
            Operation::Cancel(id) => self.cancel(*id, now),
            Operation::Expire(limit) => self.expire(*limit, early),
            Operation::Purge(retention, limit) => self.purge(State::Done, early.minus(*retention), *limit),
            Operation::Pause(scope, operator) => self.pause(scope, operator, now),
            Operation::Resume(scope, _) => self.resume(scope),
            Operation::Limit(scope, limit, _) => self.limit(scope, *limit, now),
        };
        let Some(act) = change.act() else { return changed };
        let (id, messages) = (deed.id, act.messages(changed));
        match self.audit.iter_mut().find(|(known, entry)| *known == id && entry.act == act) {
            _ if changed == 0 => {}
            Some((_, entry)) => entry.messages += messages,
            None => self.audit.push((id, Audited { at: now, act, messages, operator: deed.operator })),
        }
        changed
    }

    pub(super) fn audit(&self, limit: usize) -> Vec<Audited> {
        self.audit.iter().rev().take(limit).map(|(_, entry)| entry.clone()).collect()
    }
}

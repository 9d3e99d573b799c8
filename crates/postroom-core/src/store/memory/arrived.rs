//! A message that arrives in a handler's transaction. Its row exists while the handler runs, and stays if it commits.

use std::time::Duration;

use super::MemoryStore;
use crate::message::{ContentHash, Incoming, Origin, OwnerToken};
use crate::queue::State;
use crate::store::{Admission, Record};
use crate::support::clock::Timestamp;

impl MemoryStore {
    /// Holds the row of an incoming message until the returned guard is kept or dropped.
    pub(crate) fn arrive(&self, incoming: &Incoming, hold: Duration) -> (Admission, Option<Arrived>) {
        let (owner, (now, doubt)) = (OwnerToken::new(), self.time());
        let mut tables = self.tables();
        tables.inbox.lanes.are_used |= incoming.lane.is_some();
        let before = tables.inbox.by_key(&incoming.key).cloned();
        if before.is_none() && incoming.is_past_expiry(doubt.early(now)) {
            return (Admission::Expired, None);
        }
        if before.is_none() {
            tables.inbox.insert_incoming(incoming, State::Ready, now, doubt.late(now));
        }
        let Some(record) = tables.inbox.by_key(&incoming.key) else { return (Admission::Busy, None) };
        let admission = record.admit(incoming, owner, doubt.late(now).plus(hold), now, doubt);
        let arrived = Arrived { store: self.clone(), seq: record.seq, before, kept: false };
        drop(tables);
        let held = matches!(admission, Admission::Held { .. });
        // Nothing changed, so there is nothing to undo.
        (admission, Some(arrived).filter(|_| held))
    }
}

/// A row that arrived in a handler's transaction. Dropping this restores its earlier state.
#[derive(Debug)]
pub(crate) struct Arrived {
    store: MemoryStore,
    seq: i64,
    before: Option<Record>,
    kept: bool,
}

impl Arrived {
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        if !self.kept {
            let rows = &mut self.store.tables().inbox.rows;
            match self.before.take() {
                Some(before) => rows.insert(self.seq, before),
                None => rows.remove(&self.seq),
            };
        }
    }
}

impl Record {
    /// Records that it arrived again; the first hash stays. Returns the earlier hash.
    pub(super) fn touch(&mut self, now: Timestamp, arrived: Option<ContentHash>) -> Option<ContentHash> {
        let Ok(message) = &mut self.message else { return None };
        let Origin::Inbox { hash, last_seen_at, .. } = &mut message.origin else { return None };
        *last_seen_at = now;
        let stored = hash.clone();
        *hash = stored.clone().or(arrived);
        stored
    }
}

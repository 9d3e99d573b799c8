//! Unique keys in memory.

use super::table::Table;
use crate::message::{Clash, HasIt, NewMessage, WorkItemId};
use crate::queue::State;
use crate::store::unique::{look_again, look_first, refused};
use crate::store::{Operator, Record, Stored};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, Result};

/// Which message has a key, and until when.
#[derive(Clone, Debug)]
pub(super) struct Key {
    id: WorkItemId,
    until: Option<Timestamp>,
    until_done: bool,
    replaced: Option<WorkItemId>,
    /// When to look whether it is still needed.
    look_at: Timestamp,
}

impl Table {
    /// Stores all of them or none.
    pub(super) fn insert_all(&mut self, new: &[NewMessage], now: Timestamp, late: Timestamp) -> Result<Vec<Stored>> {
        let may_fail = |new: &NewMessage| new.unique.as_ref().is_some_and(|unique| unique.clash == Clash::Refuse);
        let before = new.iter().any(may_fail).then(|| (self.rows.clone(), self.unique.clone()));
        let stored = new.iter().map(|new| self.insert_unique(new, now, late)).collect::<Result<_>>();
        if let (Err(_), Some(before)) = (&stored, before) {
            (self.rows, self.unique) = before;
        }
        stored
    }

    /// Returns what would become of the last message.
    pub(super) fn would_store(&mut self, new: &[NewMessage], now: Timestamp, late: Timestamp) -> Result<Stored> {
        if let Some((last, others)) = new.split_last()
            && new.iter().all(|new| new.unique.is_none())
        {
            let id = last.work_item_id();
            return Ok(Stored::new(id, self.knows(id) || others.iter().any(|other| other.work_item_id() == id)));
        }
        let before = (self.rows.clone(), self.unique.clone());
        let last = new.iter().map(|new| self.insert_unique(new, now, late)).last();
        (self.rows, self.unique) = before;
        last.unwrap_or_else(|| Err(Error::invalid("nothing was enqueued")))
    }

    pub(super) fn insert_unique(&mut self, new: &NewMessage, now: Timestamp, late: Timestamp) -> Result<Stored> {
        // A message that is stored already takes no key again: its key may have passed to a newer one.
        let Some(unique) = new.unique.as_ref().filter(|_| !self.knows(new.work_item_id())) else {
            return Ok(self.insert_new(new, now, late));
        };
        let mut replaced = None;
        if let Some((holder, waits)) = self.holder(&unique.key, new.work_item_id(), now) {
            match unique.clash {
                Clash::Replace if waits => replaced = Some(holder),
                Clash::Refuse => return Err(refused(holder)),
                Clash::Replace | Clash::Keep => return Ok(Stored::new(holder, true)),
            }
        }
        if let Some(record) = replaced.and_then(|holder| self.by_work_item(holder)) {
            record.cancel(Operator::replacing(), now);
        }
        let id = new.work_item_id();
        let before = self.unique.get(&unique.key).filter(|key| key.id == id);
        let replaced = replaced.or(before.and_then(|key| key.replaced));
        let (until, until_done) = (unique.until(now), unique.has_it == HasIt::UntilDone);
        let key = Key { id, until, until_done, replaced, look_at: look_first(until, now) };
        self.unique.insert(unique.key.clone(), key);
        let stored = self.insert_new(new, now, late);
        let replaced = replaced.filter(|_| stored.is_new() && unique.clash == Clash::Replace);
        Ok(Stored { replaced, ..stored })
    }

    /// Returns the other message that has the key, and whether it waits.
    fn holder(&mut self, key: &str, than: WorkItemId, now: Timestamp) -> Option<(WorkItemId, bool)> {
        let Key { id, until, until_done, .. } = *self.unique.get(key).filter(|key| key.id != than)?;
        let record = self.by_work_item(id);
        // One that waits and is about to expire will not be handled.
        let is_over = |record: &Record| {
            record.state() == State::Ready && record.work.expires_at.is_some_and(|expires_at| expires_at <= now)
        };
        let state = record.filter(|record| !is_over(record)).map(|record| record.state());
        let waits = state == Some(State::Ready);
        let has_it = match until {
            Some(until) => until > now,
            None => waits || until_done && state == Some(State::Leased),
        };
        has_it.then_some((id, waits))
    }

    pub(super) fn sweep_keys(&mut self, now: Timestamp) {
        let mut unique = std::mem::take(&mut self.unique);
        unique.retain(|_, key| {
            let state = self.by_work_item(key.id).map(|record| record.state());
            let lives = matches!(state, Some(State::Ready | State::Leased));
            let look_at = Some(key.look_at).filter(|at| *at > now).or_else(|| look_again(key.until, lives, now));
            look_at.inspect(|at| key.look_at = *at).is_some()
        });
        self.unique = unique;
    }

    pub(super) fn last_holder(&self, key: &str) -> Option<WorkItemId> {
        self.unique.get(key).map(|key| key.id)
    }
}

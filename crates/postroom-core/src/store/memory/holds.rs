//! Held places in memory.

use super::table::Table;
use crate::queue::{Place, State};
use crate::store::holds::WAITING_COUNTED;
use crate::store::{Hold, HoldChange, Record};
use crate::support::clock::Timestamp;

impl Table {
    pub(super) fn hold(&mut self, change: &HoldChange, now: Timestamp) {
        let is_told =
            |place: &Place| change.lifted.contains(place) || change.held.iter().any(|hold| hold.place == *place);
        self.holds.retain(|(owner, hold)| hold.is_fresh(now) && !(*owner == change.owner && is_told(&hold.place)));
        self.holds.extend(change.held.iter().map(|hold| (change.owner, hold.clone())));
    }

    pub(super) fn holds(&self, now: Timestamp) -> Vec<Hold> {
        let mut holds = Hold::merged(self.holds.iter().map(|(_, hold)| hold.clone()).collect(), now);
        for hold in &mut holds {
            let waits = |record: &&Record| {
                record.state() == State::Ready
                    && record.message.as_ref().is_ok_and(|message| Place::of(message) == hold.place)
            };
            hold.waiting = self.rows.values().filter(waits).take(WAITING_COUNTED).count() as u64;
        }
        holds
    }
}

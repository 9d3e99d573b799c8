//! A store in which nothing was found, and which has not changed since.

use crate::clock::Timestamp;
use crate::store::Fingerprint;
use crate::workqueue::WorkQueue;

/// Nothing to do as long as the store stays as it was, until the next message is due.
pub(super) struct Quiet {
    pub(super) fingerprint: Fingerprint,
    pub(super) next_at: Option<Timestamp>,
}

impl Quiet {
    pub(super) fn lasts(&self, queue: &WorkQueue) -> bool {
        let is_due = self.next_at.is_some_and(|next_at| next_at <= queue.time_hint());
        !is_due && queue.fingerprint() == Some(self.fingerprint)
    }
}

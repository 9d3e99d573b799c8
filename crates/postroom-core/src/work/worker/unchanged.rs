//! A store in which nothing was found and that has not changed since.

use crate::mailbox::work_queue::WorkQueue;
use crate::queue::Topics;
use crate::store::Fingerprint;
use crate::support::clock::Timestamp;

/// There is nothing to do while the store stays unchanged, until the next message is due.
pub(super) struct Quiet {
    pub(super) fingerprint: Fingerprint,
    pub(super) next_at: Option<Timestamp>,
    /// The topics that were looked for.
    pub(super) topics: Option<Topics>,
}

impl Quiet {
    /// Returns whether this still holds for these topics.
    pub(super) fn lasts(&self, queue: &WorkQueue, topics: Option<&Topics>) -> bool {
        let is_due = self.next_at.is_some_and(|next_at| next_at <= queue.time_hint());
        !is_due && self.topics.as_ref() == topics && queue.fingerprint() == Some(self.fingerprint)
    }
}

//! A store in which nothing was found, and which has not changed since.

use crate::mailbox::work_queue::WorkQueue;
use crate::queue::Topics;
use crate::store::Fingerprint;
use crate::support::clock::Timestamp;

/// Nothing to do as long as the store stays as it was, until the next message is due.
pub(super) struct Quiet {
    pub(super) fingerprint: Fingerprint,
    pub(super) next_at: Option<Timestamp>,
    /// What was looked for.
    pub(super) topics: Option<Topics>,
}

impl Quiet {
    /// Whether that is still so for who looks for these.
    pub(super) fn lasts(&self, queue: &WorkQueue, topics: Option<&Topics>) -> bool {
        let is_due = self.next_at.is_some_and(|next_at| next_at <= queue.time_hint());
        !is_due && self.topics.as_ref() == topics && queue.fingerprint() == Some(self.fingerprint)
    }
}

//! What a handler's transaction does in memory.

use super::MemoryStore;
use crate::message::{NewMessage, WorkItemId};
use crate::queue::{Queue, Settle};
use crate::store::{Store, Stored};
use crate::support::error::Result;

impl MemoryStore {
    /// Returns whether the row exists.
    pub(crate) fn knows(&self, id: WorkItemId) -> bool {
        self.tables().outbox.knows(id)
    }

    /// Returns what would become of the last of these messages if they were stored now.
    pub(crate) fn would_store(&self, enqueued: &[NewMessage]) -> Result<Stored> {
        let (now, doubt) = self.time();
        self.tables().outbox.would_store(enqueued, now, doubt.late(now))
    }

    /// Ends a handler's transaction: its messages, its answers and its ack are stored together, or it returns false and
    /// stores nothing.
    pub(crate) fn commit(
        &self,
        ack: Option<(Queue, Settle)>,
        enqueued: &[NewMessage],
        answers: &[(WorkItemId, String)],
    ) -> bool {
        let (now, doubt) = self.time();
        let (mut tables, late) = (self.tables(), doubt.late(now));
        let settled = ack.is_none_or(|(queue, ack)| tables.of(queue).settle(&ack, now, late).is_some());
        if settled {
            for message in enqueued {
                // Somebody may have taken its unique key since it was enqueued: then that message stays.
                drop(tables.outbox.insert_unique(message, now, late));
            }
            for (id, response) in answers {
                tables.outbox.answer(*id, response);
            }
        }
        [Queue::Outbox, Queue::Inbox].into_iter().for_each(|queue| tables.of(queue).order_lanes());
        drop(tables);
        self.wake(Queue::Outbox).ring();
        settled
    }
}

//! The results of the verbs that store a message: whether it is new.

use crate::message::WorkItemId;

/// Whether an enqueued message is new.
///
/// ```
/// use postroom::{NewMessage, Outbox};
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// let message = NewMessage::new("order.placed", "{}");
/// let first = outbox.enqueue(message.clone()).await?;
/// let again = outbox.enqueue(message).await?;
/// assert!(first.is_new() && again.is_duplicate() && again.id() == first.id());
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored {
    pub(crate) id: WorkItemId,
    pub(crate) duplicate: bool,
    pub(crate) replaced: Option<WorkItemId>,
}

impl Stored {
    pub(crate) fn new(id: WorkItemId, duplicate: bool) -> Self {
        Self { id, duplicate, replaced: None }
    }

    /// Returns the id of its row. If another message has its [unique key](crate::Unique), that is the id of the other
    /// one.
    pub fn id(&self) -> WorkItemId {
        self.id
    }

    /// Returns the message that it took the place of, under the same [unique key](crate::Unique). That one waited, and
    /// is dismissed now.
    pub fn replaced(&self) -> Option<WorkItemId> {
        self.replaced
    }

    /// Returns whether the message is new.
    pub fn is_new(&self) -> bool {
        !self.duplicate
    }

    /// Returns whether the message existed before, or another one has its unique key. Nothing was written then.
    pub fn is_duplicate(&self) -> bool {
        self.duplicate
    }
}

/// The result for an incoming message.
///
/// ```
/// use postroom::{Inbox, InboxKey, Incoming};
/// use postroom::store::{Arrival, MemoryStore};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let inbox = Inbox::new(MemoryStore::new());
/// let paid = |amount: &str| Ok::<_, postroom::Error>(Incoming::new(InboxKey::new("stripe", "1")?, "paid", amount));
/// assert_eq!(inbox.accept(paid("10")?).await?, Arrival::First);
/// assert_eq!(inbox.accept(paid("99")?).await?, Arrival::Known { done: false, differs: true });
/// assert_eq!(inbox.enqueue(paid("99")?).await?, Arrival::Replaced);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Arrival {
    /// It is new and in the queue.
    First,
    /// It was only seen before; it is in the queue now.
    Seen {
        /// It arrived with a different hash than the first time.
        hash_differs: bool,
    },
    /// It was known. Its content is the same, or was not stored.
    Known {
        /// It was handled before.
        done: bool,
        /// Its content differs from the stored content.
        differs: bool,
    },
    /// It was known, and its content replaced the stored content.
    Replaced,
}

impl Arrival {
    /// Returns whether the message was neither in the queue nor handled before. It is in the queue now.
    pub fn is_new(self) -> bool {
        !self.is_duplicate()
    }

    /// Returns whether the message was in the queue, or handled, before.
    pub fn is_duplicate(self) -> bool {
        matches!(self, Self::Known { .. } | Self::Replaced)
    }
}

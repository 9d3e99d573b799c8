//! Whether a message is new: what the verbs that store one answer.

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
}

impl Stored {
    /// Its row's id.
    pub fn id(&self) -> WorkItemId {
        self.id
    }

    /// It was not there before.
    pub fn is_new(&self) -> bool {
        !self.duplicate
    }

    /// It was there before; nothing was written.
    pub fn is_duplicate(&self) -> bool {
        self.duplicate
    }
}

/// What became of a message that arrived.
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
    /// It is new and in line.
    First,
    /// It was only seen before; it is in line now.
    Seen {
        /// It came with another hash than the first time.
        hash_differs: bool,
    },
    /// It was known; the same content, or content that was not taken.
    Known {
        /// It was handled before.
        done: bool,
        /// Its content is not the stored one.
        differs: bool,
    },
    /// It was known, and its content replaced the stored one.
    Replaced,
}

impl Arrival {
    /// Whether the message was neither in line nor handled before: now it is in line.
    pub fn is_new(self) -> bool {
        !self.is_duplicate()
    }

    /// Whether the message was in line, or handled, before.
    pub fn is_duplicate(self) -> bool {
        matches!(self, Self::Known { .. } | Self::Replaced)
    }
}

//! Handlers' marks on messages that do not come through the inbox.

use std::sync::Arc;
use std::time::Duration;

use crate::message::InboxKey;
use crate::store::BoxFuture;
use crate::support::clock::Timestamp;
use crate::support::error::Result;

/// The identity of a mark: a message, and one of its handlers.
///
/// ```
/// fn told(mark: &postroom::store::HandledMark) -> String {
///     format!("{} had {} of {}", mark.handler(), mark.key().message_id(), mark.key().source())
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HandledMark {
    pub(crate) key: InboxKey,
    pub(crate) handler: Arc<str>,
}

impl HandledMark {
    #[doc(hidden)]
    pub fn new(key: InboxKey, handler: Arc<str>) -> Self {
        Self { key, handler }
    }

    /// Returns the key of the message.
    pub fn key(&self) -> &InboxKey {
        &self.key
    }

    /// Returns the handler's name.
    pub fn handler(&self) -> &str {
        &self.handler
    }
}

/// What is known of a message that a handler has processed: see `Idempotent::marked`.
///
/// ```
/// fn told(marked: &postroom::store::Marked) -> String {
///     format!("a message of {} was marked at {}", marked.topic(), marked.at())
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marked {
    pub(crate) topic: String,
    pub(crate) at: Timestamp,
}

impl Marked {
    /// Returns the message's topic, which is the type of a CloudEvent. It is empty if the request of a layer names
    /// none.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Returns when it was marked.
    pub fn at(&self) -> Timestamp {
        self.at
    }
}

/// What a store does with marks outside a handler's transaction. Each call is one transaction.
///
/// Implemented by the stores of this crate; its shape may change in any release. `Idempotent` is
/// how it is used.
///
/// ```
/// use postroom::idempotent::Idempotent;
/// use postroom::store::{HandledMarks, Memory, MemoryStore};
///
/// fn can_be_marked(_: &impl HandledMarks) {}
///
/// let store = MemoryStore::new();
/// can_be_marked(&store);
/// let once = Idempotent::<Memory>::new(store, "reserve-stock")?;
/// # Ok::<(), postroom::Error>(())
/// ```
pub trait HandledMarks: Send + Sync {
    /// Adds a mark to a message of that topic. Returns when it was added, or `None` if it existed before.
    fn put_mark(&self, mark: HandledMark, topic: String) -> BoxFuture<'_, Result<Option<Timestamp>>>;

    /// Returns what is known of a mark, or `None` if it does not exist or is not committed yet.
    fn find_mark(&self, mark: HandledMark) -> BoxFuture<'_, Result<Option<Marked>>>;

    /// Removes a mark that was added at that time. Returns false if it is gone, or was replaced by another one.
    fn remove_mark(&self, mark: HandledMark, marked_at: Timestamp) -> BoxFuture<'_, Result<bool>>;

    /// Deletes up to `limit` marks of a handler that are older than `retention`.
    fn purge_marks(&self, handler: Arc<str>, retention: Duration, limit: usize) -> BoxFuture<'_, Result<u64>>;
}

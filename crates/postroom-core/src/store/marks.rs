//! Marks of handlers on messages that arrive by some other way than the inbox.

use std::sync::Arc;
use std::time::Duration;

use crate::message::InboxKey;
use crate::store::BoxFuture;
use crate::support::clock::Timestamp;
use crate::support::error::Result;

/// What a mark is identified by: a message, and one of the handlers that handle it.
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

    /// The message.
    pub fn key(&self) -> &InboxKey {
        &self.key
    }

    /// The handler's name.
    pub fn handler(&self) -> &str {
        &self.handler
    }
}

/// What is known of a message that a handler had: see `Idempotent::marked`.
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
    /// The message's topic: what CloudEvents call its type. Empty where the request of a layer names none.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// When it was marked.
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
    /// Puts a mark on a message of that topic; says when that was, or none when it was there before.
    fn put_mark(&self, mark: HandledMark, topic: String) -> BoxFuture<'_, Result<Option<Timestamp>>>;

    /// What is known of a mark; none when it is not there, or not committed yet.
    fn find_mark(&self, mark: HandledMark) -> BoxFuture<'_, Result<Option<Marked>>>;

    /// Takes a mark back that was put at that time; false when it is gone, or another one by now.
    fn remove_mark(&self, mark: HandledMark, marked_at: Timestamp) -> BoxFuture<'_, Result<bool>>;

    /// Deletes up to `limit` marks of a handler that are older than `retention`.
    fn purge_marks(&self, handler: Arc<str>, retention: Duration, limit: usize) -> BoxFuture<'_, Result<u64>>;
}

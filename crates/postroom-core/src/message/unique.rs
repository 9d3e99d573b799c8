//! Unique keys: at most one message has a key at a time.

use std::fmt;
use std::time::Duration;

use crate::message::check;
use crate::support::clock::Timestamp;
use crate::support::error::{Error, Result};

/// A key that at most one message of the outbox has at a time, for how long it has it, and what happens to a message
/// that is enqueued under the same key meanwhile. By default the first one stays, and the new one is not stored.
///
/// ```
/// use postroom::message::Unique;
/// use postroom::{NewMessage, Outbox};
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// let index = |text: &str| NewMessage::new("page.changed", text).unique(Unique::while_waiting("page-7").or_replace());
/// let first = outbox.enqueue(index("first draft")).await?;
/// let second = outbox.enqueue(index("second draft")).await?;
/// assert_eq!(second.replaced(), Some(first.id()), "only the newest is handled");
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Unique {
    pub(crate) key: String,
    pub(crate) has_it: HasIt,
    pub(crate) clash: Clash,
}

/// For how long a message has its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HasIt {
    WhileWaiting,
    UntilDone,
    For(Duration),
}

/// What happens to a message whose key another one has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clash {
    Keep,
    Replace,
    Refuse,
}

impl Unique {
    /// The message has the key while it waits, also for its next attempt. Once it is in progress, the next message is
    /// stored. A message that waits and keeps another one out is handled after the transaction of the other one has
    /// ended, so its handler sees what that transaction wrote.
    pub fn while_waiting(key: impl Into<String>) -> Self {
        Self::new(key, HasIt::WhileWaiting)
    }

    /// The message has the key while it waits or is in progress: until it is done, dead, expired or dismissed.
    pub fn until_done(key: impl Into<String>) -> Self {
        Self::new(key, HasIt::UntilDone)
    }

    /// The message has the key for this long after it was enqueued, whatever becomes of it.
    pub fn within(key: impl Into<String>, time: Duration) -> Self {
        Self::new(key, HasIt::For(time))
    }

    fn new(key: impl Into<String>, has_it: HasIt) -> Self {
        Self { key: key.into(), has_it, clash: Clash::Keep }
    }

    /// Lets the new message take the place of one that waits. That one is dismissed. One that has the key and does not
    /// wait any more stays.
    #[must_use]
    pub fn or_replace(self) -> Self {
        Self { clash: Clash::Replace, ..self }
    }

    /// Makes it an error ([`ErrorKind::Duplicate`](crate::ErrorKind::Duplicate)) if another message has the key.
    #[must_use]
    pub fn or_refuse(self) -> Self {
        Self { clash: Clash::Refuse, ..self }
    }

    pub(super) fn check(&self) -> Result<()> {
        check::name("unique key", &self.key)?;
        match self.has_it {
            HasIt::For(Duration::ZERO) => {
                Err(Error::invalid("a message must have its unique key for longer than zero"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the time until which a message that is enqueued now has the key, if it is a time.
    pub(crate) fn until(&self, now: Timestamp) -> Option<Timestamp> {
        match self.has_it {
            HasIt::For(time) => Some(now.plus(time)),
            HasIt::WhileWaiting | HasIt::UntilDone => None,
        }
    }
}

// A key is the user's data, so it is never printed.
impl fmt::Debug for Unique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { has_it, clash, .. } = self;
        f.debug_struct("Unique").field("has_it", has_it).field("clash", clash).finish_non_exhaustive()
    }
}

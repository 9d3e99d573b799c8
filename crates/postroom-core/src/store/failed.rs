//! Dead letters, as an operator sees a list of them: never with their payload.

use std::fmt;

use crate::message::Origin;
use crate::queue::State;
use crate::sql::dialect::ERROR_CHARS;
use crate::store::Operator;
use crate::support::clock::Timestamp;

/// How many characters of an error text identify the problem.
///
/// ```
/// // What an operator sees of an error in a list.
/// let shown: String = "connection refused".chars().take(postroom::operator::ERROR_GROUP_CHARS).collect();
/// assert_eq!(shown, "connection refused");
/// ```
pub const ERROR_GROUP_CHARS: usize = ERROR_CHARS;

/// A dead letter without its content.
///
/// ```
/// # use std::time::Duration;
/// # use postroom::{NewMessage, Outbox};
/// # use postroom::message::OwnerToken;
/// # use postroom::store::MemoryStore;
/// use postroom::operator::Filter;
/// use postroom::queue::State;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let outbox = Outbox::new(MemoryStore::new());
/// # outbox.enqueue(NewMessage::new("order.placed", "{}")).await?;
/// # let claims = outbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 10).await?;
/// # let _ = outbox.queue().fail(claims.claimed.into_iter().map(|claimed| claimed.lease), "no such item").await?;
/// for failed in outbox.queue().failed(Filter::all().state(State::Dead)).await? {
///     assert_eq!((failed.topic.as_str(), failed.error.as_deref()), ("order.placed", Some("no such item")));
/// }
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Failed {
    /// The row's number.
    pub seq: i64,
    /// Its identity; `None` if that cannot be read.
    pub origin: Option<Origin>,
    /// Its topic; empty if that cannot be read.
    pub topic: String,
    /// Dead or expired; or dismissed, if the filter asked for those.
    pub state: State,
    /// The number of failed attempts.
    pub attempts: u32,
    /// The start of the last error: [`ERROR_GROUP_CHARS`] characters of it.
    pub error: Option<String>,
    /// When it became dead or expired, or was dismissed.
    pub at: Option<Timestamp>,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// Who dismissed it and why, if it is dismissed.
    pub dismissal: Option<Operator>,
    pub(crate) party: Option<String>,
}

impl Failed {
    /// Returns its destination or its source.
    pub fn party(&self) -> Option<&str> {
        self.party.as_deref()
    }
}

// Error texts are the user's data, so they are never printed.
impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failed").field("seq", &self.seq).field("state", &self.state).finish_non_exhaustive()
    }
}

/// Dead letters with the same error.
///
/// ```
/// # use std::time::Duration;
/// # use postroom::{NewMessage, Outbox};
/// # use postroom::message::OwnerToken;
/// # use postroom::store::MemoryStore;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let outbox = Outbox::new(MemoryStore::new());
/// # for _ in 0..2 {
/// #     outbox.enqueue(NewMessage::new("order.placed", "{}").to("billing")).await?;
/// # }
/// # let claims = outbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 10).await?;
/// # let _ = outbox.queue().fail(claims.claimed.into_iter().map(|claimed| claimed.lease), "no such item").await?;
/// let groups = outbox.queue().failed_groups(1000).await?;
/// assert_eq!((groups[0].party.as_deref(), groups[0].messages), (Some("billing"), 2));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedGroup {
    /// Their topic.
    pub topic: String,
    /// Their destination or their source.
    pub party: Option<String>,
    /// The start of the last error: [`ERROR_GROUP_CHARS`] characters of it.
    pub error: Option<String>,
    /// Dead or expired.
    pub state: State,
    /// The number of messages.
    pub messages: u64,
    /// When the first of them became a dead letter.
    pub first_at: Option<Timestamp>,
    /// When the last of them became a dead letter.
    pub last_at: Option<Timestamp>,
    /// The number of the first of their rows.
    pub first_row: i64,
}

impl fmt::Debug for FailedGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailedGroup")
            .field("state", &self.state)
            .field("messages", &self.messages)
            .finish_non_exhaustive()
    }
}

/// Returns the part of an error that is compared.
pub(crate) fn looked_at(error: &str) -> String {
    error.chars().take(ERROR_GROUP_CHARS).collect()
}

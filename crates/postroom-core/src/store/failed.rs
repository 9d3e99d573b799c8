//! Dead letters, as an operator looks through many of them: never with their payload.

use std::fmt;

use crate::message::Origin;
use crate::queue::State;
use crate::sql::dialect::ERROR_CHARS;
use crate::store::Operator;
use crate::support::clock::Timestamp;

/// So much of an error's text tells what it is about.
///
/// ```
/// // What an operator sees of an error in a list.
/// let shown: String = "connection refused".chars().take(postroom::operator::ERROR_GROUP_CHARS).collect();
/// assert_eq!(shown, "connection refused");
/// ```
pub const ERROR_GROUP_CHARS: usize = ERROR_CHARS;

/// A message that became a dead letter, without what it holds.
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
    /// What it is identified by; none when that cannot be read.
    pub origin: Option<Origin>,
    /// Its topic; empty when that cannot be read.
    pub topic: String,
    /// Dead or expired; or dismissed, if those were asked for.
    pub state: State,
    /// Failed attempts.
    pub attempts: u32,
    /// The beginning of what went wrong last: [`ERROR_GROUP_CHARS`] characters of it.
    pub error: Option<String>,
    /// When it became a dead letter, or dismissed.
    pub at: Option<Timestamp>,
    /// When its time is over.
    pub expires_at: Option<Timestamp>,
    /// Who dismissed it and why, if it is dismissed.
    pub dismissal: Option<Operator>,
    pub(crate) party: Option<String>,
}

impl Failed {
    /// Where it was to go to, or where it came from.
    pub fn party(&self) -> Option<&str> {
        self.party.as_deref()
    }
}

// Error texts are the user's data: never printed.
impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failed").field("seq", &self.seq).field("state", &self.state).finish_non_exhaustive()
    }
}

/// Dead letters with the same words.
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
    /// Where they were to go to, or where they came from.
    pub party: Option<String>,
    /// The beginning of what went wrong last: [`ERROR_GROUP_CHARS`] characters of it.
    pub error: Option<String>,
    /// Dead or expired.
    pub state: State,
    /// How many they are.
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

/// The part of an error that is looked at.
pub(crate) fn looked_at(error: &str) -> String {
    error.chars().take(ERROR_GROUP_CHARS).collect()
}

//! How messages are marked.

use std::time::Duration;

use crate::error::{Error, Result};

/// When a message is marked as handled.
///
/// What a crash does in each mode stands in the guide on idempotency.
///
/// ```
/// use postroom::{IdempotentOptions, Marking};
///
/// assert_eq!(Marking::default(), Marking::InTransaction);
/// let at_most_once = IdempotentOptions::default().marking(Marking::before_handling());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Marking {
    /// In the handler's own transaction: what the handler writes there is stored with the mark, or neither is. A
    /// message that is delivered again after a crash or a failure is handled again, and has its effect once.
    #[default]
    InTransaction,
    /// In a transaction of its own, before the handler runs: **a message whose handler did not come to its end is not
    /// handled again**, so it is handled at most once. For effects that no transaction can hold and that are worse
    /// twice than never.
    #[non_exhaustive]
    BeforeHandling {
        /// Takes the mark back when the handler fails, so that the message can be handled again. A crash keeps it.
        release_claim_on_error: bool,
    },
}

impl Marking {
    /// Before the handler runs; a failure keeps the mark.
    pub fn before_handling() -> Self {
        Self::BeforeHandling { release_claim_on_error: false }
    }
}

/// How an [`Idempotent`](crate::Idempotent) marks messages, and for how long.
///
/// ```
/// use postroom::{IdempotentOptions, Marking};
/// use std::time::Duration;
///
/// let options = IdempotentOptions::default()
///     .marking(Marking::before_handling())
///     .release_claim_on_error(true)
///     .retention(Duration::from_secs(7 * 24 * 3600));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IdempotentOptions {
    pub(crate) marking: Marking,
    pub(crate) retention: Duration,
    pub(crate) enabled: bool,
}

impl Default for IdempotentOptions {
    fn default() -> Self {
        Self { marking: Marking::default(), retention: Duration::from_secs(30 * 24 * 3600), enabled: true }
    }
}

impl IdempotentOptions {
    /// When a message is marked; in the handler's own transaction unless told otherwise.
    #[must_use]
    pub fn marking(mut self, marking: Marking) -> Self {
        self.marking = marking;
        self
    }

    /// Marks before handling, and says whether a failure takes the mark back.
    #[must_use]
    pub fn release_claim_on_error(mut self, release_claim_on_error: bool) -> Self {
        self.marking = Marking::BeforeHandling { release_claim_on_error };
        self
    }

    /// For how long marks are kept; 30 days unless told otherwise. It must be longer than the broker may take to
    /// deliver a message again: after it, a duplicate is handled like a new message.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Whether messages are marked at all. Switched off, the handler runs for every delivery, in its own transaction.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// Whether the handler runs under a mark that is there already.
    pub(super) fn is_marked_before(&self) -> bool {
        self.enabled && self.marking != Marking::InTransaction
    }

    pub(super) fn checked(self) -> Result<Self> {
        if self.retention.is_zero() {
            return Err(Error::invalid("marks must be kept for longer than zero"));
        }
        Ok(self)
    }
}

//! Who dismissed a dead letter, and why.

use std::fmt;

use super::audit::checked;
use crate::support::error::Result;

/// Names and reasons are at most so long.
const BY_CHARS_MAX: usize = 255;
const WHY_CHARS_MAX: usize = 2000;

/// Who dismisses dead letters, and why. Both are kept with each message.
///
/// ```
/// use std::time::Duration;
/// use postroom::{Dismissal, Filter, MemoryStore, NewMessage, Outbox, OwnerToken, State};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// outbox.enqueue(NewMessage::new("order.placed", "{}")).await?;
/// # let claims = outbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 10).await?;
/// # let _ = outbox.queue().fail(claims.claimed.into_iter().map(|claimed| claimed.lease), "no such item").await?;
/// let dismissal = Dismissal::new("ada", "an order of the load test")?;
/// assert_eq!(outbox.queue().dismiss(Filter::all().topic("order.placed"), dismissal).await?, 1);
/// let record = outbox.queue().list(Filter::all().state(State::Dismissed)).await?.remove(0);
/// assert_eq!(record.dismissal().map(Dismissal::why), Some("an order of the load test"));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Dismissal {
    pub(crate) by: String,
    pub(crate) why: String,
}

impl Dismissal {
    /// Neither may be empty. A name has at most 255 characters, a reason at most 2000.
    pub fn new(by: impl Into<String>, why: impl Into<String>) -> Result<Self> {
        let by = checked("who dismisses a message", &by.into(), BY_CHARS_MAX)?;
        Ok(Self { by, why: checked("the reason of a dismissal", &why.into(), WHY_CHARS_MAX)? })
    }

    /// What is left of a message that the program took back.
    pub(crate) fn cancelled() -> Self {
        Self { by: "the program".into(), why: "cancelled".into() }
    }

    /// Who dismissed it.
    pub fn by(&self) -> &str {
        &self.by
    }

    /// Why.
    pub fn why(&self) -> &str {
        &self.why
    }
}

// A reason is the user's data: never printed.
impl fmt::Debug for Dismissal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dismissal").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dismissal_says_who_and_why() {
        assert!(Dismissal::new(" ", "obsolete").is_err());
        assert!(Dismissal::new("ada", "").is_err());
        assert!(Dismissal::new("ada", "x".repeat(WHY_CHARS_MAX + 1)).is_err());
        assert!(Dismissal::new("ada", "a\0b").is_err());
        let dismissal = Dismissal::new(" ada ", "ä".repeat(WHY_CHARS_MAX)).unwrap();
        assert_eq!((dismissal.by(), dismissal.why().chars().count()), ("ada", WHY_CHARS_MAX));
    }
}

//! Who changes messages by hand, and why.

use std::fmt;

use crate::support::error::{Error, Result};

/// The longest names, reasons and choices.
const WHO_CHARS_MAX: usize = 255;
const WHY_CHARS_MAX: usize = 2000;
/// The name if none was given.
pub(super) const UNNAMED: &str = "unnamed";

/// Who changes messages by hand, and why. Changes through [`WorkQueue::by`](crate::WorkQueue::by) are written to the
/// audit trail in the same transaction. A dismissed message also stores who dismissed it, and why.
///
/// ```
/// # use std::time::Duration;
/// # use postroom::{NewMessage, Outbox};
/// # use postroom::message::OwnerToken;
/// # use postroom::store::MemoryStore;
/// use postroom::operator::{Act, Filter, Operator};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let outbox = Outbox::new(MemoryStore::new());
/// # outbox.enqueue(NewMessage::new("order.placed", "{}")).await?;
/// # let claims = outbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 10).await?;
/// # let _ = outbox.queue().fail(claims.claimed.into_iter().map(|claimed| claimed.lease), "no such item").await?;
/// let ada = Operator::new("ada")?.because("billing is back")?;
/// outbox.queue().by(ada).revive(Filter::all(), None).await?;
/// let entry = outbox.queue().audit(10).await?.remove(0);
/// assert_eq!((entry.who(), entry.act(), entry.messages()), ("ada", Act::Revive, 1));
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Operator {
    pub(super) who: String,
    pub(super) why: Option<String>,
    pub(super) chosen: Option<String>,
}

impl Operator {
    /// Creates an operator by name: at most 255 characters, and not empty.
    pub fn new(who: impl Into<String>) -> Result<Self> {
        let who = checked("the name of an operator", &who.into(), WHO_CHARS_MAX)?;
        Ok(Self { who, why: None, chosen: None })
    }

    /// Sets the reason: at most 2000 characters.
    pub fn because(self, why: impl Into<String>) -> Result<Self> {
        Ok(Self { why: Some(checked("the reason", &why.into(), WHY_CHARS_MAX)?), ..self })
    }

    /// Sets which messages were chosen, in words: at most 2000 characters.
    pub fn chose(self, which: impl Into<String>) -> Result<Self> {
        Ok(Self { chosen: Some(checked("what was chosen", &which.into(), WHY_CHARS_MAX)?), ..self })
    }

    /// Says what was chosen, if nobody has.
    pub(crate) fn about(self, which: &dyn fmt::Display) -> Result<Self> {
        if self.chosen.is_some() { Ok(self) } else { self.chose(which.to_string()) }
    }

    /// Returns the name.
    pub fn who(&self) -> &str {
        &self.who
    }

    /// Returns the reason, if one was given.
    pub fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// Returns which messages were chosen, if that was recorded.
    pub fn chosen(&self) -> Option<&str> {
        self.chosen.as_deref()
    }

    /// Returns the operator of a message that a newer one in its lane took the place of.
    pub(crate) fn superseding() -> Self {
        Self { who: "postroom".into(), why: Some("superseded in its lane".into()), chosen: None }
    }

    /// Returns the operator of a message that a newer one with its unique key took the place of.
    pub(crate) fn replacing() -> Self {
        Self { who: "postroom".into(), why: Some("replaced under its unique key".into()), chosen: None }
    }

    /// Creates the operator that is stored with a dismissed message.
    pub(crate) fn dismissed(who: String, why: Option<String>) -> Self {
        Self { who, why, chosen: None }
    }
}

// A reason is the user's data, so it is never printed.
impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator").field("who", &self.who).finish_non_exhaustive()
    }
}

fn checked(what: &str, text: &str, chars_max: usize) -> Result<String> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Error::invalid(format!("{what} must not be empty")));
    }
    if text.chars().count() > chars_max {
        return Err(Error::invalid(format!("{what} is longer than {chars_max} characters")));
    }
    if text.contains('\0') {
        return Err(Error::invalid(format!("{what} must not contain a NUL character")));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_has_a_name() {
        assert!(Operator::new(" ").is_err() && Operator::new("x".repeat(WHO_CHARS_MAX + 1)).is_err());
        assert!(Operator::new("ada").unwrap().because("").is_err());
        assert!(Operator::new("ada").unwrap().because("x".repeat(WHY_CHARS_MAX + 1)).is_err());
        let ada = Operator::new(" ada ").unwrap().because("because").unwrap().chose("all").unwrap();
        assert_eq!((ada.who(), ada.why(), ada.chosen()), ("ada", Some("because"), Some("all")));
        assert!(Operator::new("ada").unwrap().because("a\0b").is_err());
        assert!(Operator::new("ada").unwrap().because("ä".repeat(WHY_CHARS_MAX)).is_ok());
        assert!(!format!("{ada:?}").contains("because"), "a reason is not printed");
    }
}

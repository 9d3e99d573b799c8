//! What operators change, and the trail that it leaves.

use std::fmt;
use std::time::Duration;

use uuid::Uuid;

use super::{Dismissal, Filter, Revival};
use crate::message::WorkItemId;
use crate::support::clock::Timestamp;
use crate::support::error::{Error, Result};

/// Names, reasons and choices are at most so long.
const WHO_CHARS_MAX: usize = 255;
const WHY_CHARS_MAX: usize = 2000;
/// Who it is when nobody said so.
const UNNAMED: &str = "unnamed";

/// Who changes messages by hand, and why. What is changed through [`WorkQueue::by`](crate::WorkQueue::by) is written to
/// the audit trail, in the same transaction.
///
/// ```
/// # use std::time::Duration;
/// # use postroom::{MemoryStore, NewMessage, Outbox, OwnerToken};
/// use postroom::{Act, Filter, Operator};
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
    who: String,
    why: Option<String>,
    chosen: Option<String>,
}

impl Operator {
    /// By name: at most 255 characters, and not empty.
    pub fn new(who: impl Into<String>) -> Result<Self> {
        let who = checked("the name of an operator", &who.into(), WHO_CHARS_MAX)?;
        Ok(Self { who, why: None, chosen: None })
    }

    /// Why it is done: at most 2000 characters.
    pub fn because(self, why: impl Into<String>) -> Result<Self> {
        Ok(Self { why: Some(checked("the reason", &why.into(), WHY_CHARS_MAX)?), ..self })
    }

    /// Which messages were chosen, in words: at most 2000 characters.
    pub fn chose(self, which: impl Into<String>) -> Result<Self> {
        Ok(Self { chosen: Some(checked("what was chosen", &which.into(), WHY_CHARS_MAX)?), ..self })
    }
}

// A reason is the user's data: never printed.
impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator").field("who", &self.who).finish_non_exhaustive()
    }
}

pub(super) fn checked(what: &str, text: &str, chars_max: usize) -> Result<String> {
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

/// What an operator did.
///
/// ```
/// assert_eq!(postroom::Act::Revive.as_str(), "revive");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Act {
    /// Put messages back in line that had failed.
    Revive,
    /// Put messages back in line that were done.
    Redrive,
    /// Dismissed dead letters.
    Dismiss,
    /// Expired what was past its time.
    Expire,
    /// Deleted done messages.
    Purge,
}

impl Act {
    const ALL: [Self; 5] = [Self::Revive, Self::Redrive, Self::Dismiss, Self::Expire, Self::Purge];

    /// In one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Revive => "revive",
            Self::Redrive => "redrive",
            Self::Dismiss => "dismiss",
            Self::Expire => "expire",
            Self::Purge => "purge",
        }
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|act| act.as_str() == text)
    }
}

/// An entry of the audit trail.
///
/// ```
/// # fn f(entry: postroom::Audited) -> String {
/// format!("{} {}: {} {} messages", entry.at(), entry.who(), entry.act().as_str(), entry.messages())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Audited {
    pub(crate) at: Timestamp,
    pub(crate) act: Act,
    pub(crate) messages: u64,
    pub(crate) operator: Operator,
}

impl Audited {
    /// When it began.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// What was done.
    pub fn act(&self) -> Act {
        self.act
    }

    /// To how many messages.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Who did it.
    pub fn who(&self) -> &str {
        &self.operator.who
    }

    /// Why, if that was said.
    pub fn why(&self) -> Option<&str> {
        self.operator.why.as_deref()
    }

    /// Which messages were chosen, if that was said.
    pub fn chosen(&self) -> Option<&str> {
        self.operator.chosen.as_deref()
    }

    pub(crate) fn read(at: Timestamp, act: Act, messages: u64, told: [Option<String>; 3]) -> Self {
        let [who, why, chosen] = told;
        let operator = Operator { who: who.unwrap_or_else(|| UNNAMED.into()), why, chosen };
        Self { at, act, messages, operator }
    }
}

impl fmt::Debug for Audited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audited").field("at", &self.at).field("act", &self.act).finish_non_exhaustive()
    }
}

/// What an operator changes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Operation {
    /// Dead and expired rows are dismissed.
    Dismiss(Filter, Dismissal),
    /// Dead and expired rows go back in line, or dismissed ones if the filter asks for them. Those past their time need
    /// a new time to live.
    Revive(Filter, Revival),
    /// Done rows of the outbox go back in line: the receiver was restored from a backup.
    Redrive(Filter, Revival),
    /// A waiting row of the outbox is taken back.
    Cancel(WorkItemId),
    /// So many waiting rows that are past their time expire.
    Expire(usize),
    /// Rows that were done longer ago than that are deleted, up to so many.
    Purge(Duration, usize),
}

impl Operation {
    /// How it stands in the trail. What programs do all the time does not: the row says it.
    pub(crate) fn act(&self) -> Option<Act> {
        Some(match self {
            Self::Dismiss(..) => Act::Dismiss,
            Self::Revive(..) => Act::Revive,
            Self::Redrive(..) => Act::Redrive,
            Self::Cancel(_) => return None,
            Self::Expire(_) => Act::Expire,
            Self::Purge(..) => Act::Purge,
        })
    }

    /// In one word.
    pub(crate) fn as_str(&self) -> &'static str {
        self.act().map_or("cancel", Act::as_str)
    }
}

/// One act of an operator, in as many steps as it takes: they are one entry of the trail.
#[derive(Clone, Debug)]
pub struct Deed {
    pub(crate) id: Uuid,
    pub(crate) operator: Operator,
}

impl Deed {
    pub(crate) fn new(operator: Operator) -> Self {
        Self { id: Uuid::now_v7(), operator }
    }

    /// Of somebody who gave no name, except to what is dismissed.
    pub(crate) fn unnamed(operation: &Operation) -> Self {
        Self::new(match operation {
            Operation::Dismiss(_, Dismissal { by, why }) => {
                Operator { who: by.clone(), why: Some(why.clone()), chosen: None }
            }
            _ => Operator { who: UNNAMED.into(), why: None, chosen: None },
        })
    }

    pub(crate) fn told(&self) -> [Option<&str>; 3] {
        let Operator { who, why, chosen } = &self.operator;
        [Some(who.as_str()), why.as_deref(), chosen.as_deref()]
    }
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
        assert_eq!(Deed::new(ada.clone()).told(), [Some("ada"), Some("because"), Some("all")]);
        assert!(!format!("{ada:?}").contains("because"), "a reason is not printed");
    }

    #[test]
    fn acts_are_read_as_they_are_written() {
        for act in Act::ALL {
            assert_eq!(Act::read(act.as_str()), Some(act));
        }
        assert_eq!(Act::read("sing"), None);
    }
}

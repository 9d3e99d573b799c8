//! What operators change, and the audit trail.

use std::fmt;
use std::time::Duration;

use uuid::Uuid;

use super::operator::{Operator, UNNAMED};
use super::{Filter, Revival};
use crate::queue::{Limit, Scope};
use crate::support::clock::Timestamp;

/// What an operator did.
///
/// ```
/// assert_eq!(postroom::operator::Act::Revive.as_str(), "revive");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Act {
    /// The operator requeued failed messages.
    Revive,
    /// The operator put done messages back in the queue.
    Redrive,
    /// The operator dismissed dead letters.
    Dismiss,
    /// The operator expired messages past their time to live.
    Expire,
    /// The operator deleted done messages.
    Purge,
    /// The operator paused a queue or a part of it.
    Pause,
    /// The operator let it go on.
    Resume,
    /// The operator set a limit, or removed it.
    Limit,
    /// The operator cancelled messages.
    Cancel,
}

impl Act {
    const ALL: [Self; 9] = [
        Self::Revive,
        Self::Redrive,
        Self::Dismiss,
        Self::Expire,
        Self::Purge,
        Self::Pause,
        Self::Resume,
        Self::Limit,
        Self::Cancel,
    ];

    /// Returns the name, in one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Revive => "revive",
            Self::Redrive => "redrive",
            Self::Dismiss => "dismiss",
            Self::Expire => "expire",
            Self::Purge => "purge",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Limit => "limit",
            Self::Cancel => "cancel",
        }
    }

    /// Returns how many messages an operation changed, from how much it changed. Pauses and limits change none.
    pub(crate) fn messages(self, changed: u64) -> u64 {
        match self {
            Self::Pause | Self::Resume | Self::Limit => 0,
            _ => changed,
        }
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|act| act.as_str() == text)
    }
}

/// An entry of the audit trail.
///
/// ```
/// # fn f(entry: postroom::operator::Audited) -> String {
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
    /// Returns when the operation began.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// Returns what was done.
    pub fn act(&self) -> Act {
        self.act
    }

    /// Returns how many messages were changed: none by a pause or a limit.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Returns who did it.
    pub fn who(&self) -> &str {
        self.operator.who()
    }

    /// Returns the reason, if one was given.
    pub fn why(&self) -> Option<&str> {
        self.operator.why()
    }

    /// Returns which messages were chosen, if that was recorded.
    pub fn chosen(&self) -> Option<&str> {
        self.operator.chosen()
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

/// A change by an operator.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Operation {
    /// Dismisses dead and expired rows.
    Dismiss(Filter, Operator),
    /// Requeues dead and expired rows, or dismissed ones if the filter asks for them. Rows past their time to live need
    /// a new one.
    Revive(Filter, Revival),
    /// Puts done rows of the outbox back in the queue, because the receiver was restored from a backup.
    Redrive(Filter, Revival),
    /// Expires up to this many waiting rows past their time to live.
    Expire(usize),
    /// Deletes rows that were done longer ago than this, up to this many.
    Purge(Duration, usize),
    /// Pauses a queue or a part of it.
    Pause(Scope, Operator),
    /// Lets it go on.
    Resume(Scope, Operator),
    /// Sets a limit, or removes it.
    Limit(Scope, Limit, Operator),
}

impl Operation {
    /// Returns its name in the audit trail.
    pub(crate) fn act(&self) -> Act {
        match self {
            Self::Dismiss(..) => Act::Dismiss,
            Self::Revive(..) => Act::Revive,
            Self::Redrive(..) => Act::Redrive,
            Self::Expire(_) => Act::Expire,
            Self::Purge(..) => Act::Purge,
            Self::Pause(..) => Act::Pause,
            Self::Resume(..) => Act::Resume,
            Self::Limit(..) => Act::Limit,
        }
    }

    /// Returns the lanes of a topic whose rule changes: something follows the commit.
    pub(crate) fn lanes(&self) -> Option<&Scope> {
        match self {
            Self::Pause(scope, _) | Self::Resume(scope, _) | Self::Limit(scope, ..) => {
                Some(scope).filter(|scope| matches!(scope, Scope::Lanes(_)))
            }
            _ => None,
        }
    }
}

/// One act of an operator. It may take several steps, but they are one entry of the trail.
#[derive(Clone, Debug)]
pub struct Deed {
    pub(crate) id: Uuid,
    pub(crate) operator: Operator,
}

impl Deed {
    pub(crate) fn new(operator: Operator) -> Self {
        Self { id: Uuid::now_v7(), operator }
    }

    /// Creates an act of the operator that belongs to the operation, or else of one without a name.
    pub(crate) fn unnamed(operation: &Operation) -> Self {
        Self::new(match operation {
            Operation::Dismiss(_, operator)
            | Operation::Pause(_, operator)
            | Operation::Resume(_, operator)
            | Operation::Limit(_, _, operator) => operator.clone(),
            _ => Operator { who: UNNAMED.into(), why: None, chosen: None },
        })
    }

    /// Returns who is stored with a message that was cancelled: the program, unless somebody did it by hand.
    pub(crate) fn cancelling(deed: Option<&Self>) -> Operator {
        let by = deed.map(|deed| &deed.operator);
        let why = by.and_then(Operator::why).map_or_else(|| "cancelled".into(), |why| format!("cancelled: {why}"));
        Operator::dismissed(by.map_or("the program", Operator::who).into(), Some(why))
    }

    pub(crate) fn told(&self) -> [Option<&str>; 3] {
        [Some(self.operator.who()), self.operator.why(), self.operator.chosen()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_are_read_as_they_are_written() {
        for act in Act::ALL {
            assert_eq!(Act::read(act.as_str()), Some(act));
        }
        assert_eq!(Act::read("sing"), None);
    }
}

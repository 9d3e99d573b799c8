//! What a worker is in the middle of.

use crate::message::{List, Message};
use crate::notes::Notes;
use crate::plan::{Planned, Write};
use crate::row::Rows;
use crate::snapshot::Snapshot;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Verb {
    Ack,
    Dead,
    Retry,
    /// Its turn is decided anew.
    Wait,
}

/// A state has its workers in this order, because they are all alike. The order also decides which violation is found
/// first, and after how many states.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Worker {
    Decided {
        mine: Notes,
        plan: List<Planned>,
        saw: Option<Rows>,
    },
    Expiring {
        message: Message,
    },
    Handling {
        message: Message,
        claim: u8,
    },
    Idle,
    Noted {
        mine: Notes,
    },
    Settling {
        message: Message,
        verb: Verb,
    },
    Began(Snapshot),
    Written {
        mine: Notes,
        writes: List<Write>,
        done: Notes,
    },
    /// It fills the array of a configuration with fewer workers.
    Absent,
}

impl Worker {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Decided { .. } => "decided",
            Self::Expiring { .. } => "expiring",
            Self::Handling { .. } => "handling",
            Self::Idle => "idle",
            Self::Noted { .. } => "noted",
            Self::Settling { .. } => "settling",
            Self::Began(_) => "snapshot",
            Self::Written { .. } => "written",
            Self::Absent => "absent",
        }
    }

    pub(crate) fn is_settling(self, message: Message) -> bool {
        matches!(self, Self::Settling { message: settled, .. } if settled == message)
    }
}

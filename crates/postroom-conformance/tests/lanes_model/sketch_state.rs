//! A state of the sketch.

use crate::config::{Config, MOST_WORKERS, Sabotage};
use crate::message::{Each, List, MOST_MESSAGES, Message};
use crate::row::{End, Line, Producer};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Place {
    /// No look has seen it yet.
    Arriving,
    Behind,
    Holds,
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Arriving => "arriving",
            Self::Behind => "behind",
            Self::Holds => "holds",
        }
    }

    pub(crate) fn waits(self) -> bool {
        self != Self::Holds
    }
}

pub(crate) type Rows = Each<Option<Place>>;

/// What a worker is in the middle of. A state has its workers in this order, because they are all alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Worker {
    AckLocked {
        message: Message,
        saw: Option<Rows>,
    },
    AckFound {
        message: Message,
        next: Option<Message>,
    },
    /// A handler in REPEATABLE READ sees the rows as they were when it began.
    Handling {
        message: Message,
        claim: u8,
        saw: Option<Rows>,
    },
    Idle,
    /// It has its snapshot, and waits for the lock.
    LookWaits {
        saw: Rows,
    },
    LookLocked,
    LookFound {
        next: Option<Message>,
        arrived: List<Message>,
    },
    /// It fills the array of a configuration with fewer workers.
    Absent,
}

impl Worker {
    pub(crate) fn has_lock(self) -> bool {
        matches!(self, Self::AckLocked { .. } | Self::AckFound { .. } | Self::LookLocked | Self::LookFound { .. })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    pub(crate) producers: [Producer; MOST_MESSAGES],
    pub(crate) numbers: List<Message>,
    pub(crate) commits: List<Message>,
    pub(crate) rows: Rows,
    pub(crate) line: Each<Line>,
    pub(crate) ends: Each<End>,
    pub(crate) workers: [Worker; MOST_WORKERS],
}

impl State {
    pub(crate) fn is_lock_free(&self, config: &Config) -> bool {
        config.is(Sabotage::NoWorkerLock) || !self.workers.iter().any(|worker| worker.has_lock())
    }

    /// Returns who should be promoted as this snapshot has it: the first that waits, if nobody else holds.
    pub(crate) fn next(&self, saw: &Rows, leaving: Option<Message>) -> Option<Message> {
        let is =
            |message: Message, wanted: fn(Place) -> bool| Some(message) != leaving && saw[message].is_some_and(wanted);
        if Message::ALL.into_iter().any(|message| is(message, |place| !place.waits())) {
            return None;
        }
        self.numbers.iter().find(|message| is(*message, Place::waits))
    }

    /// Returns the state after this worker went on, if nothing else changes.
    pub(crate) fn goes_on(&self, me: usize, worker: Worker) -> Self {
        let mut workers = self.workers;
        workers[me] = worker;
        workers.sort_unstable();
        Self { workers, ..*self }
    }
}

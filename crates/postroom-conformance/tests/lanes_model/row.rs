//! Producers and rows: where a transaction is, and what the tables say of a message.

use crate::config::{Config, Script};
use crate::message::{Each, MOST_MESSAGES, joined};

/// Where a producer's transaction is. The numbers are indices into its script.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Producer {
    Locks(u8),
    Inserts(u8),
    Commits,
    Committed,
    RolledBack,
}

impl Producer {
    pub(crate) const FIRST: Self = Self::Locks(0);

    /// Returns where it is after a statement that went well.
    pub(crate) fn next(self, script: Script) -> Self {
        match self {
            Self::Locks(statement) => Self::Inserts(statement),
            Self::Inserts(statement) if usize::from(statement) + 1 < script.len() => Self::Locks(statement + 1),
            Self::Inserts(_) => Self::Commits,
            Self::Commits | Self::Committed => Self::Committed,
            Self::RolledBack => Self::RolledBack,
        }
    }

    pub(crate) fn inserts(self, statement: usize) -> bool {
        matches!(self, Self::Inserts(now) if usize::from(now) == statement)
    }

    pub(crate) fn has_ended(self) -> bool {
        matches!(self, Self::Committed | Self::RolledBack)
    }
}

/// Where the lane row of a message is, if it has one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Place {
    Waits,
    Holds,
    Died,
    Stuck,
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Waits => "waits",
            Self::Holds => "holds",
            Self::Died => "died",
            Self::Stuck => "stuck",
        }
    }
}

pub(crate) type Rows = Each<Option<Place>>;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Stands {
    Outside,
    Ready,
    Leased,
}

/// A message in the ready line, and how often it was claimed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Line {
    pub(crate) claims: u8,
    pub(crate) stands: Stands,
}

impl Line {
    pub(crate) const NEW: Self = Self { claims: 0, stands: Stands::Outside };

    pub(crate) fn now(self, stands: Stands) -> Self {
        Self { stands, ..self }
    }

    pub(crate) fn claimed(self) -> Self {
        Self { claims: self.claims + 1, stands: Stands::Leased }
    }

    pub(crate) fn is_leased_as(self, claim: u8) -> bool {
        self.stands == Stands::Leased && self.claims == claim
    }

    pub(crate) fn is_in_line(self) -> bool {
        self.stands != Stands::Outside
    }
}

/// How a message ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum End {
    Open,
    Done,
    Dead,
    /// It expired, or a newer one took its place.
    Dropped,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Pause {
    No,
    Yes,
    /// The resume committed, and its notes are not written yet.
    NotesFollow,
    /// A sabotaged resume found these lanes, and did not commit yet.
    Resuming {
        a: bool,
        b: bool,
    },
}

impl Pause {
    pub(crate) fn stops_promotion(self) -> bool {
        !matches!(self, Self::No | Self::NotesFollow)
    }
}

/// Returns producers that have not begun. Those that the configuration does not have are done.
pub(crate) fn producers(config: &Config) -> [Producer; MOST_MESSAGES] {
    let mut producers = [Producer::Committed; MOST_MESSAGES];
    producers[..config.scripts.len()].fill(Producer::FIRST);
    producers
}

pub(crate) fn describe_rows(config: &Config, places: &Each<Option<&str>>, line: &Each<Line>) -> String {
    joined(config.messages().map(|message| {
        let in_line = if line[message].is_in_line() { " in line" } else { "" };
        format!("{message} {}{in_line}", places[message].unwrap_or("no lane row"))
    }))
}

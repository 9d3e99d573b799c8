//! How old rows are deleted: the same texts for each state that is kept for a time.

use crate::queue::{Queue, State};
use crate::sql::text::SqlTemplate;

/// The texts of one database. `{old}` stands for the rows that are old enough, `{age}` for what they are ordered by.
/// The first value is the time before which a row must have come to its state, the second how many are deleted at most.
#[derive(Debug)]
pub(crate) struct PurgeTexts {
    /// What went wrong with the rows; none where the other text does both.
    pub(crate) failures: Option<&'static str>,
    /// The rows themselves.
    pub(crate) rows: &'static str,
    /// Rows that ended: done, dead, expired, dismissed. `{state}` is one of these.
    pub(crate) ended: Old,
    /// Rows that were only seen.
    pub(crate) seen: Old,
}

/// Which rows are old enough.
#[derive(Debug)]
pub(crate) struct Old {
    /// `{old}`
    pub(crate) rows: &'static str,
    /// `{age}`
    pub(crate) age: &'static str,
}

/// What deletes the old rows of one queue, by state.
#[derive(Debug)]
pub(crate) struct Purges(Vec<(State, Purge)>);

/// What deletes the old rows in one state.
#[derive(Debug)]
pub(crate) struct Purge {
    pub(crate) failures: Option<SqlTemplate>,
    pub(crate) rows: SqlTemplate,
}

impl Purges {
    pub(crate) fn new(texts: &PurgeTexts, queue: Queue, render: impl Fn(&str) -> SqlTemplate) -> Self {
        let purge = |state: State| {
            let old = if state == State::Seen { &texts.seen } else { &texts.ended };
            let which = old.rows.replace("{state}", &state.code().to_string());
            let told = |text: &str| render(&text.replace("{old}", &which).replace("{age}", old.age));
            (state, Purge { failures: texts.failures.map(told), rows: told(texts.rows) })
        };
        // Only what arrived can be seen without being in line.
        let is_there = |state: &State| queue == Queue::Inbox || *state != State::Seen;
        Self(State::PURGED.into_iter().filter(is_there).map(purge).collect())
    }

    /// None where no row is ever in that state, or none in it may be deleted.
    pub(crate) fn of(&self, state: State) -> Option<&Purge> {
        self.0.iter().find(|(purged, _)| *purged == state).map(|(_, purge)| purge)
    }
}

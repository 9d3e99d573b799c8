//! How old rows are deleted. Each state with a retention uses the same texts.

use crate::queue::{Queue, State};
use crate::sql::text::SqlTemplate;

/// The texts of one database. `{old}` stands for the rows that are old enough, and `{age}` for their order. The first
/// value is the time before which a row must have entered its state. The second is the largest number of rows to
/// delete.
#[derive(Debug)]
pub(crate) struct PurgeTexts {
    /// Deletes the rows and what belongs to them.
    pub(crate) rows: &'static str,
    /// Gives free space back to the file system, where the database does not do so by itself.
    pub(crate) reclaim: Option<Reclaim<&'static str>>,
    /// Finished rows: done, dead, expired or dismissed. `{state}` is one of these.
    pub(crate) ended: Old,
    /// Rows that were only seen.
    pub(crate) seen: Old,
}

/// How free space is given back, a little at a time.
#[derive(Debug)]
pub(crate) struct Reclaim<T> {
    /// Answers with 1 if there is much of it.
    pub(crate) is_due: T,
    pub(crate) step: T,
}

/// Which rows are old enough.
#[derive(Debug)]
pub(crate) struct Old {
    /// `{old}`
    pub(crate) rows: &'static str,
    /// `{age}`
    pub(crate) age: &'static str,
}

/// The statements that delete the old rows of one queue, by state.
#[derive(Debug)]
pub(crate) struct Purges(Vec<(State, Purge)>);

/// The statements that delete the old rows in one state.
#[derive(Debug)]
pub(crate) struct Purge {
    pub(crate) rows: SqlTemplate,
    pub(crate) reclaim: Option<Reclaim<SqlTemplate>>,
}

impl Purges {
    pub(crate) fn new(texts: &PurgeTexts, queue: Queue, render: impl Fn(&str) -> SqlTemplate) -> Self {
        let purge = |state: State| {
            let old = if state == State::Seen { &texts.seen } else { &texts.ended };
            let which = old.rows.replace("{state}", &state.code().to_string());
            let told = |text: &str| render(&text.replace("{old}", &which).replace("{age}", old.age));
            let reclaim = texts.reclaim.as_ref();
            let reclaim = reclaim.map(|text| Reclaim { is_due: render(text.is_due), step: render(text.step) });
            (state, Purge { rows: told(texts.rows), reclaim })
        };
        // Only a message that arrived can be seen without being in the queue.
        let is_there = |state: &State| queue == Queue::Inbox || *state != State::Seen;
        Self(State::PURGED.into_iter().filter(is_there).map(purge).collect())
    }

    /// Returns `None` if no row is ever in that state, or if rows in it are never deleted.
    pub(crate) fn of(&self, state: State) -> Option<&Purge> {
        self.0.iter().find(|(purged, _)| *purged == state).map(|(_, purge)| purge)
    }
}

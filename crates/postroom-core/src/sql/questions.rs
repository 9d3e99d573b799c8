//! The queries of operators: read-only statements, each over a bounded number of rows.

use std::ops::Deref;

use crate::queue::State;
use crate::sql::dialect::statements;
use crate::sql::text::SqlTemplate;

statements! {
    /// The texts of one database. `{shown}` stands for the payload or for null, `{state}` for a finished state.
    QuestionSql {
        /// The keys of the inbox that match a text.
        keys,
        newest, activity, ahead, arrived_rate, done_rate, tally_ready, tally_dead, last_failures,
        /// Rows after a number, and rows by their numbers.
        arrived, arrived_rows,
        /// Failures after a number, and failures by their numbers.
        failed, failed_rows,
        finished, count_delivered, delivered_up_to,
        /// The lanes of the oldest and the newest messages, once for each of them; and those of dead messages.
        lanes_at_ends, lanes_of_dead,
        /// Of one lane by its name: how many messages it has, and the number of the first.
        lane_depth,
        /// The lane of a message and its number there, and how many come before a number.
        lane_row, lane_ahead,
        /// The first messages of lanes.
        lane_first,
    }
}

/// The same for one queue, with the names of its tables.
#[derive(Debug)]
pub(crate) struct QuestionStatements {
    sql: QuestionSql<Shown>,
    finished: Vec<(State, Shown)>,
}

/// A statement in two forms: without the payload and with it.
#[derive(Debug)]
pub(crate) struct Shown {
    bare: SqlTemplate,
    full: SqlTemplate,
}

impl Shown {
    fn new(text: &str, render: &impl Fn(&str) -> SqlTemplate) -> Self {
        Self { bare: render(&text.replace("{shown}", "NULL")), full: render(&text.replace("{shown}", "payload")) }
    }

    pub(crate) fn of(&self, with_payload: bool) -> &SqlTemplate {
        if with_payload { &self.full } else { &self.bare }
    }
}

/// The form without the payload is the default.
impl Deref for Shown {
    type Target = SqlTemplate;

    fn deref(&self) -> &SqlTemplate {
        &self.bare
    }
}

impl Deref for QuestionStatements {
    type Target = QuestionSql<Shown>;

    fn deref(&self) -> &Self::Target {
        &self.sql
    }
}

impl QuestionStatements {
    pub(crate) fn new(texts: &QuestionSql, render: impl Fn(&str) -> SqlTemplate) -> Self {
        let in_state =
            |state: State| (state, Shown::new(&texts.finished.replace("{state}", &state.code().to_string()), &render));
        Self {
            sql: texts.map(|text| Shown::new(text, &render)),
            finished: State::FINISHED.into_iter().map(in_state).collect(),
        }
    }

    /// Returns `None` if no message is finished in that state.
    pub(crate) fn finished(&self, state: State) -> Option<&Shown> {
        self.finished.iter().find(|(finished, _)| *finished == state).map(|(_, shown)| shown)
    }
}

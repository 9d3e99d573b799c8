//! What operators ask: read-only statements, each over a bounded number of rows.

use crate::queue::State;
use crate::sql::text::SqlTemplate;

/// The texts of one database. `{shown}` stands for the payload or for null, `{state}` for a finished state.
#[derive(Debug)]
pub(crate) struct QuestionTexts {
    /// Keys of the inbox that a text may stand for.
    pub(crate) keys: &'static str,
    pub(crate) newest: &'static str,
    pub(crate) activity: &'static str,
    pub(crate) ahead: &'static str,
    pub(crate) arrived_rate: &'static str,
    pub(crate) done_rate: &'static str,
    pub(crate) tally_ready: &'static str,
    pub(crate) tally_dead: &'static str,
    pub(crate) last_failures: &'static str,
    /// Rows behind a number, and rows by their numbers.
    pub(crate) arrived: &'static str,
    pub(crate) arrived_rows: &'static str,
    /// Failures behind a number, and failures by their numbers.
    pub(crate) failed: &'static str,
    pub(crate) failed_rows: &'static str,
    pub(crate) finished: &'static str,
    pub(crate) count_delivered: &'static str,
    pub(crate) delivered_up_to: &'static str,
}

/// The same for one queue, with its tables' names in them.
#[derive(Debug)]
pub(crate) struct QuestionStatements {
    pub(crate) keys: SqlTemplate,
    pub(crate) newest: SqlTemplate,
    pub(crate) activity: SqlTemplate,
    pub(crate) ahead: SqlTemplate,
    pub(crate) arrived_rate: SqlTemplate,
    pub(crate) done_rate: SqlTemplate,
    pub(crate) tally_ready: SqlTemplate,
    pub(crate) tally_dead: SqlTemplate,
    pub(crate) last_failures: SqlTemplate,
    pub(crate) arrived: Shown,
    pub(crate) arrived_rows: Shown,
    pub(crate) failed: Shown,
    pub(crate) failed_rows: Shown,
    finished: Vec<(State, Shown)>,
    pub(crate) count_delivered: SqlTemplate,
    pub(crate) delivered_up_to: SqlTemplate,
}

/// A statement without the payload and with it.
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

impl QuestionStatements {
    pub(crate) fn new(texts: &QuestionTexts, render: impl Fn(&str) -> SqlTemplate) -> Self {
        let shown = |text: &str| Shown::new(text, &render);
        // The state is in the text: the index of one state alone serves no other.
        let in_state = |state: State| (state, shown(&texts.finished.replace("{state}", &state.code().to_string())));
        Self {
            keys: render(texts.keys),
            newest: render(texts.newest),
            activity: render(texts.activity),
            ahead: render(texts.ahead),
            arrived_rate: render(texts.arrived_rate),
            done_rate: render(texts.done_rate),
            tally_ready: render(texts.tally_ready),
            tally_dead: render(texts.tally_dead),
            last_failures: render(texts.last_failures),
            arrived: shown(texts.arrived),
            arrived_rows: shown(texts.arrived_rows),
            failed: shown(texts.failed),
            failed_rows: shown(texts.failed_rows),
            finished: State::FINISHED.into_iter().map(in_state).collect(),
            count_delivered: render(texts.count_delivered),
            delivered_up_to: render(texts.delivered_up_to),
        }
    }

    /// None where no message is finished in that state.
    pub(crate) fn finished(&self, state: State) -> Option<&Shown> {
        self.finished.iter().find(|(finished, _)| *finished == state).map(|(_, shown)| shown)
    }
}

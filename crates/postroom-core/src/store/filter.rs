//! Selects rows for an operator.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::queue::State;
use crate::store::{Failed, Record};
use crate::support::clock::Timestamp;

/// Selects rows; by default all of them.
///
/// ```
/// use postroom::Outbox;
/// use postroom::operator::Filter;
/// use postroom::queue::State;
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// // After `billing` was repaired, requeue the messages that failed because of it.
/// let given_up = Filter::all().state(State::Dead).party("billing").limit(100);
/// assert_eq!(outbox.queue().revive(given_up, None).await?, 0);
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Filter {
    pub(crate) state: Option<State>,
    pub(crate) topic: Option<String>,
    pub(crate) party: Option<String>,
    pub(crate) finished_since: Option<Timestamp>,
    pub(crate) after: Option<i64>,
    pub(crate) up_to: Option<i64>,
    pub(crate) only: Option<Arc<BTreeSet<i64>>>,
    pub(crate) limit: usize,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            state: None,
            topic: None,
            party: None,
            finished_since: None,
            after: None,
            up_to: None,
            only: None,
            limit: 1000,
        }
    }
}

impl Filter {
    /// Selects every row, a thousand at a time.
    pub fn all() -> Self {
        Self::default()
    }

    /// Selects one row.
    pub fn one(seq: i64) -> Self {
        Self::all().only([seq]).limit(1)
    }

    crate::setters! {
        /// Selects only rows in this state.
        pub fn state(mut self, state: State) { self.state = Some(state); }

        /// Selects only rows with this topic.
        pub fn topic(mut self, topic: impl Into<String>) { self.topic = Some(topic.into()); }

        /// Selects only rows to this destination (outbox) or from this source (inbox).
        pub fn party(mut self, service: impl Into<String>) { self.party = Some(service.into()); }

        /// Selects only rows that were finished at this time or later.
        pub fn finished_since(mut self, time: Timestamp) { self.finished_since = Some(time); }

        /// Selects only rows after this number, for paging.
        pub fn after(mut self, seq: i64) { self.after = Some(seq); }

        /// Selects only rows up to this number.
        pub fn up_to(mut self, seq: i64) { self.up_to = Some(seq); }

        /// Restricts the selection to the rows with these numbers. They are looked up by number, so the number of other
        /// rows does not matter.
        pub fn only(mut self, seqs: impl IntoIterator<Item = i64>) {
            self.only = Some(Arc::new(seqs.into_iter().collect()));
        }

        /// Selects at most this many rows.
        pub fn limit(mut self, rows: usize) { self.limit = rows; }
    }

    pub(crate) fn accepts(&self, record: &Record) -> bool {
        let message = record.message.as_ref().ok();
        let party = message.and_then(|message| message.source().or(message.destination()));
        self.state.is_none_or(|state| state == record.state())
            && self.topic.as_deref().is_none_or(|topic| message.is_some_and(|message| message.topic == topic))
            && self.party.as_deref().is_none_or(|wanted| party == Some(wanted))
            && self.finished_since.is_none_or(|since| record.processed_at() >= Some(since))
            && self.is_in_range(record.seq)
            && self.only.as_ref().is_none_or(|only| only.contains(&record.seq))
    }

    /// Returns whether a finished row, whose number is right, matches.
    pub(crate) fn accepts_ended(&self, failed: &Failed) -> bool {
        self.state.is_none_or(|state| state == failed.state)
            && self.topic.as_ref().is_none_or(|topic| *topic == failed.topic)
            && self.party.as_deref().is_none_or(|wanted| failed.party() == Some(wanted))
            && self.finished_since.is_none_or(|since| failed.at >= Some(since))
    }

    /// Returns the states of the selected dead letters. Dismissed ones are included only on request: an operator who
    /// requeues everything that failed does not mean those.
    pub(crate) fn dead_letters(&self) -> &'static [State] {
        match self.state {
            Some(State::Dismissed) => &[State::Dismissed],
            _ => &[State::Dead, State::Expired],
        }
    }

    /// Returns the selected row numbers, in order, or `None` if rows are not selected by number.
    pub(crate) fn numbers(&self) -> Option<Vec<i64>> {
        let only = self.only.as_ref()?;
        Some(only.iter().copied().filter(|seq| self.is_in_range(*seq)).collect())
    }

    fn is_in_range(&self, seq: i64) -> bool {
        self.after.is_none_or(|after| seq > after) && self.up_to.is_none_or(|last| seq <= last)
    }
}

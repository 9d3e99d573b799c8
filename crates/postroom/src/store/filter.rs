//! Which rows an operator means.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::queue::State;
use crate::store::Record;

/// Which rows are meant. All of them, until told otherwise.
///
/// ```
/// use postroom::{Filter, MemoryStore, Outbox, State};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// // After `billing` was repaired: what was given up on its account goes back in line.
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
    /// Every row, a thousand at a time.
    pub fn all() -> Self {
        Self::default()
    }

    /// One row.
    pub fn one(seq: i64) -> Self {
        Self::all().after(seq.saturating_sub(1)).up_to(seq).limit(1)
    }

    /// Only in this state.
    #[must_use]
    pub fn state(mut self, state: State) -> Self {
        self.state = Some(state);
        self
    }

    /// Only with this topic.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Only to this destination (outbox) or from this source (inbox).
    #[must_use]
    pub fn party(mut self, service: impl Into<String>) -> Self {
        self.party = Some(service.into());
        self
    }

    /// Only what was finished at this time or later.
    #[must_use]
    pub fn finished_since(mut self, time: Timestamp) -> Self {
        self.finished_since = Some(time);
        self
    }

    /// Only rows after this number: for paging.
    #[must_use]
    pub fn after(mut self, seq: i64) -> Self {
        self.after = Some(seq);
        self
    }

    /// Only rows up to this number.
    #[must_use]
    pub fn up_to(mut self, seq: i64) -> Self {
        self.up_to = Some(seq);
        self
    }

    /// Of those that are meant otherwise, only the rows with these numbers. Rows that are left out count for the
    /// limit: give the range of the numbers too.
    #[must_use]
    pub fn only(mut self, seqs: impl IntoIterator<Item = i64>) -> Self {
        self.only = Some(Arc::new(seqs.into_iter().collect()));
        self
    }

    /// At most so many.
    #[must_use]
    pub fn limit(mut self, rows: usize) -> Self {
        self.limit = rows;
        self
    }

    pub(crate) fn accepts(&self, record: &Record) -> bool {
        let message = record.message.as_ref().ok();
        let party = message.and_then(|message| message.source().or(message.destination()));
        self.state.is_none_or(|state| state == record.state())
            && self.topic.as_deref().is_none_or(|topic| message.is_some_and(|message| message.topic == topic))
            && self.party.as_deref().is_none_or(|wanted| party == Some(wanted))
            && self.finished_since.is_none_or(|since| record.processed_at() >= Some(since))
            && self.after.is_none_or(|after| record.seq > after)
            && self.accepts_row(record.seq)
    }

    /// What no statement asks for: rows that were read, and were not meant.
    pub(crate) fn accepts_row(&self, seq: i64) -> bool {
        self.up_to.is_none_or(|last| seq <= last) && self.only.as_ref().is_none_or(|only| only.contains(&seq))
    }
}

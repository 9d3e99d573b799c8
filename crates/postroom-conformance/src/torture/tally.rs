//! What the children said, added up.

use std::time::{Duration, Instant};

use super::crew::Event;
use super::wire::Word;

/// Counters of one run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Messages that were there before and were recognised.
    pub(crate) duplicates: u64,
    /// Stale settles that were refused.
    pub(crate) refused: u64,
    /// Orders whose outcome nobody knew after a kill.
    pub(crate) unknown: u64,
    /// Commits without an answer.
    pub(crate) in_doubt: u64,
    /// The producer has placed everything.
    pub(crate) is_done: bool,
    /// Processes that nobody killed, and that ended.
    pub(crate) deaths: Vec<String>,
    /// What failed under fire and was tried again.
    pub(crate) troubles: Vec<String>,
    /// Kills and pauses after which nothing has been handled yet.
    waiting: Vec<Instant>,
    recoveries: Vec<Duration>,
}

impl Tally {
    pub(crate) fn count(&mut self, event: &Event, is_current: bool) {
        match &event.word {
            Word::Duplicate => self.duplicates += 1,
            Word::Refused => self.refused += 1,
            Word::InDoubt => self.in_doubt += 1,
            Word::Again => self.unknown += 1,
            Word::Done => self.is_done = true,
            Word::Trouble(what) => self.troubles.push(what.clone()),
            // What a killed process said before its death is no recovery.
            Word::Handled if is_current => self.recover(event.at),
            Word::Handled | Word::Ready | Word::At(..) => {}
        }
    }

    /// A process was killed, or woken from a pause.
    pub(crate) fn hit(&mut self, at: Instant) {
        self.waiting.push(at);
    }

    fn recover(&mut self, at: Instant) {
        let over = self.waiting.extract_if(.., |hit| *hit < at);
        self.recoveries.extend(over.map(|hit| at - hit));
    }

    /// The time from a kill or a pause's end to the next message handled by anybody: the p-th of a hundred.
    pub(crate) fn recovery(&self, percent: usize) -> Duration {
        let mut sorted = self.recoveries.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or_default()
    }
}

//! What a claim found from the front on, and what becomes of it.

use std::collections::{BTreeMap, HashMap};

use super::skipped::Lanes;
use crate::queue::Claimed;
use crate::support::clock::Timestamp;

/// The most messages that one claim looks at without taking them. If it found nothing else, the next claim goes on at
/// once.
pub(super) const PASSED_MAX: usize = 10_000;

/// A message that a claim may take.
pub(super) struct Candidate {
    pub(super) at: Timestamp,
    pub(super) seq: i64,
    pub(super) bytes: u64,
    /// `None` if it stands in the line.
    pub(super) fresh: Option<Claimed>,
}

/// What a claim found from the front on.
#[derive(Default)]
pub(super) struct Looked {
    pub(super) candidates: Vec<Candidate>,
    /// What it leaves behind: not due, or expired.
    pub(super) passed: Vec<i64>,
    /// How many more messages may have the turn in each lane of which it has seen one, and those that have it.
    pub(super) lanes: HashMap<String, i64>,
    pub(super) turns: Vec<i64>,
    /// What waits in a lane behind another message.
    pub(super) waits: Vec<i64>,
    /// The lanes of skipped messages.
    pub(super) skipped_lanes: Lanes,
    /// Messages for this claim that stand behind a skipped one of their lane: the last one of each lane.
    pub(super) behind_skipped: BTreeMap<String, i64>,
    /// The number of the first message that is not for this claim, and how many there are.
    pub(super) skipped: Option<(i64, usize)>,
    /// The number at which it stopped; `None` if it looked at everything.
    pub(super) stopped_at: Option<i64>,
    /// The last number that it has seen.
    pub(super) last: Option<i64>,
}

impl Looked {
    /// Returns whether the front does not pass a message: another before it was skipped.
    pub(super) fn is_behind(&self, seq: i64) -> bool {
        self.skipped.is_some_and(|(first, _)| first < seq)
    }

    /// Leaves a message behind, or stops at it.
    pub(super) fn pass(&mut self, seq: i64) -> Option<()> {
        self.goes_on(seq).then(|| self.passed.push(seq))
    }

    /// Returns whether a message has the turn in its lane. `room` is how many could have it before this claim.
    pub(super) fn has_turn(&mut self, lane: &str, room: i64) -> bool {
        match self.lanes.get_mut(lane) {
            Some(left) => {
                *left -= 1;
                *left >= 0
            }
            None => {
                self.lanes.insert(lane.to_owned(), room - 1);
                room > 0
            }
        }
    }

    /// Leaves a message in its lane, or stops at it.
    pub(super) fn wait(&mut self, seq: i64) -> Option<()> {
        self.goes_on(seq).then(|| self.waits.push(seq))
    }

    /// Leaves a message in its lane with one before it that was skipped, or stops at it.
    pub(super) fn wait_behind_skipped(&mut self, lane: &str, seq: i64) -> Option<()> {
        self.goes_on(seq).then(|| {
            self.behind_skipped.insert(lane.to_owned(), seq);
        })
    }

    /// Leaves a message where it is, for other claims, or stops at it.
    pub(super) fn skip(&mut self, seq: i64, lane: Option<&str>) -> Option<()> {
        let (first, count) = self.skipped.unwrap_or((seq, 0));
        self.goes_on(seq).then(|| {
            lane.into_iter().for_each(|lane| self.skipped_lanes.insert(lane));
            self.skipped = Some((first, count + 1));
        })
    }

    /// Returns whether a message that is not for the claim is skipped.
    pub(super) fn may_skip(&self, lane: Option<&str>) -> bool {
        lane.is_none() || !self.skipped_lanes.is_full()
    }

    pub(super) fn goes_on(&mut self, seq: i64) -> bool {
        let skipped = self.skipped.map_or(0, |(_, count)| count);
        let goes_on = self.passed.len() + self.waits.len() + self.behind_skipped.len() + skipped < PASSED_MAX;
        *(if goes_on { &mut self.last } else { &mut self.stopped_at }) = Some(seq);
        goes_on
    }
}

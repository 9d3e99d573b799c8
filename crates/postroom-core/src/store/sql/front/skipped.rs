//! Where claims of some topics go on: what they skipped is remembered for a while.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::queue::{Queue, Topics};
use crate::support::clock::monotonic;

/// How long it is remembered which messages a claim skipped. The file may be replaced by another meanwhile.
const REMEMBERED: Duration = Duration::from_secs(10);
/// How many sets of topics are remembered.
const TOPICS_MAX: usize = 64;
/// Claims skip messages of at most so many lanes. They put those of others into the line, or into their lanes.
const LANES_MAX: usize = 1_000_000;
/// How many lanes of skipped messages are remembered in total.
const LANES_REMEMBERED: usize = 4_000_000;

/// Where claims of some topics go on.
#[derive(Debug, Default)]
pub(in crate::store::sql) struct Skipped(Mutex<HashMap<(Queue, Topics), Onward>>);

/// Where a claim goes on.
#[derive(Debug)]
pub(super) struct Onward {
    pub(super) from: i64,
    /// Since when what is before it is known.
    pub(super) since: Instant,
    /// A message before it that an earlier claim marked.
    pub(super) witness: Option<i64>,
    /// The lanes of messages that were skipped before it.
    pub(super) lanes: Lanes,
}

/// Lanes, by the hashes of their names. If two have the same, a message only enters its lane for nothing.
#[derive(Debug, Default)]
pub(super) struct Lanes(HashSet<u64>);

impl Lanes {
    fn hash(lane: &str) -> u64 {
        BuildHasherDefault::<DefaultHasher>::default().hash_one(lane)
    }

    pub(super) fn contains(&self, lane: &str) -> bool {
        !self.0.is_empty() && self.0.contains(&Self::hash(lane))
    }

    pub(super) fn insert(&mut self, lane: &str) {
        self.0.insert(Self::hash(lane));
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= LANES_MAX
    }
}

impl Onward {
    pub(super) fn nowhere() -> Self {
        Self { from: 0, since: monotonic(), witness: None, lanes: Lanes::default() }
    }
}

impl Skipped {
    /// Takes it out: the claim remembers it again.
    pub(super) fn take(&self, queue: Queue, topics: Option<&Topics>) -> Option<Onward> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = topics.and_then(|topics| known.remove(&(queue, topics.clone())));
        known.filter(|onward| onward.since.elapsed() < REMEMBERED)
    }

    /// Forgets everything: a claim was rolled back, or the file is another one.
    pub(in crate::store::sql) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn remember(&self, queue: Queue, topics: &Topics, onward: Onward) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lanes = known.values().map(|onward| onward.lanes.0.len()).sum::<usize>();
        if known.len() >= TOPICS_MAX || lanes > LANES_REMEMBERED {
            known.clear();
        }
        known.insert((queue, topics.clone()), onward);
    }
}

//! The held places, as workers record them for everybody to see.

use std::time::Duration;

use crate::message::OwnerToken;
use crate::queue::{Cause, Place};
use crate::support::clock::Timestamp;

/// A hold is stale if it was not renewed for this long after the place was to be tried again: its worker is gone.
const STALE: Duration = Duration::from_secs(120);
/// How many messages are counted that wait for one place.
pub(crate) const WAITING_COUNTED: usize = 10_000;

/// A place that is held because it failed, and the messages that wait for it.
///
/// ```
/// use postroom::Outbox;
/// use postroom::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let outbox = Outbox::new(MemoryStore::new());
/// for hold in outbox.queue().holds().await? {
///     println!("{} messages wait for {} since {}: {}", hold.waiting, hold.place, hold.since, hold.why);
/// }
/// # Ok::<(), postroom::Error>(()) }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Hold {
    /// The place.
    pub place: Place,
    /// When it began to fail.
    pub since: Timestamp,
    /// When one message is tried there again.
    pub tried_at: Timestamp,
    /// The cause, as a code; `None` if a newer program wrote it.
    pub cause: Option<Cause>,
    /// The cause, in words.
    pub why: String,
    /// How many messages wait for it, counted up to 10,000.
    pub waiting: u64,
}

impl Hold {
    /// Returns whether a worker still renews the hold.
    pub(crate) fn is_fresh(&self, now: Timestamp) -> bool {
        self.tried_at.plus(STALE) >= now
    }

    /// Returns a time: a hold whose `tried_at` is before it is stale.
    pub(crate) fn stale_before(now: Timestamp) -> Timestamp {
        now.minus(STALE)
    }

    /// Merges the holds of several workers to one for each place: the earliest start, and the latest cause.
    pub(crate) fn merged(mut holds: Vec<Self>, now: Timestamp) -> Vec<Self> {
        holds.retain(|hold| hold.is_fresh(now));
        holds.sort_by(|one, other| (&one.place, other.tried_at).cmp(&(&other.place, one.tried_at)));
        let mut merged: Vec<Self> = Vec::new();
        for hold in holds {
            match merged.last_mut().filter(|last| last.place == hold.place) {
                Some(last) => last.since = last.since.min(hold.since),
                None => merged.push(hold),
            }
        }
        merged
    }
}

/// The changes that a worker reports about its places.
#[derive(Clone, Debug)]
pub struct HoldChange {
    pub(crate) owner: OwnerToken,
    pub(crate) held: Vec<Hold>,
    pub(crate) lifted: Vec<Place>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_workers_say_of_one_place_is_one_hold() {
        let now = Timestamp::from_micros(1_000_000_000);
        let hold = |name: &str, since: u64, tried: u64, why: &str| Hold {
            place: Place::Service(name.into()),
            since: now.minus(Duration::from_secs(since)),
            tried_at: now.plus(Duration::from_secs(tried)),
            cause: Some(Cause::Unreachable),
            why: why.into(),
            waiting: 0,
        };
        let gone = Hold { tried_at: now.minus(STALE * 2), ..hold("gone", 900, 0, "") };
        let merged =
            Hold::merged(vec![hold("a", 60, 2, "old"), hold("b", 1, 1, "b"), hold("a", 5, 9, "new"), gone], now);
        assert_eq!(
            merged,
            [Hold { since: now.minus(Duration::from_secs(60)), ..hold("a", 5, 9, "new") }, hold("b", 1, 1, "b")]
        );
    }
}

//! Places that are held, as workers write it down for everybody to see.

use std::time::Duration;

use crate::message::OwnerToken;
use crate::queue::{Cause, Place};
use crate::support::clock::Timestamp;

/// A hold that was not renewed for this long after the place was to be tried again is no longer true: its worker is
/// gone.
const STALE: Duration = Duration::from_secs(120);
/// So many messages that wait for one place are counted.
pub(crate) const WAITING_COUNTED: usize = 10_000;

/// A place that is held because it failed, and what waits for it.
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
    /// Which place.
    pub place: Place,
    /// When it began to fail.
    pub since: Timestamp,
    /// When one message tries whether it is back.
    pub tried_at: Timestamp,
    /// What went wrong, as a code; none when a newer program wrote it.
    pub cause: Option<Cause>,
    /// What went wrong, in words.
    pub why: String,
    /// How many messages wait for it; not counted beyond 10,000.
    pub waiting: u64,
}

impl Hold {
    /// Whether somebody still keeps it up.
    pub(crate) fn is_fresh(&self, now: Timestamp) -> bool {
        self.tried_at.plus(STALE) >= now
    }

    /// Holds that were not renewed since then are gone.
    pub(crate) fn stale_before(now: Timestamp) -> Timestamp {
        now.minus(STALE)
    }

    /// One for each place, from what several workers say: the longest trouble, and the last word on it.
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

/// What a worker has to say of its places.
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

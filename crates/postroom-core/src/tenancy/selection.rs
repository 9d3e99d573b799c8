//! Which store claims next. Pure: the same stores and the same last turn give the same answer.

use std::fmt;
use std::sync::Arc;

/// Chooses the store that claims next.
///
/// It is called whenever a claim may start and some store may have messages. A store that was found empty does not want
/// to claim until something changes in it, so no turn is spent on it.
///
/// ```
/// use postroom::tenancy::{Candidate, LastTurn, Selection};
///
/// /// Always chooses the first store in the list.
/// #[derive(Debug)]
/// struct ByRank;
///
/// impl Selection for ByRank {
///     fn next(&self, stores: &[Candidate], _: Option<LastTurn>) -> Option<usize> {
///         stores.iter().position(Candidate::wants_to_claim)
///     }
/// }
///
/// let stores = [Candidate::new("gold"), Candidate::new("silver").wanting(), Candidate::new("bronze").wanting()];
/// assert_eq!(ByRank.next(&stores, Some(LastTurn::new(2))), Some(1));
/// ```
pub trait Selection: fmt::Debug + Send + Sync + 'static {
    /// Returns the index in `stores` of a store that wants to claim. With `None`, all stores wait until a claim in
    /// progress has ended; if there is none, the first store that wants to claim is chosen.
    fn next(&self, stores: &[Candidate], last: Option<LastTurn>) -> Option<usize>;
}

/// A store as a selection sees it.
///
/// ```
/// use postroom::tenancy::Candidate;
///
/// let (idle, waiting) = (Candidate::new("acme"), Candidate::new("globex").wanting());
/// assert!(!idle.wants_to_claim() && waiting.wants_to_claim());
/// assert_eq!(waiting.name(), "globex");
/// ```
#[derive(Clone, Debug)]
pub struct Candidate {
    name: Arc<str>,
    pub(super) wants: bool,
    pub(super) claiming: bool,
}

impl Candidate {
    /// Creates a store of this name that does not want to claim.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), wants: false, claiming: false }
    }

    /// Makes it want to claim.
    #[must_use]
    pub fn wanting(mut self) -> Self {
        self.wants = true;
        self
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether it may have messages and can claim them now.
    pub fn wants_to_claim(&self) -> bool {
        self.wants && !self.claiming
    }

    /// Returns whether it is claiming at the moment.
    pub fn is_claiming(&self) -> bool {
        self.claiming
    }
}

/// The turn that was given last.
///
/// ```
/// use postroom::tenancy::LastTurn;
///
/// let turn = LastTurn::new(2);
/// assert_eq!(turn.found, None, "still claiming");
/// assert_eq!(turn.found(50).found, Some(50));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LastTurn {
    /// The index of the store.
    pub store: usize,
    /// The number of messages it found, or `None` while it is still claiming.
    pub found: Option<usize>,
}

impl LastTurn {
    /// Creates a turn of the store with this index that is still claiming.
    pub fn new(store: usize) -> Self {
        Self { store, found: None }
    }

    /// Ends the turn: it found this many messages.
    #[must_use]
    pub fn found(mut self, messages: usize) -> Self {
        self.found = Some(messages);
        self
    }
}

/// One batch from each store in turn, so no store waits for another's backlog.
///
/// ```
/// use postroom::tenancy::{Candidate, LastTurn, RoundRobin, Selection};
///
/// let stores = ["acme", "globex"].map(|name| Candidate::new(name).wanting());
/// assert_eq!(RoundRobin.next(&stores, Some(LastTurn::new(0).found(50))), Some(1));
/// assert_eq!(RoundRobin.next(&stores, Some(LastTurn::new(1).found(50))), Some(0));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin;

impl Selection for RoundRobin {
    fn next(&self, stores: &[Candidate], last: Option<LastTurn>) -> Option<usize> {
        first_wanting(stores, last.map_or(0, |last| last.store + 1))
    }
}

/// The same store until it is empty, then the next. It switches databases less often, but other stores wait.
///
/// ```
/// use postroom::tenancy::{Candidate, DrainFirst, LastTurn, Selection};
///
/// let stores = ["acme", "globex"].map(|name| Candidate::new(name).wanting());
/// assert_eq!(DrainFirst.next(&stores, Some(LastTurn::new(0).found(50))), Some(0), "there may be more");
/// assert_eq!(DrainFirst.next(&stores, Some(LastTurn::new(0).found(0))), Some(1));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct DrainFirst;

impl Selection for DrainFirst {
    fn next(&self, stores: &[Candidate], last: Option<LastTurn>) -> Option<usize> {
        match last {
            None => first_wanting(stores, 0),
            Some(LastTurn { found: None, .. }) => None,
            Some(LastTurn { store, found: Some(0) }) => first_wanting(stores, store + 1),
            Some(LastTurn { store, .. }) => first_wanting(stores, store),
        }
    }
}

/// Returns the first one at or after `from`, or else the first one before it.
pub(super) fn first_wanting(stores: &[Candidate], from: usize) -> Option<usize> {
    let (before, after) = stores.split_at(from.min(stores.len()));
    let wanting = |stores: &[Candidate]| stores.iter().position(Candidate::wants_to_claim);
    wanting(after).map(|place| before.len() + place).or_else(|| wanting(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates stores by letter. A store with a capital letter wants to claim.
    fn stores(letters: &str) -> Vec<Candidate> {
        let store = |letter: char| {
            let store = Candidate::new(letter.to_string());
            if letter.is_uppercase() { store.wanting() } else { store }
        };
        letters.chars().map(store).collect()
    }

    #[test]
    fn round_robin_goes_through_all_in_order() {
        let all = stores("ABC");
        let mut last = None;
        let mut turns = Vec::new();
        for found in [5, 0, 5, 5, 5, 0, 0] {
            let place = RoundRobin.next(&all, last).unwrap();
            turns.push(place);
            last = Some(LastTurn::new(place).found(found));
        }
        assert_eq!(turns, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn round_robin_passes_over_who_does_not_want_and_does_not_wait_for_who_claims() {
        assert_eq!(RoundRobin.next(&stores("AbCd"), Some(LastTurn::new(0).found(1))), Some(2));
        assert_eq!(RoundRobin.next(&stores("AbCd"), Some(LastTurn::new(2).found(1))), Some(0));
        assert_eq!(RoundRobin.next(&stores("aBc"), Some(LastTurn::new(0))), Some(1));
        assert_eq!(RoundRobin.next(&stores("abc"), None), None);
    }

    #[test]
    fn drain_first_stays_until_nothing_is_found() {
        let all = stores("ABC");
        let mut last = None;
        let mut turns = Vec::new();
        for found in [5, 5, 0, 5, 0, 0, 5] {
            let place = DrainFirst.next(&all, last).unwrap();
            turns.push(place);
            last = Some(LastTurn::new(place).found(found));
        }
        assert_eq!(turns, [0, 0, 0, 1, 1, 2, 0]);
    }

    #[test]
    fn drain_first_lets_the_others_wait_for_a_claim_and_goes_on_when_the_store_cannot() {
        assert_eq!(DrainFirst.next(&stores("ABC"), Some(LastTurn::new(1))), None);
        assert_eq!(DrainFirst.next(&stores("AbC"), Some(LastTurn::new(1).found(5))), Some(2));
        assert_eq!(DrainFirst.next(&stores("Ab"), Some(LastTurn::new(1).found(5))), Some(0));
    }

    #[test]
    fn a_last_turn_beyond_the_end_is_no_trouble() {
        assert_eq!(RoundRobin.next(&stores("AB"), Some(LastTurn::new(7).found(1))), Some(0));
        assert_eq!(DrainFirst.next(&stores("AB"), Some(LastTurn::new(7).found(1))), Some(0));
    }
}

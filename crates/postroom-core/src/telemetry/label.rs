//! Names of stores, topics and destinations in metrics. Each name is a separate series, and series are expensive.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

const NAMED_DEFAULT: usize = 100;
const OTHER: &str = "other";

/// Sets how many stores have their own name in metrics; 100 by default. The first stores that are counted keep their
/// names while the process lives. All others are counted together, as `other`.
///
/// ```
/// // One series for each of 500 tenants, before their stores are opened.
/// postroom::telemetry::name_stores_in_metrics(500);
/// ```
pub fn name_stores_in_metrics(stores: usize) {
    STORES.max.store(stores, Ordering::Relaxed);
}

pub(super) fn store_label(store: &str) -> String {
    STORES.of(store).to_owned()
}

pub(super) static STORES: Labels = Labels::new(NAMED_DEFAULT);
pub(super) static TOPICS: Labels = Labels::new(NAMED_DEFAULT);
pub(super) static DESTINATIONS: Labels = Labels::new(NAMED_DEFAULT);

pub(super) struct Labels {
    max: AtomicUsize,
    named: RwLock<Option<HashSet<String>>>,
}

impl Labels {
    const fn new(max: usize) -> Self {
        Self { max: AtomicUsize::new(max), named: RwLock::new(None) }
    }

    /// Returns the name itself, or `other` if there are already too many.
    pub(super) fn of<'a>(&self, name: &'a str) -> &'a str {
        let (is_named, is_full) = {
            let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
            let named = named.as_ref();
            let count = named.map_or(0, HashSet::len);
            (named.is_some_and(|named| named.contains(name)), count >= self.max.load(Ordering::Relaxed))
        };
        // Once the table is full, no lock is needed. Every message passes here.
        if is_named || !is_full && self.takes(name) { name } else { OTHER }
    }

    fn takes(&self, name: &str) -> bool {
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        let named = named.get_or_insert_default();
        named.contains(name) || (named.len() < self.max.load(Ordering::Relaxed) && named.insert(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stores_keep_their_names_and_the_others_share_one() {
        let labels = Labels::new(2);
        assert_eq!(
            ["a", "b", "c", "a", "d", "b"].map(|store| labels.of(store)),
            ["a", "b", "other", "a", "other", "b"]
        );
        labels.max.store(3, Ordering::Relaxed);
        assert_eq!([labels.of("d"), labels.of("c")], ["d", "other"]);
    }
}

//! What a store is called in metrics.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

const NAMED_UNLESS_TOLD: usize = 100;
const OTHER: &str = "other";

/// How many stores metrics tell apart: 100 unless told otherwise. The first ones that something is counted for keep
/// their names for as long as the process lives; all others are counted together, as `other`.
///
/// ```
/// // One series for each of 500 tenants, before their stores are opened.
/// postroom::telemetry::name_stores_in_metrics(500);
/// ```
pub fn name_stores_in_metrics(stores: usize) {
    LABELS.max.store(stores, Ordering::Relaxed);
}

pub(super) fn store_label(store: &str) -> String {
    LABELS.of(store)
}

static LABELS: Labels = Labels { max: AtomicUsize::new(NAMED_UNLESS_TOLD), named: RwLock::new(None) };

struct Labels {
    max: AtomicUsize,
    named: RwLock<Option<HashSet<String>>>,
}

impl Labels {
    fn of(&self, store: &str) -> String {
        let is_named = self
            .named
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .is_some_and(|named| named.contains(store));
        if is_named || self.takes(store) { store.to_owned() } else { OTHER.to_owned() }
    }

    fn takes(&self, store: &str) -> bool {
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        let named = named.get_or_insert_default();
        named.contains(store) || (named.len() < self.max.load(Ordering::Relaxed) && named.insert(store.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stores_keep_their_names_and_the_others_share_one() {
        let labels = Labels { max: AtomicUsize::new(2), named: RwLock::new(None) };
        let told: Vec<String> = ["a", "b", "c", "a", "d", "b"].map(|store| labels.of(store)).to_vec();
        assert_eq!(told, ["a", "b", "other", "a", "other", "b"]);
        labels.max.store(3, Ordering::Relaxed);
        assert_eq!([labels.of("d"), labels.of("c")], ["d", "other"]);
    }
}

//! What workers of this process hold at the moment.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The rows of one queue that workers of this process work on. Their leases may look as if they had run out, after the
/// machine slept or a clock jumped; whoever still works on a row renews its lease, and nobody here takes it away.
#[derive(Clone, Debug, Default)]
pub struct Holding(Arc<Mutex<HashSet<i64>>>);

impl Holding {
    pub(crate) fn add(&self, seq: i64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(seq);
    }

    pub(crate) fn remove(&self, seq: i64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&seq);
    }

    pub(crate) fn has(&self, seq: i64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&seq)
    }
}

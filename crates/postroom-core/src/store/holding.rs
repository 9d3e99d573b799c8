//! The rows that workers of this process hold at the moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The rows of one queue that workers of this process hold until their result is stored. After the machine slept or a
/// clock jumped, their leases may seem to have run out. The worker that still works on a row renews its lease, and no
/// other worker of this process takes the row away.
#[derive(Clone, Debug, Default)]
pub struct Holding(Arc<Mutex<HashMap<i64, usize>>>);

impl Holding {
    /// Adds a holder. A row may be claimed again before its last holder knows that it was returned.
    pub(crate) fn add(&self, seq: i64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(seq).or_default() += 1;
    }

    pub(crate) fn remove(&self, seq: i64) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(holders) = held.get_mut(&seq) {
            *holders -= 1;
            if *holders == 0 {
                held.remove(&seq);
            }
        }
    }

    pub(crate) fn has(&self, seq: i64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&seq)
    }
}

/// Rows that are held until this is dropped.
#[derive(Debug)]
pub(crate) struct Held(Holding, Vec<i64>);

impl Held {
    pub(crate) fn new(holding: Holding, rows: Vec<i64>) -> Self {
        Self(holding, rows)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.1.iter().for_each(|seq| self.0.remove(*seq));
    }
}

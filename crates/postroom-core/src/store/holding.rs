//! The rows that workers of this process hold at the moment.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::support::by_number::ByNumber;

/// The rows of one queue that workers of this process hold until their result is stored. After the machine slept or a
/// clock jumped, their leases may seem to have run out. The worker that still works on a row renews its lease, and no
/// other worker of this process takes the row away.
#[derive(Clone, Debug, Default)]
pub struct Holding(Arc<Mutex<ByNumber<usize>>>);

impl Holding {
    fn rows(&self) -> MutexGuard<'_, ByNumber<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a holder of each. A row may be claimed again before its last holder knows that it was returned.
    pub(crate) fn add(&self, seqs: impl IntoIterator<Item = i64>) {
        let mut held = self.rows();
        seqs.into_iter().for_each(|seq| *held.entry(seq).or_default() += 1);
    }

    pub(crate) fn remove(&self, seqs: impl IntoIterator<Item = i64>) {
        let mut held = self.rows();
        for seq in seqs {
            if let Some(holders) = held.get_mut(&seq) {
                *holders -= 1;
                if *holders == 0 {
                    held.remove(&seq);
                }
            }
        }
    }

    pub(crate) fn has(&self, seq: i64) -> bool {
        self.rows().contains_key(&seq)
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
        self.0.remove(self.1.drain(..));
    }
}

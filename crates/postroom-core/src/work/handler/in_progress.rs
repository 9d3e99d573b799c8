//! The messages that are being handled in this process: a second request for one of them need not wait for a
//! connection.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::message::InboxKey;

#[derive(Clone, Default, Debug)]
pub struct InProgress(Arc<Mutex<HashSet<InboxKey>>>);

impl InProgress {
    /// Enters if the message is not being handled yet.
    pub fn enter(&self, key: &InboxKey) -> Option<InProgressGuard> {
        let is_first = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        is_first.then(|| InProgressGuard { in_progress: self.clone(), key: key.clone() })
    }
}

/// Leaves when it is dropped.
#[derive(Debug)]
pub struct InProgressGuard {
    in_progress: InProgress,
    key: InboxKey,
}

impl Drop for InProgressGuard {
    fn drop(&mut self) {
        self.in_progress.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

//! Messages that are being handled in this process: a second request for one of them does not wait for a connection.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::message::InboxKey;

#[derive(Clone, Default, Debug)]
pub(crate) struct Twins(Arc<Mutex<HashSet<InboxKey>>>);

impl Twins {
    /// Comes in alone, or not at all.
    pub(crate) fn enter(&self, key: &InboxKey) -> Option<Alone> {
        let is_first = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        is_first.then(|| Alone { twins: self.clone(), key: key.clone() })
    }
}

/// Leaves when it is dropped.
#[derive(Debug)]
pub(crate) struct Alone {
    twins: Twins,
    key: InboxKey,
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.twins.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

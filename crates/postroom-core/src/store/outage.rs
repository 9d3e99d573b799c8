//! Remembers when a store's database was unreachable. Nobody could renew a lease then, so a lease that ran out is no
//! crash.

use std::sync::{Mutex, PoisonError};

use crate::support::clock::Timestamp;

/// When the database was last unreachable.
#[derive(Debug, Default)]
pub(crate) struct Outage(Mutex<Option<Timestamp>>);

impl Outage {
    pub(crate) fn at(&self) -> Option<Timestamp> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, now: Timestamp) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }
}

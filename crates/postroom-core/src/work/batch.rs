//! A batch of claimed messages: what the worker's loop and whoever processes the messages say to each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::queue::Outcome;
use crate::queue::retry::RetryPolicies;
use crate::queue::{Claimed, Lease, Place};
use crate::store::BoxFuture;
use crate::telemetry::Meters;
use crate::work::places::{Endpoints, Entry, Known, Limits};

/// What a worker does with the messages it claimed.
pub(crate) trait Process: Send + Sync + 'static {
    /// Works on a batch and reports the outcome of each message, in any order.
    fn process(self: Arc<Self>, batch: Vec<Claimed>, run: BatchRun) -> BoxFuture<'static, ()>;

    /// How many messages may be with that place at once.
    fn slots(&self, place: &Place) -> usize;
}

/// How many messages there may be at once, in all and for one place.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    pub(crate) all: Arc<Semaphore>,
    /// Those in `all`.
    pub(crate) most: usize,
    pub(crate) share: usize,
    pub(crate) limits: Limits,
    pub(crate) endpoints: Endpoints,
}

/// One batch at work.
#[derive(Clone, Debug)]
pub struct BatchRun {
    /// What the store is called.
    pub(crate) store: Arc<str>,
    pub(crate) reports: mpsc::UnboundedSender<(Lease, Outcome)>,
    /// For each message, by its row: its lease could not be kept, or the worker must stop at once.
    pub(crate) lost: Arc<HashMap<i64, CancellationToken>>,
    /// The worker is stopping: begin nothing new.
    pub(crate) stop: CancellationToken,
    pub(crate) lease: Duration,
    pub(crate) meters: Arc<Meters>,
    pub(crate) policies: Arc<RetryPolicies>,
    /// Messages that are with their places.
    pub(crate) entered: Arc<Mutex<HashMap<i64, Entry>>>,
}

impl BatchRun {
    /// A message's turn with its place; false while that is left alone.
    pub(crate) fn enter(&self, lease: &Lease, place: &Arc<Known>) -> bool {
        let entry = place.enter();
        let is_in = entry.is_some();
        if let Some(entry) = entry {
            self.entered.lock().unwrap_or_else(PoisonError::into_inner).insert(lease.seq(), entry);
        }
        is_in
    }

    /// Says what became of a message: to the worker, and to its place.
    pub(crate) fn report(&self, lease: Lease, outcome: Outcome) {
        let entry = self.entered.lock().unwrap_or_else(PoisonError::into_inner).remove(&lease.seq());
        if let Some(entry) = entry.filter(|_| outcome.is_answered() || outcome.fault().is_some()) {
            entry.ended(&self.store, outcome.fault());
        }
        let _ = self.reports.send((lease, outcome));
    }

    /// Fires when work on this message is in vain: break off.
    pub(crate) fn lost(&self, lease: &Lease) -> CancellationToken {
        self.lost.get(&lease.seq()).cloned().unwrap_or_default()
    }

    /// How long a handler has between the word that its work is in vain and the end of it. Leases are looked at every
    /// sixth of their time and given up with a fifth of it left, so that a thirtieth is left at least; and a worker
    /// that stops waits no longer than a second.
    pub(crate) fn notice(&self) -> Duration {
        (self.lease / 60).min(Duration::from_millis(500))
    }

    /// Whether work on this message should not be begun.
    pub(crate) fn is_over(&self, lease: &Lease) -> bool {
        self.stop.is_cancelled() || self.lost.get(&lease.seq()).is_some_and(CancellationToken::is_cancelled)
    }

    /// Waits until work on this message should not be begun.
    pub(crate) async fn over(&self, lost: &CancellationToken) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = lost.cancelled() => {}
        }
    }
}

//! A batch of claimed messages: the interface between the worker's loop and the code that processes messages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::queue::Outcome;
use crate::queue::retry::RetryPolicies;
use crate::queue::{Claimed, Lease, Place};
use crate::store::BoxFuture;
use crate::support::by_number::ByNumber;
use crate::telemetry::Meters;
use crate::work::places::{Endpoints, Entry, Known, Limits};

/// Processes the messages that a worker claimed.
pub(crate) trait Process: Send + Sync + 'static {
    /// Works on a batch and reports the outcome of each message, in any order.
    fn process(self: Arc<Self>, batch: Vec<Claimed>, run: BatchRun) -> BoxFuture<'static, ()>;

    /// Returns how many messages may be in progress at that place at once.
    fn slots(&self, place: &Place) -> usize;
}

/// How many messages may be in progress at once, in total and for one place.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    pub(crate) all: Arc<Semaphore>,
    /// The number of permits in `all`.
    pub(crate) most: usize,
    pub(crate) share: usize,
    pub(crate) limits: Limits,
    pub(crate) endpoints: Endpoints,
}

/// The messages of a batch whose work is told to end. Either it is lost: the lease could not be kept, or the worker
/// must stop at once. Or somebody asked it to stop, and it may go on. Most work is told nothing, so a message has a
/// token only if somebody asks for it.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    is_any: AtomicBool,
    told: Tokens,
    lost: Tokens,
}

#[derive(Debug, Default)]
struct Tokens(Mutex<ByNumber<CancellationToken>>);

impl Tokens {
    fn all(&self) -> MutexGuard<'_, ByNumber<CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, seq: i64) -> CancellationToken {
        self.all().entry(seq).or_default().clone()
    }

    fn is_cancelled(&self, seq: i64) -> bool {
        self.all().get(&seq).is_some_and(CancellationToken::is_cancelled)
    }
}

impl Lost {
    /// The work is lost.
    pub(crate) fn add(&self, seq: i64) {
        self.lost.of(seq).cancel();
        self.ask(seq);
    }

    /// Asks the work to stop.
    pub(crate) fn ask(&self, seq: i64) {
        self.told.of(seq).cancel();
        self.is_any.store(true, Ordering::Release);
    }

    pub(crate) fn has(&self, seq: i64) -> bool {
        self.is_any.load(Ordering::Acquire) && self.lost.is_cancelled(seq)
    }

    fn has_told(&self, seq: i64) -> bool {
        self.is_any.load(Ordering::Acquire) && self.told.is_cancelled(seq)
    }
}

/// A batch in progress.
#[derive(Clone, Debug)]
pub struct BatchRun {
    /// The name of the store.
    pub(crate) store: Arc<str>,
    pub(crate) reports: mpsc::UnboundedSender<(Lease, Outcome)>,
    pub(crate) lost: Arc<Lost>,
    /// Cancelled when the worker is stopping, so nothing new may start.
    pub(crate) stop: CancellationToken,
    pub(crate) lease: Duration,
    pub(crate) meters: Arc<Meters>,
    pub(crate) policies: Arc<RetryPolicies>,
    /// The messages in progress at their places.
    pub(crate) entered: Arc<Mutex<ByNumber<Entry>>>,
}

impl BatchRun {
    /// Lets a message enter its place. It returns false while the place is held.
    pub(crate) fn enter(&self, lease: &Lease, place: &Arc<Known>) -> bool {
        let entry = place.enter();
        let is_in = entry.is_some();
        if let Some(entry) = entry {
            self.entered.lock().unwrap_or_else(PoisonError::into_inner).insert(lease.seq(), entry);
        }
        is_in
    }

    /// Reports the outcome of a message to the worker and to its place.
    pub(crate) fn report(&self, lease: Lease, outcome: Outcome) {
        let entry = self.entered.lock().unwrap_or_else(PoisonError::into_inner).remove(&lease.seq());
        if let Some(entry) = entry.filter(|_| outcome.is_answered() || outcome.fault().is_some()) {
            entry.ended(&self.store, outcome.fault());
        }
        let _ = self.reports.send((lease, outcome));
    }

    /// Returns a token that is cancelled when work on this message is asked to stop, or must end.
    pub(crate) fn told(&self, lease: &Lease) -> CancellationToken {
        self.lost.told.of(lease.seq())
    }

    /// Waits until work on this message is useless and must end. `told` is its token.
    pub(crate) async fn until_lost(&self, lease: &Lease, told: &CancellationToken) {
        told.cancelled().await;
        self.lost.lost.of(lease.seq()).cancelled_owned().await;
    }

    /// Returns how long a handler has between the notice that its work is useless and its end. Leases are checked every
    /// sixth of their length and dropped with a fifth of it left, so at least a thirtieth remains. A worker that stops
    /// waits at most a second.
    pub(crate) fn notice(&self) -> Duration {
        (self.lease / 60).min(Duration::from_millis(500))
    }

    /// Returns whether work on this message should not start.
    pub(crate) fn is_over(&self, lease: &Lease) -> bool {
        self.stop.is_cancelled() || self.lost.has_told(lease.seq())
    }

    /// Waits until work on this message should not start.
    pub(crate) async fn over(&self, told: &CancellationToken) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = told.cancelled() => {}
        }
    }
}

//! What the loop and its filling say to each other.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::queue::{Claimed, Lease};
use crate::store::BoxFuture;
use crate::telemetry::Meters;
use crate::worker::Outcome;

/// What a worker does with the messages it claimed.
pub(crate) trait Process: Send + Sync + 'static {
    /// Works on a batch and reports the outcome of each message, in any order.
    fn process(self: Arc<Self>, batch: Vec<Claimed>, run: Run) -> BoxFuture<'static, ()>;
}

/// One batch at work.
#[derive(Clone, Debug)]
pub struct Run {
    pub(crate) reports: mpsc::UnboundedSender<(Lease, Outcome)>,
    /// Its leases could not be kept, or the worker must stop at once: break off.
    pub(crate) lost: CancellationToken,
    /// The worker is stopping: begin nothing new.
    pub(crate) stop: CancellationToken,
    pub(crate) lease: Duration,
    pub(crate) meters: Arc<Meters>,
}

impl Run {
    /// Says what became of a message.
    pub(crate) fn report(&self, lease: Lease, outcome: Outcome) {
        let _ = self.reports.send((lease, outcome));
    }

    pub(crate) fn report_all(&self, outcomes: impl IntoIterator<Item = (Lease, Outcome)>) {
        outcomes.into_iter().for_each(|(lease, outcome)| self.report(lease, outcome));
    }

    /// Whether nothing new should be begun.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_cancelled() || self.lost.is_cancelled()
    }

    /// Waits until nothing new should be begun.
    pub(crate) async fn stopping(&self) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = self.lost.cancelled() => {}
        }
    }
}

/// A named point of the worker's turn.
#[cfg(feature = "testing")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// Messages are claimed, durably; nothing has been done with them.
    AfterClaim,
    /// A message was handled and acknowledged, durably; nobody has been told.
    AfterCommit,
    /// A lease was lost: somebody else took the message over, and this worker's settle was refused.
    LeaseLost,
}

/// Called at the named points.
#[cfg(feature = "testing")]
#[derive(Clone)]
pub struct Probe(pub Arc<dyn Fn(Point) + Send + Sync>);

#[cfg(feature = "testing")]
impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Probe")
    }
}

//! Named points of a worker's turn, for tests that kill it there.

#[cfg(feature = "testing")]
use std::sync::Arc;

use crate::work::worker::WorkerOptions;

/// A named point of a worker's turn.
///
/// ```
/// # #[cfg(feature = "testing")] {
/// use std::sync::Arc;
/// use postroom::testing::{Point, Probe};
///
/// // As if the power went out after the claim.
/// let probe = Probe(Arc::new(|point| {
///     if point == Point::AfterClaim {
///         std::process::abort();
///     }
/// }));
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub, reason = "exported for tests only"))]
pub enum Point {
    /// Messages are claimed, durably. Nothing has been done with them.
    AfterClaim,
    /// A message was handled and acknowledged, durably. Nothing has been reported.
    AfterCommit,
    /// A lease was lost: somebody else claimed the message, and this worker's settle was refused.
    LeaseLost,
}

/// The function that is called at the named points.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
/// use postroom::WorkerOptions;
/// use postroom::testing::{Point, Probe};
///
/// let lost = Arc::new(AtomicU32::new(0));
/// let counter = lost.clone();
/// let probe = Probe(Arc::new(move |point| {
///     counter.fetch_add(u32::from(point == Point::LeaseLost), SeqCst);
/// }));
/// let options = WorkerOptions::default().probe(probe);
/// ```
#[cfg(feature = "testing")]
#[derive(Clone)]
pub struct Probe(pub Arc<dyn Fn(Point) + Send + Sync>);

#[cfg(feature = "testing")]
impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Probe")
    }
}

impl WorkerOptions {
    #[cfg(feature = "testing")]
    pub(super) fn reached(&self, point: Point) {
        if let Some(probe) = &self.probe {
            probe.0(point);
        }
    }

    #[cfg(not(feature = "testing"))]
    #[allow(clippy::unused_self, reason = "nothing is called")]
    pub(super) fn reached(&self, _: Point) {}
}

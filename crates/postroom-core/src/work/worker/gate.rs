//! Who may claim when, for a worker that is one of many.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use crate::mailbox::work_queue::WorkQueue;
use crate::queue::{ClaimRequest, Claims};
use crate::store::BoxFuture;
use crate::support::error::{Error, ErrorKind, Result};
use crate::telemetry;

/// Asked before each claim.
pub(crate) trait Gate: fmt::Debug + Send + Sync {
    /// Takes this worker's turn, if it has come. Else asks for it, and the bell rings when it has.
    fn enter(&self) -> bool;

    /// This worker has no wish to claim at the moment.
    fn decline(&self);

    /// Rings when the turn has come.
    fn bell(&self) -> &Notify;

    /// So many messages are in this worker's hands.
    fn holds(&self, messages: usize);

    /// For how long the others wait for a claim.
    fn patience(&self) -> Duration;

    /// The claim takes too long: the others go on without it.
    fn step_aside(&self);

    /// The turn is over. The claim found so many messages, or failed.
    fn leave(&self, found: Option<usize>);

    /// So many may look after their stores at once.
    fn upkeep(&self) -> &Semaphore;
}

/// A turn that was taken: over when this is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    gate: Option<Arc<dyn Gate>>,
    /// What the claim found; nothing when it failed.
    pub(super) found: Option<usize>,
}

impl Turn {
    /// None when it has not come yet. Whoever has no gate to pass may always claim.
    pub(super) fn take(gate: Option<&Arc<dyn Gate>>) -> Option<Self> {
        gate.is_none_or(|gate| gate.enter()).then(|| Self { gate: gate.cloned(), found: None })
    }

    /// Works on a batch. The turn is over as soon as its messages stand in line for the handlers, before those of the
    /// next.
    pub(super) async fn until_in_line(self, mut work: BoxFuture<'static, ()>) {
        let mut turn = Some(self);
        poll_fn(|context| {
            let polled = work.as_mut().poll(context);
            turn = None;
            polled
        })
        .await;
    }

    /// Claims. Others wait for it as long as they have patience; nobody waits for longer than the lease, because then
    /// it can bring nothing any more.
    pub(super) async fn claim(&self, queue: &WorkQueue, lease: Duration, request: ClaimRequest) -> Result<Claims> {
        let mut claim = pin!(queue.claim_as(request));
        let Some(gate) = &self.gate else { return claim.await };
        if let Ok(claims) = timeout(gate.patience(), &mut claim).await {
            return claims;
        }
        telemetry::claim_slow(queue.named(), gate.patience());
        gate.step_aside();
        timeout(lease, claim).await.unwrap_or_else(|_| Err(too_late(lease)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(gate) = &self.gate {
            gate.leave(self.found);
        }
    }
}

/// Waits until few others do the same; a store that does not answer keeps them waiting only for a while.
pub(super) async fn few_at_once(gate: Arc<dyn Gate>, upkeep: impl Future<Output = ()>) {
    let mut upkeep = pin!(upkeep);
    {
        let _permit = gate.upkeep().acquire().await;
        if timeout(gate.patience(), &mut upkeep).await.is_ok() {
            return;
        }
    }
    upkeep.await;
}

fn too_late(lease: Duration) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the claim was not answered within its lease of {lease:?}"))
}

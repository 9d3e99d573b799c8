//! Decides when a worker may claim that is one of many.

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
    /// Takes this worker's turn if it has come. Otherwise it asks for a turn, and the bell rings when it comes.
    fn enter(&self) -> bool;

    /// Says that this worker does not want to claim at the moment.
    fn decline(&self);

    /// Returns the bell that rings when the turn has come.
    fn bell(&self) -> &Notify;

    /// Says how many messages this worker has in progress.
    fn holds(&self, messages: usize);

    /// Returns how long the others wait for a claim.
    fn patience(&self) -> Duration;

    /// Says that the claim takes too long, so the others go on without it.
    fn step_aside(&self);

    /// Ends the turn. The claim found this many messages, or failed.
    fn leave(&self, found: Option<usize>);

    /// Returns the semaphore that limits how many workers do maintenance at once.
    fn upkeep(&self) -> &Semaphore;
}

/// A turn. It is over when this is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    gate: Option<Arc<dyn Gate>>,
    /// How many messages the claim found, or `None` if it failed.
    pub(super) found: Option<usize>,
}

impl Turn {
    /// Takes a turn, or returns `None` if it has not come yet. A worker without a gate may always claim.
    pub(super) fn take(gate: Option<&Arc<dyn Gate>>) -> Option<Self> {
        gate.is_none_or(|gate| gate.enter()).then(|| Self { gate: gate.cloned(), found: None })
    }

    /// Works on a batch. The turn is over as soon as its messages wait for their handlers, ahead of the next batch.
    pub(super) async fn until_waiting(self, mut work: BoxFuture<'static, ()>) {
        let mut turn = Some(self);
        poll_fn(|context| {
            let polled = work.as_mut().poll(context);
            turn = None;
            polled
        })
        .await;
    }

    /// Claims. Others wait for it as long as their patience lasts. It gives up after the length of the lease, because
    /// its messages would be useless by then.
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

/// Does maintenance when few others do. A store that does not answer delays them only for a while.
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

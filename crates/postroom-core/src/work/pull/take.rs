//! Claims for services that pull. Until the caller has received the messages, they go back if the caller gives up.

use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use super::{LeaseToken, PullRequest, Pulled};
use crate::mailbox::work_queue::WorkQueue;
use crate::message::{Message, OwnerToken};
use crate::queue::{Cause, ClaimRequest, Claimed, Lease, Settle};
use crate::queue::{Outcome, Terms};
use crate::support::clock::Timestamp;
use crate::support::error::{Error, ErrorKind, Result};
use crate::support::task::in_background;
use crate::telemetry;
use crate::work::worker::WorkerOptions;

/// One claim out of this many looks for suspects first.
const SUSPECTS_FIRST: u8 = 8;

/// Counts the claims in progress.
#[derive(Clone, Debug)]
pub(super) struct UnderWay(Arc<watch::Sender<usize>>);

/// One claim in progress.
struct Counted(UnderWay);

impl UnderWay {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    fn count(&self) -> Counted {
        self.0.send_modify(|claims| *claims += 1);
        Counted(self.clone())
    }

    /// Waits until no claim is in progress.
    pub(super) async fn ended(&self) {
        // An error would mean that nothing counts any more.
        let _ = self.0.subscribe().wait_for(|claims| *claims == 0).await;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.send_modify(|claims| *claims -= 1);
    }
}

/// The messages that were claimed.
#[derive(Default)]
struct Taken {
    pulled: Vec<Pulled>,
    /// The leases of the messages.
    leases: Vec<Lease>,
    bytes: usize,
    /// When there may be more messages.
    next_at: Option<Timestamp>,
}

/// Runs one claim to its end, even if the caller stops waiting; rows that are claimed for nobody would otherwise wait
/// until their lease runs out.
pub(super) async fn take(
    queue: &WorkQueue,
    request: &PullRequest,
    options: &WorkerOptions,
    under_way: &UnderWay,
) -> Result<(Vec<Pulled>, Option<Timestamp>)> {
    // It is random in every bit, so a token cannot be guessed.
    let claim = ClaimRequest::new(OwnerToken::random(), request.lease, request.limit)?.topics(request.topics.clone());
    let (queue, options, bytes_max) = (queue.clone(), options.clone(), request.bytes_max);
    let (answer, answered) = oneshot::channel();
    let (received, is_received) = oneshot::channel();
    let counted = under_way.count();
    drop(in_background(async move {
        let _counted = counted;
        let taken = hand_out(&queue, claim, bytes_max, &options).await;
        let leases = taken.as_ref().map(|taken| taken.leases.clone()).unwrap_or_default();
        // An answer that was sent may not be received: the caller may be gone by then.
        if answer.send(taken).is_err() || is_received.await.is_err() {
            give_back(&queue, leases).await;
        }
    }));
    let closed = |_| Error::new(ErrorKind::Closed, "the runtime is shutting down");
    let taken = answered.await.map_err(closed)??;
    let _ = received.send(());
    Ok((taken.pulled, taken.next_at))
}

/// Claims as much as fits. Suspects are claimed alone: when there is nothing else, and now and then before the others.
async fn hand_out(queue: &WorkQueue, claim: ClaimRequest, bytes_max: usize, options: &WorkerOptions) -> Result<Taken> {
    let usual = claim.bytes(bytes_max as u64);
    let suspects = usual.clone().suspects();
    let order = if fastrand::u8(..SUSPECTS_FIRST) == 0 { [suspects, usual] } else { [usual, suspects] };
    let mut taken = Taken::default();
    for claim in order {
        let claims = queue.claim_as(claim).await?;
        taken.next_at = [taken.next_at, claims.next_at].into_iter().flatten().min();
        keep(queue, &mut taken, claims.claimed, bytes_max, options).await;
        if !taken.pulled.is_empty() {
            break;
        }
    }
    Ok(taken)
}

/// Keeps as much as fits, and releases the rest. A row that cannot be read is tried again, and is dead in the end.
async fn keep(queue: &WorkQueue, taken: &mut Taken, claimed: Vec<Claimed>, bytes_max: usize, options: &WorkerOptions) {
    let (mut settles, mut is_full) = (Vec::new(), false);
    for Claimed { lease, message } in claimed {
        match message {
            Err(why) => {
                telemetry::unreadable(queue.store_name(), queue.kind(), &lease, &why);
                let terms = || Terms::of(&options.policies, None, queue.time_hint());
                settles.extend(Outcome::failed(Cause::Unreadable, why).into_settle(lease, terms));
            }
            Ok(message) => {
                let bytes = taken.bytes.saturating_add(size_of(&message));
                is_full |= bytes > bytes_max && !taken.pulled.is_empty();
                if is_full {
                    settles.push(Settle::release(lease));
                    continue;
                }
                taken.bytes = bytes;
                taken.pulled.push(Pulled {
                    token: LeaseToken::from(&lease),
                    until: lease.until(),
                    message: Arc::unwrap_or_clone(message),
                });
                taken.leases.push(lease);
            }
        }
    }
    let count = settles.len();
    if let Err(error) = queue.settle(settles).await {
        telemetry::settle_failed(queue.named(), count, &error);
    }
}

fn size_of(message: &Message) -> usize {
    let headers: usize = message.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    message.payload.len() + headers
}

async fn give_back(queue: &WorkQueue, leases: Vec<Lease>) {
    let count = leases.len();
    if let Err(error) = queue.release(leases).await {
        telemetry::settle_failed(queue.named(), count, &error);
    }
}

//! Claims for those who fetch. Until they have what was claimed it is nobody's: given up at any moment, it goes back.

use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use super::{LeaseToken, PullRequest, Pulled};
use crate::background::in_background;
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, OwnerToken};
use crate::queue::{ClaimRequest, Claimed, Lease, Settle};
use crate::telemetry;
use crate::worker::{Outcome, WorkerOptions};
use crate::workqueue::WorkQueue;

/// So many are claimed before it is known how large they are.
const UNSEEN: usize = 10;

/// The claims that are under way.
#[derive(Clone, Debug)]
pub(super) struct UnderWay(Arc<watch::Sender<usize>>);

/// One of them.
struct Counted(UnderWay);

impl UnderWay {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    fn count(&self) -> Counted {
        self.0.send_modify(|claims| *claims += 1);
        Counted(self.clone())
    }

    /// Waits until there are none.
    pub(super) async fn ended(&self) {
        // An error would mean that nobody counts any more.
        let _ = self.0.subscribe().wait_for(|claims| *claims == 0).await;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.send_modify(|claims| *claims -= 1);
    }
}

/// What was fetched.
#[derive(Default)]
struct Taken {
    pulled: Vec<Pulled>,
    /// Their leases.
    leases: Vec<Lease>,
    bytes: usize,
    /// When there may be more.
    next_at: Option<Timestamp>,
}

/// One claim, to its end, whoever still waits for it: rows that are claimed for nobody would wait until their lease is
/// over.
pub(super) async fn take(
    queue: &WorkQueue,
    request: &PullRequest,
    options: &WorkerOptions,
    under_way: &UnderWay,
) -> Result<(Vec<Pulled>, Option<Timestamp>)> {
    // Random in every bit: it is what a token cannot be guessed by.
    let claim = ClaimRequest::new(OwnerToken::random(), request.lease, request.limit)?.topics(request.topics.clone());
    let (queue, options, bytes_max) = (queue.clone(), options.clone(), request.bytes_max);
    let (answer, answered) = oneshot::channel();
    let (received, is_received) = oneshot::channel();
    let counted = under_way.count();
    drop(in_background(async move {
        let _counted = counted;
        let taken = hand_out(&queue, claim, bytes_max, &options).await;
        let leases = taken.as_ref().map(|taken| taken.leases.clone()).unwrap_or_default();
        // Sent is not received: who waited may be gone before he looks.
        if answer.send(taken).is_err() || is_received.await.is_err() {
            give_back(&queue, leases).await;
        }
    }));
    let closed = |_| Error::new(ErrorKind::Closed, "the runtime is shutting down");
    let taken = answered.await.map_err(closed)??;
    let _ = received.send(());
    Ok((taken.pulled, taken.next_at))
}

/// Claims a few, and then as many as there is room for if they go on like that.
async fn hand_out(
    queue: &WorkQueue,
    mut claim: ClaimRequest,
    bytes_max: usize,
    options: &WorkerOptions,
) -> Result<Taken> {
    let (limit, mut taken) = (claim.batch, Taken::default());
    claim.batch = limit.min(UNSEEN);
    loop {
        match queue.claim_as(claim.clone()).await {
            Ok(claims) => {
                let is_all = claims.claimed.len() < claim.batch;
                taken.next_at = claims.next_at;
                let is_full = keep(queue, &mut taken, claims.claimed, bytes_max, options).await;
                let room = bytes_max.saturating_sub(taken.bytes);
                let usual = (taken.bytes / taken.pulled.len().max(1)).max(1);
                claim.batch = (limit - taken.pulled.len()).min(room / usual);
                if is_all || is_full || claim.batch == 0 {
                    return Ok(taken);
                }
            }
            // What is there is handed out; whoever asks next is told.
            Err(_) if !taken.pulled.is_empty() => return Ok(taken),
            Err(error) => return Err(error),
        }
    }
}

/// Keeps what there is room for and gives back what is too much; says whether there was. What cannot be read is
/// nobody's to handle: it is tried again, and dead in the end.
async fn keep(
    queue: &WorkQueue,
    taken: &mut Taken,
    claimed: Vec<Claimed>,
    bytes_max: usize,
    options: &WorkerOptions,
) -> bool {
    let (mut settles, mut is_full) = (Vec::new(), false);
    for Claimed { lease, message } in claimed {
        match message {
            Err(why) => {
                telemetry::unreadable(queue.store_name(), queue.kind(), &lease, &why);
                settles.extend(Outcome::retry(why).into_settle(lease, None, options, queue.time_hint()));
            }
            Ok(message) => {
                let bytes = taken.bytes.saturating_add(size_of(&message));
                is_full |= bytes > bytes_max && !taken.pulled.is_empty();
                if is_full {
                    settles.push(Settle::release(lease));
                    continue;
                }
                taken.bytes = bytes;
                taken.pulled.push(Pulled { token: LeaseToken::from(&lease), until: lease.until(), message });
                taken.leases.push(lease);
            }
        }
    }
    let count = settles.len();
    if let Err(error) = queue.settle(settles).await {
        telemetry::settle_failed(queue, count, &error);
    }
    is_full
}

fn size_of(message: &Message) -> usize {
    let headers: usize = message.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    message.payload.len() + headers
}

async fn give_back(queue: &WorkQueue, leases: Vec<Lease>) {
    let count = leases.len();
    if let Err(error) = queue.release(leases).await {
        telemetry::settle_failed(queue, count, &error);
    }
}

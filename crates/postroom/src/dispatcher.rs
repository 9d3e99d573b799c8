//! The worker's filling for the outbox: messages with a destination are sent, the others are handled here.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Semaphore;
use tracing::Instrument;

use crate::clock::{Clock, monotonic};
use crate::message::Message;
use crate::queue::{Claimed, Lease, Queue};
use crate::store::{BoxFuture, Store};
use crate::telemetry;
use crate::transport::{Delivery, Pass, Transport};
use crate::worker::{Outcome, Process, Run};

pub(crate) struct Dispatcher {
    store: String,
    local: Arc<dyn Process>,
    transport: Option<Arc<dyn Transport>>,
    slots: Arc<Semaphore>,
    clock: Clock,
}

impl Dispatcher {
    pub(crate) fn new(
        store: &impl Store,
        local: Arc<dyn Process>,
        transport: Option<Arc<dyn Transport>>,
        slots: Arc<Semaphore>,
    ) -> Self {
        let (store, clock) = (store.name().to_owned(), store.clock().clone());
        Self { store, local, transport, slots, clock }
    }

    async fn send(&self, lease: Lease, message: &Message, run: &Run) {
        let lost = run.lost(&lease);
        let waiting = async {
            // First its destination's, then ours: messages to a slow destination take no place from the others.
            let pass = match &self.transport {
                Some(transport) => transport.admit(message).await?,
                None => Pass::default(),
            };
            Ok((pass, self.slots.acquire().await))
        };
        let permit = tokio::select! {
            biased;
            () = run.over(&lost) => return run.report(lease, Outcome::Release),
            permit = waiting => permit,
        };
        let permit = match permit {
            Ok(permit) => permit,
            Err(delivery) => {
                let outcome = outcome(delivery, message);
                telemetry::postponed(&self.store, Queue::Outbox, message, &outcome);
                return run.report(lease, outcome);
            }
        };
        telemetry::handling(&self.store, Queue::Outbox, message);
        let span = telemetry::handle_span(&self.store, Queue::Outbox, message);
        let started = monotonic();
        let delivery = match &self.transport {
            // It goes back as it came, and expires there.
            _ if message.expires_at.is_some_and(|expires| expires <= self.clock.now()) => None,
            None => Some(Delivery::NoRoute),
            Some(transport) => tokio::select! {
                delivery = send(transport.as_ref(), message).instrument(span) => Some(delivery),
                () = lost.cancelled() => None,
            },
        };
        drop(permit);
        let outcome = delivery.map_or(Outcome::Release, |delivery| outcome(delivery, message));
        telemetry::sent(&self.store, message, &outcome, run, started.elapsed());
        run.report(lease, outcome);
    }
}

/// A transport that panics has failed, like one that says so.
async fn send(transport: &dyn Transport, message: &Message) -> Delivery {
    let sending = AssertUnwindSafe(async { transport.send(message).await });
    sending.catch_unwind().await.unwrap_or_else(|_| Delivery::Failed { why: "the transport panicked".into() })
}

fn outcome(delivery: Delivery, message: &Message) -> Outcome {
    match delivery {
        Delivery::Accepted { response } => Outcome::Done { response },
        Delivery::Refused { why } => Outcome::Dead { why },
        Delivery::Failed { why } => Outcome::Retry { after: None, why, service: true },
        Delivery::Busy { retry_after, why } => Outcome::Postpone { after: retry_after, why },
        Delivery::NoRoute => {
            let why = format!("no way to the destination {}", message.destination().unwrap_or_default());
            Outcome::Unroutable { why, created_at: message.created_at }
        }
    }
}

impl Process for Dispatcher {
    fn process(self: Arc<Self>, batch: Vec<Claimed>, run: Run) -> BoxFuture<'static, ()> {
        let is_foreign =
            |claimed: &Claimed| claimed.message.as_ref().is_ok_and(|message| message.destination().is_some());
        if !batch.iter().any(is_foreign) {
            return self.local.clone().process(batch, run);
        }
        Box::pin(async move {
            let (foreign, local): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_foreign);
            let mut sending: FuturesUnordered<_> = foreign
                .iter()
                .filter_map(|claimed| Some((claimed.lease.clone(), claimed.message.as_ref().ok()?)))
                .map(|(lease, message)| self.send(lease, message, &run))
                .collect();
            let local = self.local.clone().process(local, run.clone());
            tokio::join!(local, async { while sending.next().await.is_some() {} });
        })
    }
}

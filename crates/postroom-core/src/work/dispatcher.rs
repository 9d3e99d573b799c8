//! The processing of the outbox: messages with a destination are sent, and the others are handled here.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tracing::Instrument;

use crate::message::Message;
use crate::queue::Outcome;
use crate::queue::{Claimed, Lease, Place, Queue};
use crate::store::{BoxFuture, Store};
use crate::support::clock::{Clock, monotonic};
use crate::telemetry;
use crate::work::batch::{BatchRun, Process, Slots};
use crate::work::delivery::{Delivery, Transport};
use crate::work::places::{Known, Places};

pub(crate) struct Dispatcher {
    store: String,
    local: Arc<dyn Process>,
    transport: Option<Arc<dyn Transport>>,
    places: Places,
    slots: Slots,
    clock: Clock,
}

impl Dispatcher {
    pub(crate) fn new(
        store: &impl Store,
        local: Arc<dyn Process>,
        transport: Option<Arc<dyn Transport>>,
        places: Places,
        slots: Slots,
    ) -> Self {
        let (store, clock) = (store.name().to_owned(), store.clock().clone());
        Self { store, local, transport, places, slots, clock }
    }

    /// Returns the place of a message, with the limits that the transport sets.
    fn place(&self, place: &Place) -> Arc<Known> {
        let limits = || self.transport.as_ref().map(|transport| transport.limits(place.name())).unwrap_or_default();
        self.places.of(place, self.slots.share, limits)
    }

    async fn send(&self, lease: Lease, message: &Message, run: &BatchRun) {
        let (told, place) = (run.told(&lease), self.place(&Place::of(message)));
        // It waits for its destination first, then for our own limit, so that messages to a slow destination do not
        // block others.
        let waiting = async { (place.slots().acquire().await, self.slots.all.acquire().await) };
        let permits = tokio::select! {
            biased;
            () = run.over(&told) => return run.report(lease, Outcome::Release),
            permits = waiting => permits,
        };
        // The destination may be held since the message was claimed. The message then goes back to the queue.
        if !run.enter(&lease, &place) {
            return run.report(lease, Outcome::Release);
        }
        telemetry::handling(&self.store, Queue::Outbox, message);
        let span = telemetry::handle_span(&self.store, Queue::Outbox, message);
        let started = monotonic();
        let delivery = match &self.transport {
            // It goes back unchanged, and expires there.
            _ if message.expires_at.is_some_and(|expires| expires <= self.clock.now()) => None,
            None => Some(Delivery::no_route(message.destination())),
            Some(transport) => tokio::select! {
                delivery = send(transport.as_ref(), message).instrument(span) => Some(delivery),
                // If it is only asked to stop, the attempt is finished: the other service may have it already.
                () = run.until_lost(&lease, &told) => None,
            },
        };
        drop(permits);
        let outcome = delivery.map_or(Outcome::Release, Outcome::from);
        telemetry::services::sent(&self.store, message, &outcome, &run.meters, &run.policies, started.elapsed());
        run.report(lease, outcome);
    }
}

/// A transport that panics counts as failed.
async fn send(transport: &dyn Transport, message: &Message) -> Delivery {
    let sending = AssertUnwindSafe(async { transport.send(message).await });
    sending.catch_unwind().await.unwrap_or_else(|_| Delivery::unreachable("the transport panicked"))
}

impl Process for Dispatcher {
    fn slots(&self, place: &Place) -> usize {
        match place {
            Place::Service(_) => self.place(place).permits(),
            Place::Topic(_) => self.local.slots(place),
        }
    }

    fn process(self: Arc<Self>, batch: Vec<Claimed>, run: BatchRun) -> BoxFuture<'static, ()> {
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

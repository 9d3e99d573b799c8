//! Two services with a wire between them: one sends what is in its outbox, the other receives.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use postroom::services::{Courier, Key, ListenOptions, Listener, Receiver, Secret, Service, Services, Source};
use postroom::store::BoxFuture;
use postroom::worker::{Delivery, Limits, Transport};
use postroom::{Handlers, Message, Worker};
use tokio::sync::watch;

use super::gate::Gate;
use super::ground::{Base, Ground};
use super::place::{DESTINATION, Place, SOURCE};
use super::wire::{Stop, Word, say};
use super::worker::{Stops, options, over};

/// A sender waits this many leases for an answer; a receiver that is stopped does not answer for longer.
const PATIENCE: u32 = 2;

fn key() -> Result<Key> {
    Ok(Key::new("torture", Secret::parse("known to both services of the crash test")?)?)
}

/// Sends until the grants are over.
pub(crate) async fn send<G: Ground>(place: &Place, gate: &Arc<Gate>, end: watch::Receiver<Option<u64>>) -> Result<()> {
    let orders = G::open(place, Base::Orders, false).await?;
    let peer = place.peer.clone().context("nobody said where the receiver is")?;
    let service = Service::new(DESTINATION, peer).keys(key()?).timeout(PATIENCE * place.database.lease());
    let service = service.breaker(10, Duration::from_millis(50), Duration::from_millis(200));
    let courier = Courier::new(Services::new(SOURCE).service(service))?;
    let worker = Worker::<G>::outbox(orders, Handlers::new()).transport(Gated { courier, gate: gate.clone() });
    let worker = worker.options(options(place, gate, Stop::ClaimedOutbox)?);
    say(&Word::Ready);
    Ok(worker.run(over(end)).await?)
}

/// Receives until the grants are over.
pub(crate) async fn receive<G: Ground>(
    place: &Place,
    gate: &Arc<Gate>,
    end: watch::Receiver<Option<u64>>,
) -> Result<()> {
    let ledger = G::open(place, Base::Ledger, false).await?;
    let handlers = G::handlers(&Stops::<G>::open(place, gate).await?);
    let receiver = Receiver::new(DESTINATION, ledger, handlers, [Source::new(SOURCE, key()?)])?;
    let address = format!("unix://{}", Place::socket_path(&place.dir).display());
    let listener = Listener::bind(&address, ListenOptions::default()).await?;
    say(&Word::Ready);
    receiver.serve(listener, over(end)).await;
    Ok(())
}

/// A courier that can be stopped before and after a message is sent.
struct Gated {
    courier: Courier,
    gate: Arc<Gate>,
}

impl Transport for Gated {
    fn limits(&self, destination: &str) -> Limits {
        self.courier.limits(destination)
    }

    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        Box::pin(async move {
            let id = message.id();
            self.gate.pass(Stop::Sending, &id);
            let delivery = self.courier.send(message).await;
            if matches!(delivery, Delivery::Accepted { .. }) {
                say(&Word::Handled);
                self.gate.pass(Stop::Sent, &id);
            }
            delivery
        })
    }
}

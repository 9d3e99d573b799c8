//! Two services: `orders` sends to `inventory`, which handles and answers.

use postroom::clock::Clock;
use postroom::message::Kind;
use postroom::queue::{Pending, Queue};
use postroom::services::{Courier, Neighbours, Receiver, ReceiverOptions, Service, Services, Source};
use postroom::worker::Places;
use postroom::{Handlers, NewMessage, Outbox, Payload, Worker};
use serde::{Deserialize, Serialize};

use crate::harness::{Stage, Testable};
use crate::peer;
use crate::script::{Running, Script};
use crate::services::{TOPIC, asynchronous};

/// What `orders` asks `inventory` for.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Reserve {
    /// For which order.
    pub order: u64,
}

impl Payload for Reserve {
    const TOPIC: &'static str = TOPIC;
    const KIND: Kind = Kind::Command;
    type Reply = String;
}

impl Reserve {
    /// Asks for it, and waits for an answer of any type.
    pub async fn ask<R>(&self, outbox: &Outbox) -> postroom::Result<Pending<R>> {
        let message = NewMessage::of(self)?.to("inventory");
        let pending = outbox.requested(message.message_id(), "inventory");
        outbox.enqueue(message).await?;
        Ok(pending)
    }
}

/// Both services, each with its own store and workers.
#[derive(Debug)]
pub struct Pair<B: Testable> {
    /// The store of `orders`.
    pub orders: Stage<B>,
    /// The store of `inventory`.
    pub inventory: Stage<B>,
    workers: Vec<Running>,
}

impl<B: Testable> Pair<B> {
    /// Both in this process; `inventory` plays a script.
    pub async fn in_process(stage: &Stage<B>, script: &Script, options: ReceiverOptions) -> anyhow::Result<Self> {
        let (orders, inventory) = (stage.another("orders").await?, stage.another("inventory").await?);
        let neighbours = Neighbours::default();
        neighbours.add(receiver(&inventory, "inventory", "orders", asynchronous::<B>(script), options)?);
        neighbours.add(receiver(&orders, "orders", "inventory", Handlers::new(), ReceiverOptions::default())?);
        let between = |stage: &Stage<B>, source: &str, destination: &str| {
            let service = Service::new(destination, "in-process");
            let services = services(stage, source, service);
            anyhow::Ok(sender(stage, Courier::with_neighbours(services, neighbours.clone())?))
        };
        let workers = vec![
            between(&orders, "orders", "inventory")?,
            between(&inventory, "inventory", "orders")?,
            Running::start(inventory.worker(Queue::Inbox, asynchronous::<B>(script))),
        ];
        Ok(Self { orders, inventory, workers })
    }

    /// Stops everything and leaves nothing behind.
    pub async fn end(self) -> anyhow::Result<()> {
        for worker in self.workers {
            worker.stop().await?;
        }
        self.orders.close().await;
        self.inventory.close().await;
        Ok(())
    }
}

/// A receiver of `service` on this store, for one source with the usual key.
pub fn receiver<B: Testable>(
    stage: &Stage<B>,
    service: &str,
    source: &str,
    handlers: Handlers<B>,
    options: ReceiverOptions,
) -> anyhow::Result<Receiver<B>> {
    let source = Source::new(source, peer::key()?);
    Ok(Receiver::with(service, stage.store.clone(), handlers, [source], options)?)
}

/// The service that `source` knows, on the case's clock.
pub fn services<B: Testable>(stage: &Stage<B>, source: &str, service: Service) -> Services {
    Services::new(source).service(service).clock(Clock::Manual(stage.clock.clone()))
}

/// A courier of `orders` to this service.
pub fn courier<B: Testable>(stage: &Stage<B>, service: Service) -> anyhow::Result<Courier> {
    Ok(Courier::new(services(stage, "orders", service))?)
}

/// Sends what is in this store's outbox.
pub fn sender<B: Testable>(stage: &Stage<B>, courier: Courier) -> Running {
    sender_with(stage, courier, Places::default())
}

/// The same, which tells how its places are.
pub fn sender_with<B: Testable>(stage: &Stage<B>, courier: Courier, places: Places) -> Running {
    Running::start(Worker::<B>::outbox(stage.store.clone(), Handlers::new()).transport(courier).places(places))
}

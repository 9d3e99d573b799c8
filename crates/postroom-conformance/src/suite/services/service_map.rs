//! Which transport a message goes by: that of its service, or the one for all services that are not listed.

use postroom::NewMessage;
use postroom::queue::Queue;
use postroom::services::{Courier, ReceiverOptions, Service};
use postroom::sqlite::Sqlite;

use crate::case::{Verdict, cases};
use crate::harness::{Stage, eventually};
use crate::lines::Office;
use crate::pair;
use crate::peer;
use crate::script::Script;
use crate::services::{TOPIC, asynchronous};

cases! { service_map:
    sqlite each_service_is_reached_by_its_own_transport ["SQM-7.2.2", "SQM-12.5"];
    sqlite a_service_that_is_not_listed_is_reached_by_the_default_transport ["SQM-7.2.1", "SQM-12.5"];
}

/// A service that listens, and what it was sent.
struct Listening {
    name: &'static str,
    stage: Stage<Sqlite>,
    office: Office,
    script: Script,
}

impl Listening {
    async fn new(stage: &Stage<Sqlite>, name: &'static str, address: &str) -> anyhow::Result<Self> {
        let (stage, script) = (stage.another(name).await?, Script::succeed());
        let mut office = Office::at(address.to_owned(), &stage.place).await?;
        let handlers = asynchronous::<Sqlite>(&script);
        office.open(pair::receiver(&stage, name, "orders", handlers, ReceiverOptions::default())?).await?;
        Ok(Self { name, stage, office, script })
    }

    async fn end(mut self) -> Verdict {
        self.office.close().await?;
        self.stage.end(Ok(())).await
    }
}

/// Sends one message to each of them, and each gets its own.
async fn each_gets_its_own(stage: &Stage<Sqlite>, courier: Courier, services: Vec<Listening>) -> Verdict {
    let worker = pair::sender(stage, courier);
    for service in &services {
        stage.outbox.enqueue(NewMessage::new(TOPIC, format!("\"{}\"", service.name)).to(service.name)).await?;
    }
    let (queue, all) = (stage.side(Queue::Outbox), services.len() as u64);
    eventually("all are sent", || async move { Ok(queue.verbs().stats().await?.done == all) }).await?;
    worker.stop().await?;
    for service in services {
        let got: Vec<_> = service.script.calls().iter().map(|message| message.payload.clone()).collect();
        assert_eq!(got, [format!("\"{}\"", service.name)]);
        service.end().await?;
    }
    Ok(())
}

async fn each_service_is_reached_by_its_own_transport(stage: &Stage<Sqlite>) -> Verdict {
    let socket = format!("unix://{}", stage.place.path("sockets/billing.sock").display());
    let inventory = Listening::new(stage, "inventory", "http://127.0.0.1:0").await?;
    let shipping = Listening::new(stage, "shipping", "grpc://127.0.0.1:0").await?;
    let billing = Listening::new(stage, "billing", &socket).await?;
    let services = pair::services(stage, "orders", inventory.office.service("inventory")?);
    let services = services.service(shipping.office.service("shipping")?).service(billing.office.service("billing")?);
    each_gets_its_own(stage, Courier::new(services)?, vec![inventory, shipping, billing]).await
}

async fn a_service_that_is_not_listed_is_reached_by_the_default_transport(stage: &Stage<Sqlite>) -> Verdict {
    let sockets = stage.place.path("sockets");
    let socket = |service: &str| format!("unix://{}", sockets.join(service).display());
    let inventory = Listening::new(stage, "inventory", "http://127.0.0.1:0").await?;
    let billing = Listening::new(stage, "billing", &socket("billing")).await?;
    let shipping = Listening::new(stage, "shipping", &socket("shipping")).await?;
    let services = pair::services(stage, "orders", inventory.office.service("inventory")?);
    let services = services.others(Service::new("others", socket("{service}")).keys(peer::key()?));
    each_gets_its_own(stage, Courier::new(services)?, vec![inventory, billing, shipping]).await
}

//! Services whose address does not say how they are spoken to.

use postroom::NewMessage;
use postroom::clock::Clock;
use postroom::queue::Queue;
use postroom::services::{Courier, Neighbours, ReceiverOptions, Service, Services, TransportType};
use postroom::sqlite::Sqlite;

use crate::case::{Verdict, cases};
use crate::harness::{Stage, eventually};
use crate::lines::{Grpc, Http, Line, Office, Pipe, Unix};
use crate::script::Script;
use crate::services::{TOPIC, asynchronous};
use crate::{pair, peer};

cases! { default_transport:
    sqlite an_address_without_a_scheme_is_spoken_to_by_the_default_transport [];
    sqlite a_service_that_is_not_listed_is_where_its_name_says ["SQM-7.2.3"];
    sqlite in_process_services_are_found_without_a_list [];
}

fn services(stage: &Stage<Sqlite>, transport: TransportType) -> Services {
    Services::new("orders").default_transport(transport).clock(Clock::Manual(stage.clock.clone()))
}

/// Sends a message there, and waits for it to be done.
async fn sends(stage: &Stage<Sqlite>, courier: Courier, destination: &str, script: &Script) -> Verdict {
    let (worker, done) = (pair::sender(stage, courier), stage.outbox.queue().stats().await?.done);
    stage.outbox.enqueue(NewMessage::new(TOPIC, "1").to(destination)).await?;
    let is_done = || async move {
        stage.skip_pause(Queue::Outbox).await?;
        Ok(stage.outbox.queue().stats().await?.done == done + 1)
    };
    eventually("it is sent", is_done).await?;
    assert_eq!(script.count(), 1);
    worker.stop().await
}

async fn an_address_without_a_scheme_is_spoken_to_by_the_default_transport(stage: &Stage<Sqlite>) -> Verdict {
    type Address = fn(&crate::harness::Place) -> String;
    let addresses: [(TransportType, Address); 4] = [
        (TransportType::Http, Http::address),
        (TransportType::Grpc, Grpc::address),
        (TransportType::Unix, Unix::address),
        (TransportType::Pipe, Pipe::address),
    ];
    for (transport, address) in addresses {
        let (inventory, script) = (stage.another(&format!("at-{transport}")).await?, Script::succeed());
        let mut office = Office::at(address(&inventory.place), &inventory.place).await?;
        let handlers = asynchronous::<Sqlite>(&script);
        office.open(pair::receiver(&inventory, "inventory", "orders", handlers, ReceiverOptions::default())?).await?;
        let Some((_, place)) = office.address().split_once("://") else { anyhow::bail!("{}", office.address()) };
        let service = Service::new("inventory", place).keys(peer::key()?);
        let courier = Courier::new(services(stage, transport).service(service))?;
        sends(stage, courier, "inventory", &script).await?;
        office.close().await?;
        inventory.close().await;
    }
    Ok(())
}

async fn a_service_that_is_not_listed_is_where_its_name_says(stage: &Stage<Sqlite>) -> Verdict {
    let (inventory, script) = (stage.another("inventory").await?, Script::succeed());
    // Names of pipes are known to the whole machine.
    let name = format!("inventory-{}", std::process::id());
    let mut office = Office::at(format!("pipe://rf-{name}"), &inventory.place).await?;
    let handlers = asynchronous::<Sqlite>(&script);
    office.open(pair::receiver(&inventory, &name, "orders", handlers, ReceiverOptions::default())?).await?;
    let others = Service::new("others", "").keys(peer::key()?);
    let courier = Courier::new(services(stage, TransportType::Pipe).others(others))?;
    sends(stage, courier, &name, &script).await?;
    office.close().await?;
    inventory.close().await;
    Ok(())
}

async fn in_process_services_are_found_without_a_list(stage: &Stage<Sqlite>) -> Verdict {
    let (inventory, script, neighbours) = (stage.another("inventory").await?, Script::succeed(), Neighbours::default());
    let handlers = asynchronous::<Sqlite>(&script);
    neighbours.add(pair::receiver(&inventory, "inventory", "orders", handlers, ReceiverOptions::default())?);
    let courier = Courier::with_neighbours(services(stage, TransportType::InProcess), neighbours)?;
    sends(stage, courier, "inventory", &script).await?;
    inventory.close().await;
    Ok(())
}

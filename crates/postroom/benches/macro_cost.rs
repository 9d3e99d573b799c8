//! The same work by hand and by macro, for callgrind to count: `cargo xtask callgrind`.

#![allow(missing_docs, reason = "a program")]

use std::hint::black_box;

use postroom::clock::{Clock, ManualClock, Timestamp};
use postroom::message::Kind;
use postroom::operator::Filter;
use postroom::services::{Courier, Declared, Neighbours, Receiver, Service, Services};
use postroom::store::{Memory, MemoryStore};
use postroom::worker::{Delivery, Transport};
use postroom::{Command, Ctx, HandlerResult, Handlers, Message, NewMessage, Outbox, Payload, service};
use serde::{Deserialize, Serialize};

const MESSAGES: u64 = 2_000;

#[derive(Serialize, Deserialize)]
struct Reserved {
    shelf: u64,
}

mod by_hand {
    use super::*;

    #[derive(Serialize, Deserialize)]
    pub(super) struct Reserve {
        pub(super) order: u64,
        pub(super) item: String,
    }

    impl Payload for Reserve {
        const TOPIC: &'static str = "stock.reserve";
        const KIND: Kind = Kind::Command;
        type Reply = Reserved;
    }

    async fn reserve(_: &mut Ctx<Memory>, wanted: Reserve) -> HandlerResult<Reserved> {
        Ok(Reserved { shelf: wanted.order % 10 + wanted.item.len() as u64 })
    }

    pub(super) fn handlers() -> Handlers<Memory> {
        Handlers::new().on(reserve)
    }

    pub(super) fn message(order: u64) -> postroom::Result<NewMessage> {
        Ok(NewMessage::of(&Reserve { order, item: "teapot".to_owned() })?.to("inventory"))
    }
}

mod by_macro {
    use super::*;

    #[derive(Serialize, Deserialize, Command)]
    #[command("stock.reserve", reply = Reserved)]
    pub(super) struct Reserve {
        pub(super) order: u64,
        pub(super) item: String,
    }

    async fn reserve(_: &mut Ctx<Memory>, wanted: Reserve) -> HandlerResult<Reserved> {
        Ok(Reserved { shelf: wanted.order % 10 + wanted.item.len() as u64 })
    }

    service! {
        pub(super) struct Inventory for "inventory" on Memory;
        handle Reserve => reserve;
    }

    service! {
        pub(super) struct Orders for "orders" on Memory;
        destination inventory { url: "in-process", sends: [Reserve] }
    }

    pub(super) fn handlers() -> Handlers<Memory> {
        Inventory::handlers()
    }

    pub(super) fn message(order: u64) -> postroom::Result<NewMessage> {
        Orders::to_inventory(&Reserve { order, item: "teapot".to_owned() }).message()
    }
}

/// What is counted is what runs inside this.
#[inline(never)]
fn counted<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

fn store() -> MemoryStore {
    MemoryStore::with_clock(Clock::Manual(ManualClock::new(Timestamp::from_micros(1_767_225_600_000_000))))
}

type Build = fn(u64) -> postroom::Result<NewMessage>;

/// Messages as a worker claims them, with ids that do not differ from run to run.
async fn stored(message: Build) -> postroom::Result<Vec<Message>> {
    let outbox = Outbox::new(store());
    for order in 0..MESSAGES {
        outbox.enqueue(message(order)?).await?;
    }
    let rows = outbox.queue().list(Filter::all().limit(usize::MAX)).await?;
    Ok(rows.iter().filter_map(|row| row.message().ok()).cloned().collect())
}

fn main() -> postroom::Result<()> {
    // Cargo says `--bench` as well.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let [what, how] = words.as_slice() else {
        println!("cargo xtask callgrind counts what this program does");
        return Ok(());
    };
    let (message, handlers): (Build, fn() -> Handlers<Memory>) = match how.as_str() {
        "hand" => (by_hand::message, by_hand::handlers),
        _ => (by_macro::message, by_macro::handlers),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    match what.as_str() {
        "message" => counted(|| (0..MESSAGES).try_for_each(|order| message(order).map(|built| drop(black_box(built))))),
        "send" => {
            let outbox = Outbox::new(store());
            counted(|| {
                runtime.block_on(async {
                    for order in 0..MESSAGES {
                        outbox.enqueue(message(order)?).await?;
                    }
                    Ok(())
                })
            })
        }
        _ => {
            let messages = runtime.block_on(stored(message))?;
            let neighbours = Neighbours::default();
            neighbours.add(Receiver::new("inventory", store(), handlers(), [])?);
            let services = Services::new("orders").service(Service::new("inventory", "in-process"));
            let courier = Courier::with_neighbours(services, neighbours)?;
            counted(|| {
                runtime.block_on(async {
                    for message in &messages {
                        let delivery = courier.send(message).await;
                        assert!(matches!(delivery, Delivery::Accepted { .. }), "{delivery:?}");
                    }
                    Ok(())
                })
            })
        }
    }
}

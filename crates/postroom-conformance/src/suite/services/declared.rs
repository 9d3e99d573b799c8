//! Declared services: two of them talk, on every backend, with what `service!` wrote and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use postroom::handler::Backend;
use postroom::message::Kind;
use postroom::queue::{Queue, Settle, State};
use postroom::services::Neighbours;
use postroom::worker::Retention;
use postroom::{
    Command, Ctx, ErrorKind, HandlerError, HandlerResult, NewMessage, Outbox, Payload, Signal, WorkerOptions, service,
};
use serde::{Deserialize, Serialize};

use crate::case::{Verdict, cases};
use crate::harness::{Harness, LEASE, Stage, Testable, eventually, soon};

cases! { declared:
    worker two_services_talk ["SQM-1.4", "SQM-4.2.4", "SQM-5.2.1", "SQM-7.1.5", "SQM-10.1.1"];
    worker what_is_not_set_is_named ["SQM-10.2.3"];
    worker options_that_cannot_work_are_refused_at_the_start ["SQM-6.4.2"];
    both an_answer_that_is_late_can_be_waited_for_again [];
    sqlite two_services_talk_over_http ["SQM-1.3", "SQM-4.2.4", "SQM-10.1.2"];
}

#[derive(Serialize, Deserialize, Command)]
#[command("stock.reserve", reply = Reserved)]
pub(super) struct Reserve {
    order: u64,
}

#[derive(PartialEq, Serialize, Deserialize, Debug)]
pub(super) struct Reserved {
    shelf: u64,
}

#[derive(Serialize, Deserialize, Signal)]
#[signal("order.cancelled")]
pub(super) struct Cancelled {
    order: u64,
}

async fn an_answer_that_is_late_can_be_waited_for_again(h: &Harness) -> Verdict {
    let pending = h.outbox.request(Reserve { order: 7 }.outgoing().to("inventory")).await?;
    let late = pending.answer_within(Duration::from_millis(20)).await.expect_err("nobody answers");
    assert!(late.kind() == ErrorKind::TimedOut && late.is_transient(), "{late}");
    let side = h.side(Queue::Outbox);
    side.settle(Settle::ack_with(side.claim_one().await?, Some(r#"{"shelf":2}"#.into()))).await?;
    assert_eq!(pending.answer_within(LEASE).await?, Reserved { shelf: 2 });
    Ok(())
}

type Total = Arc<AtomicU64>;

async fn reserve<B: Backend>(ctx: &mut Ctx<B>, wanted: Reserve) -> HandlerResult<Reserved> {
    if wanted.order == 0 {
        return Err(HandlerError::terminal("nothing was ordered"));
    }
    ctx.state::<Total>()?.fetch_add(wanted.order, Ordering::SeqCst);
    Ok(Reserved { shelf: wanted.order % 10 })
}

async fn cancelled<B: Backend>(ctx: &mut Ctx<B>, cancelled: Cancelled) -> HandlerResult<()> {
    ctx.state::<Total>()?.fetch_sub(cancelled.order, Ordering::SeqCst);
    Ok(())
}

/// Both services on one backend.
pub(super) trait Shop: Testable {
    /// Starts both, lets them talk, and stops them.
    fn talk(orders: Self::Store, inventory: Self::Store, total: Total) -> impl Future<Output = Verdict> + Send;

    /// Starts a service with these options.
    fn with(store: Self::Store, options: WorkerOptions) -> impl Future<Output = postroom::Result<()>> + Send;

    /// Starts a service whose secret is nowhere.
    fn without_secret(store: Self::Store) -> impl Future<Output = postroom::Result<()>> + Send;
}

macro_rules! shop {
    ($module:ident, $backend:ident) => {
        mod $module {
            use crate::backends::$backend;

            use super::*;

            service! {
                struct Inventory for "inventory" on $backend;
                handle Reserve => reserve;
                handle Cancelled => cancelled;
            }

            service! {
                struct Orders for "orders" on $backend;
                destination inventory { url: "in-process", sends: [Reserve, Cancelled] }
            }

            service! {
                struct Lost for "lost" on $backend;
                destination inventory {
                    url: "http://127.0.0.1:1",
                    secret: env("POSTROOM_TEST_NO_SUCH_SECRET"),
                    sends: [Reserve],
                }
            }

            impl Shop for $backend {
                async fn talk(orders: Self::Store, inventory: Self::Store, total: Total) -> Verdict {
                    let neighbours = Neighbours::default();
                    let inventory = Inventory::on(inventory).state(total.clone()).neighbours(neighbours.clone());
                    let inventory = inventory.start().await?;
                    let orders = Orders::on(orders).neighbours(neighbours).start().await?;
                    let pending = orders.inventory().request(&Reserve { order: 42 }).await?;
                    assert_eq!(soon("it is answered", pending.answer()).await??, Reserved { shelf: 2 });
                    let refused = orders.inventory().request(&Reserve { order: 0 }).await?;
                    let refused = soon("it is refused", refused.answer()).await?.unwrap_err();
                    assert_eq!(refused.kind(), ErrorKind::NotDelivered, "{refused}");
                    orders.inventory().send(&Cancelled { order: 40 }).await?;
                    let outgoing = Orders::to_inventory(&Cancelled { order: 1 }).correlation_id("a");
                    orders.outbox().enqueue(outgoing).await?;
                    eventually("both are handled", || async { Ok(total.load(Ordering::SeqCst) == 1) }).await?;
                    a_newer_version_waits_at_its_sender(orders.outbox()).await?;
                    orders.stop().await?;
                    inventory.stop().await?;
                    Ok(())
                }

                async fn without_secret(store: Self::Store) -> postroom::Result<()> {
                    Lost::start(store).await?.stop().await
                }

                async fn with(store: Self::Store, options: WorkerOptions) -> postroom::Result<()> {
                    Inventory::on(store).worker(options).start().await?.stop().await
                }
            }
        }
    };
}

shop!(on_memory, Memory);
shop!(on_sqlite, Sqlite);
shop!(on_postgres, Postgres);
shop!(on_mysql, MySql);
shop!(on_mssql, Mssql);

async fn two_services_talk<B: Shop>(stage: &Stage<B>) -> Verdict {
    let (orders, inventory) = (stage.another("orders").await?, stage.another("inventory").await?);
    B::talk(orders.store.clone(), inventory.store.clone(), Total::default()).await?;
    orders.close().await;
    inventory.close().await;
    Ok(())
}

async fn what_is_not_set_is_named<B: Shop>(stage: &Stage<B>) -> Verdict {
    let refused = B::without_secret(stage.store.clone()).await.err().context("it has no secret")?;
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("POSTROOM_TEST_NO_SUCH_SECRET"), "{refused}");
    Ok(())
}

async fn options_that_cannot_work_are_refused_at_the_start<B: Shop>(stage: &Stage<B>) -> Verdict {
    let week = Duration::from_secs(7 * 24 * 3600);
    let forgetful = WorkerOptions::default().retention(Retention::default().outbox_done(week).inbox_done(week));
    for (options, why) in [(WorkerOptions::default().batch(0), "batch"), (forgetful, "handled twice")] {
        let refused = B::with(stage.store.clone(), options).await.err().context("it cannot work")?;
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert!(refused.to_string().contains(why), "{refused}");
    }
    B::with(stage.store.clone(), WorkerOptions::default()).await?;
    Ok(())
}

/// Its receiver is released later than its sender: no attempt is spent, and nothing dies.
async fn a_newer_version_waits_at_its_sender(outbox: &Outbox) -> Verdict {
    let newer = NewMessage::new("stock.reserve", "{}").kind(Kind::Command).header("payload-version", "9");
    let stored = outbox.enqueue(newer.to("inventory")).await?;
    let row = || async { outbox.find(stored.id().as_uuid()).await?.pop().context("it is stored") };
    eventually("it was tried", || async { Ok(row().await?.last_error().is_some()) }).await?;
    let row = row().await?;
    assert_eq!((row.state(), row.attempts()), (State::Ready, 0));
    assert!(row.last_error().is_some_and(|error| error.contains("version 9")), "{:?}", row.last_error());
    Ok(())
}

mod over_http {
    use std::sync::OnceLock;

    use postroom::services::{Key, Secret};
    use postroom::sqlite::Sqlite;

    use super::*;

    /// Where inventory listens, once it does.
    pub(super) static ADDRESS: OnceLock<String> = OnceLock::new();

    fn key() -> Key {
        let secret = Secret::parse("a secret that only tests may have in their source").expect("it is long enough");
        Key::new("1", secret).expect("it is an id")
    }

    service! {
        pub(super) struct Inventory for "inventory" on Sqlite;
        listen "http://127.0.0.1:0";
        source "orders" { secret: keys(key()) }
        handle Reserve => reserve;
    }

    service! {
        pub(super) struct Orders for "orders" on Sqlite;
        destination inventory {
            url: ADDRESS.get().cloned().unwrap_or_default(),
            secret: keys(key()),
            sends: [Reserve],
        }
    }
}

async fn two_services_talk_over_http(stage: &Stage<postroom::sqlite::Sqlite>) -> Verdict {
    let (orders, inventory) = (stage.another("orders").await?, stage.another("inventory").await?);
    let total = Total::default();
    let receiving = over_http::Inventory::on(inventory.store.clone()).state(total.clone()).start().await?;
    let address = receiving.tcp_addresses().first().context("it listens")?;
    over_http::ADDRESS.set(format!("http://{address}")).ok();
    let sending = over_http::Orders::start(orders.store.clone()).await?;
    let pending = sending.inventory().request(&Reserve { order: 42 }).await?;
    assert_eq!(soon("it is answered", pending.answer()).await??, Reserved { shelf: 2 });
    sending.until(std::future::ready(())).await?;
    receiving.stop().await?;
    assert_eq!(total.load(Ordering::SeqCst), 42);
    Ok(())
}

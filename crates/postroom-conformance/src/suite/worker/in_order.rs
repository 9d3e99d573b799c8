//! Workers handle and send the messages of a lane in order, one at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use postroom::queue::Queue;
use postroom::store::BoxFuture;
use postroom::worker::{Delivery, Transport};
use postroom::{Event, Handlers, Message, NewMessage, Payload, Worker, WorkerOptions};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Stage, Testable, eventually, readable};
use crate::script::{Running, Script};

cases! { in_order:
    worker several_workers_handle_each_lane_in_order [];
    worker messages_to_another_service_are_sent_in_the_order_of_their_lane [];
    worker a_message_that_is_handled_in_a_transaction_lets_the_next_one_pass [];
    worker a_type_names_the_lane_of_its_messages [];
}

const LANES: usize = 5;
const EACH: usize = 12;

/// What was handled in each lane, and how many are in progress there.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<HashMap<String, Lane>>>);

#[derive(Default)]
struct Lane {
    in_progress: usize,
    payloads: Vec<String>,
    problem: Option<String>,
}

impl Seen {
    fn with<T>(&self, message: &Message, change: impl FnOnce(&mut Lane) -> T) -> T {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(lanes.entry(message.lane.clone().unwrap_or_default()).or_default())
    }

    /// Handles a message, with time for others to get in between.
    async fn handle(&self, message: &Message) {
        self.with(message, |lane| {
            lane.in_progress += 1;
            if lane.in_progress > 1 {
                lane.problem = Some(format!("{} began before the one before it ended", message.payload));
            }
        });
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        self.with(message, |lane| {
            lane.in_progress -= 1;
            lane.payloads.push(message.payload.clone());
        });
    }

    fn check(&self) -> Verdict {
        let lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let expected: Vec<_> = (0..EACH).map(|number| number.to_string()).collect();
        anyhow::ensure!(lanes.len() == LANES, "{} lanes were seen", lanes.len());
        for (name, lane) in lanes.iter() {
            anyhow::ensure!(lane.problem.is_none(), "{name}: {:?}", lane.problem);
            anyhow::ensure!(lane.payloads == expected, "{name}: {:?}", lane.payloads);
        }
        Ok(())
    }
}

/// Without a wake-up, a worker would not look again.
fn options() -> WorkerOptions {
    WorkerOptions::default().poll(Duration::from_secs(3600))
}

async fn several_workers_handle_each_lane_in_order<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        let seen = Seen::default();
        let script = {
            let seen = seen.clone();
            Script::new(move |call| {
                let seen = seen.clone();
                async move {
                    seen.handle(&call.message).await;
                    Ok(None)
                }
            })
        };
        let workers: Vec<_> = (0..4).map(|_| stage.work(side.queue, &script, options())).collect();
        for number in 0..EACH {
            for lane in 0..LANES {
                let draft = Draft::new("a").payload(number.to_string()).lane(&format!("lane-{lane}"));
                side.put(&draft).await?;
            }
        }
        let all = (LANES * EACH) as u64;
        eventually("all are done", || async move { Ok(side.verbs().stats().await?.done == all) }).await?;
        for worker in workers {
            worker.stop().await?;
        }
        seen.check()?;
    }
    Ok(())
}

struct Road(Seen);

impl Transport for Road {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        Box::pin(async move {
            self.0.handle(message).await;
            Delivery::Accepted { response: None }
        })
    }
}

async fn messages_to_another_service_are_sent_in_the_order_of_their_lane<B: Testable>(stage: &Stage<B>) -> Verdict {
    let (seen, side) = (Seen::default(), stage.side(Queue::Outbox));
    let workers: Vec<_> = (0..2)
        .map(|_| Worker::<B>::outbox(stage.store.clone(), Handlers::new()).transport(Road(seen.clone())))
        .map(|worker| Running::start(worker.options(options())))
        .collect();
    let message = |at: usize| {
        let message = NewMessage::new("a", (at / LANES).to_string()).to("billing");
        message.lane(format!("lane-{}", at % LANES))
    };
    stage.outbox.enqueue_many((0..LANES * EACH).map(message)).await?;
    let all = (LANES * EACH) as u64;
    eventually("all are sent", || async move { Ok(side.verbs().stats().await?.done == all) }).await?;
    for worker in workers {
        worker.stop().await?;
    }
    seen.check()
}

async fn a_message_that_is_handled_in_a_transaction_lets_the_next_one_pass<B: Testable>(stage: &Stage<B>) -> Verdict {
    let side = stage.side(Queue::Outbox);
    // Enqueuing takes the handler's transaction, and the ack is part of it.
    let handlers = Handlers::<B>::new()
        .on_topic("a", async |ctx: &mut postroom::Ctx<B>, _: Arc<Message>| {
            ctx.enqueue(NewMessage::new("b", "{}")).await?;
            Ok(None)
        })
        .on_topic("b", async |_: &mut postroom::Ctx<B>, _: Arc<Message>| Ok(None));
    let worker = Running::start(Worker::<B>::outbox(stage.store.clone(), handlers).options(options()));
    for _ in 0..10 {
        side.put(&Draft::new("a").lane("order-7")).await?;
    }
    eventually("all are done", || async move { Ok(side.verbs().stats().await?.done == 20) }).await?;
    worker.stop().await
}

#[derive(serde::Serialize, serde::Deserialize, Event)]
#[event("order.paid", lane = "{shop}/order-{order}")]
struct Paid {
    shop: String,
    order: u64,
}

async fn a_type_names_the_lane_of_its_messages<B: Testable>(stage: &Stage<B>) -> Verdict {
    let paid = Paid { shop: "north".into(), order: 7 };
    let other = paid.outgoing().lane("audit");
    let none = paid.outgoing().lane("");
    let ids =
        [stage.outbox.enqueue(&paid).await?, stage.outbox.enqueue(other).await?, stage.outbox.enqueue(none).await?];
    let mut lanes = Vec::new();
    for stored in ids {
        let record = stage.outbox.find(stored.id().as_uuid()).await?.pop().context("it is stored")?;
        lanes.push(readable(&record)?.lane.clone());
    }
    assert_eq!(lanes, [Some("north/order-7".into()), Some("audit".into()), None]);
    Ok(())
}

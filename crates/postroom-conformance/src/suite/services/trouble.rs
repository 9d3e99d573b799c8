//! Ordinary trouble, one case for each kind. Two hundred messages meet it for longer than their attempts would last.
//! When it ends, all of them are delivered, none is dead, and no attempt was spent. The same for trouble with the
//! database itself is in `disk`, `locked` and `failover`.

use std::time::Duration;

use postroom::queue::{Cause, Queue, Whose};
use postroom::services::{Courier, Key, ReceiverOptions, Secret, Service};
use postroom::sqlite::Sqlite;
use postroom::store::BoxFuture;
use postroom::worker::{Delivery, Limits, Places, Transport};
use postroom::{Ctx, Event, HandlerResult, Handlers, Message, NewMessage, Worker, WorkerOptions};
use serde::{Deserialize, Serialize};

use crate::case::{Verdict, cases};
use crate::front::{Front, Manner};
use crate::harness::{Stage, Testable, eventually};
use crate::lines::{Http, Https, Line, Wired};
use crate::pair;
use crate::peer;
use crate::script::{Running, Script, play};
use crate::services::TOPIC;

cases! { trouble:
    sqlite a_refused_connection_kills_nothing [];
    sqlite a_destination_that_hangs_kills_nothing [];
    sqlite a_wrong_key_kills_nothing [];
    sqlite an_unauthorized_proxy_kills_nothing [];
    sqlite a_forbidden_kills_nothing [];
    sqlite a_not_found_kills_nothing [];
    sqlite too_many_requests_kill_nothing [];
    sqlite a_bad_gateway_kills_nothing [];
    sqlite an_unavailable_service_kills_nothing [];
    sqlite a_maintenance_page_kills_nothing [];
    sqlite a_success_without_a_receipt_kills_nothing [];
    sqlite a_captive_page_kills_nothing [];
    sqlite a_name_that_is_not_found_kills_nothing [];
    sqlite a_certificate_that_is_not_trusted_kills_nothing [];
    sqlite a_missing_route_kills_nothing [];
    worker a_missing_handler_kills_nothing [];
    worker a_newer_version_kills_nothing [];
}

const MESSAGES: u64 = 100;
/// Places are tried again soon: how long that takes is not tested here.
const SOON: Duration = Duration::from_millis(10);
/// Six attempts last a little more than a minute, and ten of a handler five. A round is shorter than a lease: a message
/// that is claimed just before the clock moves keeps its lease.
const ROUNDS: u32 = 20;
const ROUND: Duration = Duration::from_secs(20);

/// Messages meet trouble: each round one of them is tried at least, some time after the round before.
async fn suffer<B: Testable>(stage: &Stage<B>, queue: Queue, cause: Cause) -> anyhow::Result<()> {
    let side = stage.side(queue);
    let claims = || async move {
        let rows = side.verbs().list(postroom::operator::Filter::all()).await?;
        anyhow::Ok(rows.iter().map(postroom::operator::Record::claim_no).sum::<i64>())
    };
    // Time passes only when none is leased: a lease that ran out would count as a crash. A message that waits for
    // itself alone is tried at least once a minute, which is longer than a lease: each must have been tried before.
    let is_alone = cause == Cause::NewerVersion;
    let (pause, tries) = if is_alone { (4 * ROUND, i64::try_from(MESSAGES)?) } else { (ROUND, 1) };
    let mut before = 0;
    for _ in 0..=ROUNDS {
        eventually("they are tried", || async {
            Ok(claims().await? >= before + tries && side.verbs().stats().await?.leased == 0)
        })
        .await?;
        before = claims().await?;
        stage.advance(pause);
    }
    eventually("the cause is written down", || async move {
        let rows = side.verbs().list(postroom::operator::Filter::all()).await?;
        let Some(failed) = rows.iter().find(|row| row.last_error().is_some()) else { return Ok(false) };
        let failures = side.verbs().failures(failed.seq()).await?;
        assert_eq!(
            failures.iter().filter_map(|failure| failure.cause).next_back(),
            Some(cause),
            "{:?}",
            failed.last_error()
        );
        Ok(true)
    })
    .await
}

/// The trouble is over: everything goes through, and nothing was spent.
async fn recover<B: Testable>(stage: &Stage<B>, queue: Queue) -> anyhow::Result<()> {
    let side = stage.side(queue);
    eventually("all are delivered", || async move {
        stage.skip_pause(queue).await?;
        Ok(side.verbs().stats().await?.done == MESSAGES)
    })
    .await?;
    let rows = side.verbs().list(postroom::operator::Filter::all()).await?;
    assert_eq!(rows.iter().map(|row| u64::from(row.attempts())).sum::<u64>(), 0, "attempts were spent");
    assert_eq!(rows.iter().map(|row| u64::from(row.crashes())).sum::<u64>(), 0, "crashes were counted");
    Ok(())
}

async fn enqueue(stage: &Stage<Sqlite>) -> anyhow::Result<()> {
    let messages = (0..MESSAGES).map(|n| NewMessage::new(TOPIC, n.to_string()).to("inventory"));
    stage.outbox.enqueue_many(messages).await?;
    Ok(())
}

/// A courier whose places are tried again soon, also those that it does not know.
struct Eager(Courier);

impl Transport for Eager {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Delivery> {
        self.0.send(message)
    }

    fn limits(&self, _: &str) -> Limits {
        Limits::default().breaker(5, SOON, SOON)
    }
}

/// Sends to `before` until it is to be `after`.
async fn reconfigured<L: Line>(
    stage: &Stage<Sqlite>,
    cause: Cause,
    before: impl FnOnce(&Wired<'_, L>) -> anyhow::Result<Option<Service>>,
) -> Verdict {
    let (mut wired, script) = (Wired::<L>::new(stage).await?, Script::succeed());
    wired.receive(&script, ReceiverOptions::default()).await?;
    let tuned = |service: Service| service.breaker(5, SOON, SOON).timeout(Duration::from_secs(5));
    let services = |service: Option<Service>| match service {
        Some(service) => pair::services(stage, "orders", tuned(service)),
        None => postroom::services::Services::new("orders"),
    };
    let courier = Courier::new(services(before(&wired)?))?;
    let places = Places::default();
    let worker = Worker::<Sqlite>::outbox(stage.store.clone(), Handlers::new()).transport(Eager(courier.clone()));
    let worker = Running::start(worker.places(places.clone()));
    enqueue(stage).await?;
    suffer(stage, Queue::Outbox, cause).await?;
    courier.replace(services(Some(wired.office.service("inventory")?)))?;
    places.reset();
    recover(stage, Queue::Outbox).await?;
    assert_eq!(script.count() as u64, MESSAGES);
    wired.end(worker).await
}

/// What stands in front of the destination says this for a while.
async fn answered(stage: &Stage<Sqlite>, cause: Cause, manner: Manner) -> Verdict {
    let (mut wired, script) = (Wired::<Http>::new(stage).await?, Script::succeed());
    wired.receive(&script, ReceiverOptions::default()).await?;
    let front = Front::start(manner).await?;
    let service = Service::new("inventory", front.url()).keys(peer::key()?);
    let service = service.breaker(5, SOON, SOON).timeout(Duration::from_millis(200));
    let worker = pair::sender(stage, pair::courier(stage, service)?);
    enqueue(stage).await?;
    suffer(stage, Queue::Outbox, cause).await?;
    assert!(front.seen() > 5 && script.count() == 0);
    front.set(Manner::PassOn(wired.office.address().to_owned()));
    recover(stage, Queue::Outbox).await?;
    assert_eq!(wired.inventory.side(Queue::Inbox).rows().await? as u64, MESSAGES);
    wired.end(worker).await
}

async fn a_refused_connection_kills_nothing(stage: &Stage<Sqlite>) -> Verdict {
    let (mut wired, script) = (Wired::<Http>::new(stage).await?, Script::succeed());
    let (_, worker) = wired.send(|service| service.breaker(5, SOON, SOON))?;
    enqueue(stage).await?;
    suffer(stage, Queue::Outbox, Cause::Unreachable).await?;
    wired.receive(&script, ReceiverOptions::default()).await?;
    recover(stage, Queue::Outbox).await?;
    assert_eq!(script.count() as u64, MESSAGES);
    wired.end(worker).await
}

async fn a_destination_that_hangs_kills_nothing(stage: &Stage<Sqlite>) -> Verdict {
    answered(stage, Cause::TimedOut, Manner::Hang).await
}

async fn a_wrong_key_kills_nothing(stage: &Stage<Sqlite>) -> Verdict {
    reconfigured::<Http>(stage, Cause::NotAllowed, |wired| {
        let other = Key::new(peer::KEY_ID, Secret::parse(&Secret::generate())?)?;
        Ok(Some(wired.office.service("inventory")?.keys(other)))
    })
    .await
}

async fn an_unauthorized_proxy_kills_nothing(stage: &Stage<Sqlite>) -> Verdict {
    answered(stage, Cause::NotAllowed, Manner::say("401 Unauthorized", &[], "who are you?")).await
}

async fn a_forbidden_kills_nothing(stage: &Stage<Sqlite>) -> Verdict {
    answered(stage, Cause::NotAllowed, Manner::say("403 Forbidden", &[], "")).await
}

async fn a_not_found_kills_nothing(stage: &Stage<Sqlite>) -> Verdict {
    answered(stage, Cause::NotFound, Manner::say("404 Not Found", &[], "")).await
}

async fn too_many_requests_kill_nothing(stage: &Stage<Sqlite>) -> Verdict {
    answered(stage, Cause::Busy, Manner::say("429 Too Many Requests", &["retry-after: 1"], "")).await
}

async fn a_bad_gateway_kills_nothing(stage: &Stage<Sqlite>) -> Verdict {
    answered(stage, Cause::Unavailable, Manner::say("502 Bad Gateway", &[], "<html>502</html>")).await
}

async fn an_unavailable_service_kills_nothing(stage: &Stage<Sqlite>) -> Verdict {
    answered(stage, Cause::Unavailable, Manner::say("503 Service Unavailable", &[], "")).await
}

async fn a_maintenance_page_kills_nothing(stage: &Stage<Sqlite>) -> Verdict {
    answered(stage, Cause::Busy, Manner::say("503 Service Unavailable", &["retry-after: 3600"], "back soon")).await
}

async fn a_success_without_a_receipt_kills_nothing(stage: &Stage<Sqlite>) -> Verdict {
    let body = r#"{"acknowledged":true}"#;
    answered(stage, Cause::Unproven, Manner::say("200 OK", &["content-type: application/json"], body)).await
}

async fn a_captive_page_kills_nothing(stage: &Stage<Sqlite>) -> Verdict {
    let page = "<html><title>Please log in to the network</title></html>";
    answered(stage, Cause::Unproven, Manner::say("200 OK", &["content-type: text/html"], page)).await
}

async fn a_name_that_is_not_found_kills_nothing(stage: &Stage<Sqlite>) -> Verdict {
    reconfigured::<Http>(stage, Cause::Unreachable, |_| {
        let service = Service::new("inventory", "http://inventory.invalid:7000").allow_unencrypted();
        Ok(Some(service.keys(peer::key()?)))
    })
    .await
}

async fn a_certificate_that_is_not_trusted_kills_nothing(stage: &Stage<Sqlite>) -> Verdict {
    reconfigured::<Https>(stage, Cause::Unreachable, |wired| {
        // The system's authorities do not know the one of this test.
        Ok(Some(Service::new("inventory", wired.office.address()).keys(peer::key()?)))
    })
    .await
}

async fn a_missing_route_kills_nothing(stage: &Stage<Sqlite>) -> Verdict {
    reconfigured::<Http>(stage, Cause::NoRoute, |_| Ok(None)).await
}

fn options() -> WorkerOptions {
    WorkerOptions::default().handler_limits(Limits::default().breaker(5, SOON, SOON))
}

fn worker<B: Testable>(stage: &Stage<B>, queue: Queue, handlers: Handlers<B>) -> Running {
    let worker: Worker<B> = stage.worker(queue, handlers);
    Running::start(worker.options(options()))
}

async fn a_missing_handler_kills_nothing<B: Testable>(stage: &Stage<B>) -> Verdict {
    for side in stage.sides() {
        side.add_many("later", usize::try_from(MESSAGES)?).await?;
        let old = worker(stage, side.queue, Handlers::new());
        suffer(stage, side.queue, Cause::NoHandler).await?;
        assert_eq!(Cause::NoHandler.whose(), Whose::Place);
        old.stop().await?;
        let script = Script::succeed();
        let new = worker(stage, side.queue, Handlers::new().state(script.clone()).on_topic("later", play::<B>));
        recover(stage, side.queue).await?;
        new.stop().await?;
        assert_eq!(script.count() as u64, MESSAGES);
    }
    Ok(())
}

#[derive(Serialize, Deserialize, Event)]
#[event("order.changed", version = 3)]
struct Changed {}

#[derive(Serialize, Deserialize, Event)]
#[event("order.changed", version = 4)]
struct ChangedAgain {}

async fn changed<B: Testable>(_: &mut Ctx<B>, _: Changed) -> HandlerResult<()> {
    Ok(())
}

async fn changed_again<B: Testable>(_: &mut Ctx<B>, _: ChangedAgain) -> HandlerResult<()> {
    Ok(())
}

async fn a_newer_version_kills_nothing<B: Testable>(stage: &Stage<B>) -> Verdict {
    let newer = || NewMessage::new("order.changed", "[]").header("payload-version", "4");
    stage.outbox.enqueue_many((0..MESSAGES).map(|_| newer())).await?;
    let old = worker(stage, Queue::Outbox, Handlers::new().on(changed::<B>));
    suffer(stage, Queue::Outbox, Cause::NewerVersion).await?;
    old.stop().await?;
    let new = worker(stage, Queue::Outbox, Handlers::new().on(changed_again::<B>));
    recover(stage, Queue::Outbox).await?;
    new.stop().await
}

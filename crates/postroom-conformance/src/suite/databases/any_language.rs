//! Services without Rust: what the guide tells them, typed into the databases' own command-line clients.

pub(super) mod terminal;

use std::time::Duration;

use anyhow::Context;
use postroom::clock::{Clock, Timestamp};
use postroom::message::{Kind, Origin, OwnerToken, Unique, WorkItemId};
use postroom::operator::{Filter, Record};
use postroom::postgres::Postgres;
use postroom::queue::Cancelled;
use postroom::{MessageId, NewMessage, Outbox, Worker};
use uuid::{Uuid, Variant};

use self::terminal::{Server, Terminal};
use crate::case::{Verdict, cases};
use crate::harness::{LEASE, Place, Stage, eventually, readable};
use crate::script::{Running, Script};

cases! { any_language:
    durable the_guides_example_is_handled_by_a_worker ["OBX-015"];
    durable everything_can_be_said_of_a_message [];
    durable a_new_id_sorts_by_its_time [];
    durable what_the_library_refuses_is_refused_with_its_reason [];
    postgres a_payload_that_is_json_already_is_taken [];
    durable a_message_to_a_service_lives_a_day_after_it_is_due [];
    durable a_due_time_in_the_past_is_a_head_start_of_at_most_a_day [];
    server the_same_message_is_stored_once_for_each_destination [];
    server a_rollback_leaves_nothing [];
    server what_is_no_id_is_refused [];
    server the_right_to_enqueue_is_enough [];
    spoken the_guides_example_takes_a_unique_key [];
    started the_right_to_take_a_key_is_enough [];
}

const DAY: Duration = Duration::from_secs(24 * 3600);
const GUIDES_ID: Uuid = Uuid::from_u128(0x0190_b3a6_6a1c_7c4e_9d2f_3b1a_5c7e_9f01);

/// The store by the machine's clock: other programs know no other.
async fn by_real_time<B: Terminal>(stage: &Stage<B>) -> anyhow::Result<(B::Store, Outbox)> {
    let store = B::reopen(&stage.place, Clock::Database).await?;
    Ok((store.clone(), Outbox::new(store)))
}

async fn rows(outbox: &Outbox) -> anyhow::Result<Vec<Record>> {
    Ok(outbox.queue().list(Filter::all()).await?)
}

async fn the_guides_example_is_handled_by_a_worker<B: Terminal>(stage: &Stage<B>) -> Verdict {
    let (store, outbox) = by_real_time(stage).await?;
    B::run(&stage.place, "CREATE TABLE orders (id INTEGER)").await?;
    let script = Script::succeed();
    let worker = Running::start(Worker::outbox(store, script.handlers::<B>()).options(B::hearing()));
    for n in 1..=3 {
        B::run(&stage.place, &B::example(&stage.place, 0)?).await?;
        let queue = outbox.queue();
        eventually("it is handled", || async move { Ok(queue.stats().await?.done == n) }).await?;
    }
    let message = script.calls().pop().context("no call")?;
    assert_eq!((message.topic.as_str(), message.payload.as_str()), ("order.placed", r#"{"order": 7}"#));
    assert!(B::run(&stage.place, "SELECT count(*) FROM orders").await?.contains('3'), "the orders are not there");
    worker.stop().await
}

async fn everything_can_be_said_of_a_message<B: Terminal>(stage: &Stage<B>) -> Verdict {
    let (_, outbox) = by_real_time(stage).await?;
    // In a session far from UTC, and twice.
    for _ in 0..2 {
        B::run(&stage.place, &format!("{};\n{}", B::FAR_AWAY, B::example(&stage.place, 1)?)).await?;
    }
    let found = rows(&outbox).await?;
    assert_eq!(found.len(), 1);
    let message = readable(&found[0])?;
    assert_eq!((message.topic.as_str(), message.payload.as_str()), ("invoice.due", r#"{"order": 7}"#));
    assert_eq!((message.destination(), message.kind), (Some("billing"), Kind::Command));
    assert_eq!(message.headers.get("traceparent").map(String::as_str), Some("00-1"));
    assert_eq!((message.correlation_id.as_deref(), message.max_attempts), (Some("order-7"), Some(3)));
    // SQL Server keeps no lanes.
    let lane = Some("order-7").filter(|_| B::NAME != "mssql");
    assert_eq!(message.lane.as_deref(), lane);
    let due = Timestamp::from_micros(4_102_444_800_000_000);
    assert_eq!((message.due_at, found[0].visible_at()), (Some(due), Some(due)));
    let age = (Clock::Database.now().as_micros() - message.created_at.as_micros()).abs();
    assert!(age < 60_000_000, "it was made {}", message.created_at);
    assert!(message.expires_at > Some(due), "it expires at {:?}", message.expires_at);
    assert!(!outbox.find(GUIDES_ID).await?.is_empty(), "it cannot be found by its message's id");
    assert!(outbox.queue().claim(OwnerToken::new(), LEASE, 5).await?.claimed.is_empty(), "it is not due yet");
    Ok(())
}

async fn a_new_id_sorts_by_its_time<B: Terminal>(stage: &Stage<B>) -> Verdict {
    let (_, outbox) = by_real_time(stage).await?;
    B::run(&stage.place, "CREATE TABLE orders (id INTEGER)").await?;
    let started = Clock::Database.now();
    for _ in 0..20 {
        B::run(&stage.place, &B::example(&stage.place, 0)?).await?;
    }
    let mut last = started.as_micros() / 1000 - 1;
    for record in rows(&outbox).await? {
        let message = readable(&record)?;
        let id = message.id().parse::<MessageId>()?.as_uuid();
        assert_eq!((id.get_version_num(), id.get_variant()), (7, Variant::RFC4122), "{id}");
        let millis = i64::try_from(id.as_u128() >> 80)?;
        assert!(last <= millis && millis <= Clock::Database.now().as_micros() / 1000 + 1, "{id}");
        assert!((message.created_at.as_micros() / 1000 - millis).abs() <= 1, "{id} was made {}", message.created_at);
        last = millis;
    }
    assert_eq!(rows(&outbox).await?.len(), 20, "two ids were the same");
    Ok(())
}

async fn what_the_library_refuses_is_refused_with_its_reason<B: Terminal>(stage: &Stage<B>) -> Verdict {
    let (_, outbox) = by_real_time(stage).await?;
    let many = (0..65).map(|number| format!("\"{number}\": \"\"")).collect::<Vec<_>>().join(", ");
    let (many, long) = (format!("'{{{many}}}'"), format!("'{{\"a\": \"{}\"}}'", "é".repeat(8192)));
    for (field, value, reason) in [
        ("topic", "''", "topic"),
        ("topic", "'a '", "blank"),
        ("kind", "'Foo'", "Event, Signal, Command, PushCall or Response"),
        ("kind", "'event'", "Event, Signal, Command, PushCall or Response"),
        ("headers", "'notjson'", "a JSON object of texts"),
        ("headers", "'[\"a\"]'", "a JSON object of texts"),
        ("headers", "'{\"a\": 1}'", "a JSON object of texts"),
        ("headers", "'{\"\": \"b\"}'", "header's name"),
        ("headers", "'{\"a \": \"b\"}'", "header's name"),
        ("headers", "'{\"a\u{7f}\": \"b\"}'", "control"),
        ("headers", &many, "64"),
        ("headers", &long, "16384"),
        ("destination", "'Bad Name'", "letter or digit"),
        ("destination", "'Billing'", "letter or digit"),
        ("destination", "'-a'", "letter or digit"),
        ("destination", "''", "letter or digit"),
        ("correlation_id", "'a\n'", "control"),
        ("max_attempts", "0", "at least"),
    ] {
        let enqueue = B::enqueue_with(&stage.place, field, value);
        let said = B::run(&stage.place, &enqueue).await.err().map(|error| error.to_string());
        let said = said.with_context(|| format!("{field} = {value} was taken"))?;
        assert!(said.contains(reason), "{field} = {value}: {said}");
    }
    assert_eq!(rows(&outbox).await?.len(), 0);
    for (field, value) in
        [("kind", "'PushCall'"), ("headers", "' {\"a\": \"b\"}'"), ("destination", "'orders-2.eu_west'")]
    {
        B::run(&stage.place, &B::enqueue_with(&stage.place, field, value)).await?;
    }
    for record in rows(&outbox).await? {
        readable(&record)?;
    }
    assert_eq!(rows(&outbox).await?.len(), 3);
    Ok(())
}

async fn a_payload_that_is_json_already_is_taken(stage: &Stage<Postgres>) -> Verdict {
    let (_, outbox) = by_real_time(stage).await?;
    let function = format!("{}_enqueue", Postgres::outbox(&stage.place));
    let build = "'order', 7";
    for payload in [format!("jsonb_build_object({build})"), format!("json_build_object({build})")] {
        Postgres::run(&stage.place, &format!("SELECT {function}('a', {payload}, kind => 'Signal')")).await?;
    }
    for record in rows(&outbox).await? {
        let payload: serde_json::Value = serde_json::from_str(&readable(&record)?.payload)?;
        assert_eq!(payload["order"], 7);
    }
    assert_eq!(rows(&outbox).await?.len(), 2);
    Ok(())
}

async fn a_message_to_a_service_lives_a_day_after_it_is_due<B: Terminal>(stage: &Stage<B>) -> Verdict {
    let (_, outbox) = by_real_time(stage).await?;
    B::run(&stage.place, &B::call_due(&stage.place, 2100)).await?;
    let row = rows(&outbox).await?.pop().context("nothing is stored")?;
    let due = Timestamp::from_micros(4_102_444_800_000_000);
    assert_eq!((row.visible_at(), row.expires_at()), (Some(due), Some(due.plus(DAY))));
    Ok(())
}

async fn a_due_time_in_the_past_is_a_head_start_of_at_most_a_day<B: Terminal>(stage: &Stage<B>) -> Verdict {
    let (_, outbox) = by_real_time(stage).await?;
    B::run(&stage.place, &B::call_due(&stage.place, 2020)).await?;
    let row = rows(&outbox).await?.pop().context("nothing is stored")?;
    let created = readable(&row)?.created_at;
    assert_eq!((row.visible_at(), row.expires_at()), (Some(created.minus(DAY)), Some(created.plus(DAY))));
    assert_eq!(outbox.queue().claim(OwnerToken::new(), LEASE, 5).await?.claimed.len(), 1);
    Ok(())
}

async fn the_same_message_is_stored_once_for_each_destination<B: Server>(stage: &Stage<B>) -> Verdict {
    let (_, outbox) = by_real_time(stage).await?;
    let id = MessageId::new();
    for destination in [None, Some("billing"), Some("orders-2.eu_west"), Some("billing"), None] {
        B::run(&stage.place, &B::call(&stage.place, destination, Some(id))).await?;
    }
    B::run(&stage.place, &B::call(&stage.place, Some("billing"), None)).await?;
    let found = rows(&outbox).await?;
    assert_eq!(found.len(), 4);
    for record in found {
        let message = readable(&record)?;
        let Origin::Outbox { id: item, message_id, destination, .. } = &message.origin else {
            anyhow::bail!("it came from elsewhere");
        };
        assert_eq!(*item, WorkItemId::of(*message_id, destination.as_deref()), "to {destination:?}");
        let expected = destination.as_ref().map(|_| message.created_at.plus(DAY));
        assert_eq!(message.expires_at, expected, "to {destination:?}");
    }
    assert_eq!(outbox.find(id.as_uuid()).await?.len(), 3);
    Ok(())
}

async fn a_rollback_leaves_nothing<B: Server>(stage: &Stage<B>) -> Verdict {
    let (_, outbox) = by_real_time(stage).await?;
    let enqueue = B::call(&stage.place, None, None);
    B::run(&stage.place, &format!("START TRANSACTION;\n{enqueue};\nROLLBACK;")).await?;
    assert_eq!(rows(&outbox).await?.len(), 0);
    Ok(())
}

async fn what_is_no_id_is_refused<B: Server>(stage: &Stage<B>) -> Verdict {
    let (_, outbox) = by_real_time(stage).await?;
    let right = GUIDES_ID.to_string();
    for wrong in ["", "7", "0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f0", "0190b3a6-6a1c-7c4e-9d2f-3b1a5c7e9f0x"] {
        let enqueue = B::call(&stage.place, None, Some(right.parse()?)).replace(&right, wrong);
        assert!(B::run(&stage.place, &enqueue).await.is_err(), "{wrong:?} was taken for an id");
    }
    assert_eq!(rows(&outbox).await?.len(), 0);
    Ok(())
}

async fn the_right_to_enqueue_is_enough<B: Server>(stage: &Stage<B>) -> Verdict {
    let (_, outbox) = by_real_time(stage).await?;
    let role = format!("{}_r", stage.place.own_name());
    B::run(&stage.place, &B::create_role(&role)).await?;
    let verdict = only_enqueues::<B>(&stage.place, &role).await;
    B::run(&stage.place, &B::drop_role(&role)).await?;
    verdict?;
    assert_eq!(rows(&outbox).await?.len(), 1);
    Ok(())
}

async fn only_enqueues<B: Server>(place: &Place, role: &str) -> Verdict {
    let enqueue = B::call(place, None, Some(MessageId::new()));
    assert!(B::run_as(place, role, &enqueue).await.is_err(), "it may do what it was not granted");
    B::run(place, &B::grant(place, role)).await?;
    B::run_as(place, role, &enqueue).await?;
    // Deploying the schema again takes no right away.
    B::reopen(place, Clock::Database).await?;
    B::run_as(place, role, &enqueue).await?;
    let peek = format!("SELECT payload FROM {}", B::outbox(place));
    assert!(B::run_as(place, role, &peek).await.is_err(), "it may read what it was not granted");
    Ok(())
}

async fn the_guides_example_takes_a_unique_key<B: Terminal>(stage: &Stage<B>) -> Verdict {
    let (_, outbox) = by_real_time(stage).await?;
    let take = B::take_example(&stage.place)?;
    B::run(&stage.place, &take).await?;
    assert_eq!(outbox.with_key("page-7").await?.map(WorkItemId::as_uuid), Some(GUIDES_ID));
    // Nobody enqueued that message, so it does not have the key.
    let keyed = |unique: Unique| NewMessage::new("page.index", "{}").unique(unique);
    let first = outbox.enqueue(keyed(Unique::while_waiting("page-7"))).await?;
    assert!(first.is_new());
    let refused = B::run(&stage.place, &take).await;
    assert_eq!(refused.is_err(), B::NAME == "mariadb", "{refused:?}");
    assert_eq!(outbox.with_key("page-7").await?, Some(first.id()), "it lost its key");
    // One that was enqueued has it.
    assert_eq!(outbox.cancel_key("page-7").await?, Cancelled::Waiting);
    B::run(&stage.place, &take).await?;
    let message = NewMessage::new("page.index", "{}").id(MessageId::from_uuid(GUIDES_ID)?);
    outbox.enqueue(message).await?;
    let again = outbox.enqueue(keyed(Unique::until_done("page-7"))).await?;
    assert!(again.is_duplicate() && again.id().as_uuid() == GUIDES_ID);
    let wrong = B::run(&stage.place, &take.replace("page-7", "page ")).await;
    assert!(wrong.is_err_and(|error| error.to_string().contains("a unique key must be 1 to 255 characters")));
    Ok(())
}

async fn the_right_to_take_a_key_is_enough<B: Server>(stage: &Stage<B>) -> Verdict {
    let role = format!("{}_r", stage.place.own_name());
    B::run(&stage.place, &B::create_role(&role)).await?;
    let verdict = only_takes::<B>(&stage.place, &role).await;
    B::run(&stage.place, &B::drop_role(&role)).await?;
    verdict
}

async fn only_takes<B: Server>(place: &Place, role: &str) -> Verdict {
    let take = B::take_example(place)?;
    B::run(place, &B::grant(place, role)).await?;
    assert!(B::run_as(place, role, &take).await.is_err(), "it may do what it was not granted");
    B::run(place, &B::grant_keys(place, role)).await?;
    B::run_as(place, role, &take).await?;
    let other = take.replace("9F01", "9F02").replace("9f01", "9f02");
    B::run_as(place, role, &other).await.map(drop)
}

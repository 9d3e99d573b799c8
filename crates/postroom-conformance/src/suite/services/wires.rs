//! What every transport between two services promises.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postroom::message::Kind;
use postroom::queue::{Cause, Queue, State};
use postroom::services::{HmacAlgorithm, Key, ReceiverOptions, Secret};
use postroom::sqlite::Sqlite;
use postroom::worker::Places;
use postroom::{HandlerError, InboxKey, MessageId, NewMessage};

use crate::case::{Case, Verdict, cases};
use crate::harness::{Stage, eventually, soon};
use crate::lines::{Grpc, GrpcNamed, Grpcs, Http, Http2, Https, InProcess, Line, Pipe, Unix, Wired};
use crate::pair::Reserve;
use crate::script::{Gate, Script};
use crate::services::TOPIC;

/// Each promise over each transport, one case each: `wires::the_answer_comes_back_over_unix`. Besides what it lists, a
/// case proves that its transport works, and that the promise holds whatever the transport.
macro_rules! over {
    ($($promise:ident over $wires:ident $ids:tt;)*) => {
        /// The cases, promise by promise.
        pub(super) const PROMISES: &[&[Case]] = &[$(over!(@$wires $promise $ids)),*];
    };
    (@all $promise:ident $ids:tt) => {
        over!(
            @cases $promise $ids: http "SQM-7.1.1" Http, http2 "SQM-7.1.1" Http2, https "SQM-7.1.1" Https,
            unix "SQM-7.1.4" Unix, pipe "SQM-7.1.3" Pipe, grpc "SQM-7.1.2" Grpc, grpcs "SQM-7.1.2" Grpcs,
            grpc_named "SQM-7.1.6" GrpcNamed, in_process "SQM-7.1.5" InProcess
        )
    };
    // Nothing is signed or serialized in process.
    (@signed $promise:ident $ids:tt) => {
        over!(
            @cases $promise $ids: http "SQM-7.1.1" Http, http2 "SQM-7.1.1" Http2, https "SQM-7.1.1" Https,
            unix "SQM-7.1.4" Unix, pipe "SQM-7.1.3" Pipe, grpc "SQM-7.1.2" Grpc, grpcs "SQM-7.1.2" Grpcs,
            grpc_named "SQM-7.1.6" GrpcNamed
        )
    };
    (@cases $promise:ident $ids:tt: $($name:ident $id:literal $line:ident),*) => {
        &[$(Case {
            name: concat!("wires::", stringify!($promise), "_over_", stringify!($name)),
            proves: over!(@proves $id $ids),
            on: &[("sqlite", cases!(@staged Sqlite, $promise::<$line>))],
        }),*]
    };
    (@proves $wire:literal [$($id:literal),*]) => { &["SQM-1.5", $wire, $($id),*] };
}

over! {
    a_message_arrives_whole over all ["SQM-5.1", "SQM-5.2.1"];
    the_answer_comes_back over all ["SQM-2"];
    an_answer_nobody_waited_for_is_the_same_when_it_is_asked_for_again over all ["SQM-4.3.3", "SQM-8.7"];
    a_receiver_that_is_away_costs_nothing_and_gets_it_when_it_is_back over all ["SQM-1.1", "SQM-8.4"];
    a_receiver_with_too_much_to_do_costs_no_attempt over all [];
    no_more_than_allowed_are_on_their_way_at_once over all [];
    a_destination_that_is_away_is_left_alone_and_costs_no_attempt over signed [];
    a_message_that_its_handler_refuses_time_and_again_holds_up_no_other over all ["SQM-3.4.2"];
    a_receiver_that_shuts_down_answers_what_has_come_in over all [];
    what_has_expired_is_never_sent over all ["SQM-6.1.2"];
    when_a_message_expires_is_told_if_that_is_wanted over all [];
    what_is_too_large_is_not_handled_and_holds_up_no_other over signed [];
    what_is_signed_with_another_key_is_never_handled over signed ["SQM-5.3.2"];
    of_several_keys_one_that_both_know_is_enough over signed ["SQM-5.3.1"];
    a_key_signs_by_its_own_algorithm_and_by_no_other over signed ["SQM-12.4"];
}

const PAYLOADS: &[&str] = &[
    r#"{"order" :  7,	"lines":[ 1 ,2 ],"n":1e400,"m":-0.0,"big":123456789012345678901234567890}"#,
    r#""ünïcode ☃ 𝄞 \u0000 \ud83d\ude00""#,
    "null",
    "12",
    "no JSON at all: {\"",
    "",
    " ",
    "\"\u{7f}\u{2028}\"",
];

async fn a_message_arrives_whole<L: Line>(stage: &Stage<Sqlite>) -> Verdict {
    let (mut wired, script) = (Wired::<L>::new(stage).await?, Script::succeed());
    wired.receive(&script, ReceiverOptions::default()).await?;
    let (_, worker) = wired.send(|service| service)?;
    for (n, payload) in PAYLOADS.iter().enumerate() {
        let kind = [Kind::Command, Kind::Signal, Kind::PushCall][n % 3];
        let message = NewMessage::new(TOPIC, *payload).kind(kind).correlation_id("order 7 ü");
        let message = message.header("tenant", "ac/me ü").header("Trace", "00-1").to("inventory");
        let id = message.message_id().to_string();
        stage.outbox.enqueue(message).await?;
        wired.until("it is sent", |stats| stats.done == n as u64 + 1).await?;
        let got = script.calls().pop().expect("it is handled");
        assert_eq!((got.payload.as_str(), got.topic.as_str(), got.kind), (*payload, TOPIC, kind));
        assert_eq!((got.id(), got.source(), got.correlation_id.as_deref()), (id, Some("orders"), Some("order 7 ü")));
        let header = |name: &str| got.headers.get(name).map(String::as_str);
        assert_eq!((header("tenant"), header("Trace")), (Some("ac/me ü"), Some("00-1")));
        assert!(got.headers.keys().all(|name| !name.starts_with("rf-")), "{:?}", got.headers.keys());
    }
    wired.end(worker).await
}

async fn the_answer_comes_back<L: Line>(stage: &Stage<Sqlite>) -> Verdict {
    let mut wired = Wired::<L>::new(stage).await?;
    let script = Script::new(|call| async move { Ok(Some(call.message.payload.clone())) });
    wired.receive(&script, ReceiverOptions::default()).await?;
    let (_, worker) = wired.send(|service| service)?;
    let pending = Reserve { order: 7 }.ask::<Reserve>(&stage.outbox).await?;
    assert_eq!(soon("the answer comes", pending.answer()).await??, Reserve { order: 7 });
    wired.end(worker).await
}

async fn an_answer_nobody_waited_for_is_the_same_when_it_is_asked_for_again<L: Line>(stage: &Stage<Sqlite>) -> Verdict {
    let mut wired = Wired::<L>::new(stage).await?;
    let Gate { script, mut begun, open } = Gate::shut();
    wired.receive(&script, ReceiverOptions::default()).await?;
    let (_, worker) = wired.send(|service| service.timeout(Duration::from_millis(100)))?;
    let pending = Reserve { order: 7 }.ask::<u32>(&stage.outbox).await?;
    soon("it is being handled", begun.recv()).await?;
    let side = stage.side(Queue::Outbox);
    eventually("the sender gives up", || async move { Ok(side.record(1).await?.last_error().is_some()) }).await?;
    stage.skip_pause(Queue::Outbox).await?;
    let told = || async move { Ok(side.record(1).await?.last_error().is_some_and(|error| error.contains("409"))) };
    eventually("it is told that the first is being handled", told).await?;
    assert_eq!(side.record(1).await?.attempts(), 0, "neither costs an attempt");
    open.add_permits(1);
    wired.until("it gets the stored answer", |stats| stats.done == 1).await?;
    assert_eq!((pending.answer().await?, script.count()), (7, 1));
    assert_eq!(wired.inventory.effects_of_messages().await?.len(), 1);
    wired.end(worker).await
}

async fn a_receiver_that_is_away_costs_nothing_and_gets_it_when_it_is_back<L: Line>(stage: &Stage<Sqlite>) -> Verdict {
    let (mut wired, script) = (Wired::<L>::new(stage).await?, Script::succeed());
    let (_, worker) = wired.send(|service| service)?;
    for n in 0..2 {
        stage.outbox.enqueue(NewMessage::new(TOPIC, "{}").to("inventory")).await?;
        let side = stage.side(Queue::Outbox);
        let failed = || async move { Ok(side.record(n + 1).await?.last_error().is_some()) };
        eventually("the attempt fails", failed).await?;
        assert_eq!(side.record(n + 1).await?.attempts(), 0);
        wired.receive(&script, ReceiverOptions::default()).await?;
        wired.until("it is sent", |stats| stats.done == u64::try_from(n).unwrap_or(0) + 1).await?;
        wired.office.close().await?;
    }
    assert_eq!(script.count(), 2);
    wired.end(worker).await
}

async fn a_receiver_with_too_much_to_do_costs_no_attempt<L: Line>(stage: &Stage<Sqlite>) -> Verdict {
    let mut wired = Wired::<L>::new(stage).await?;
    let Gate { script, mut begun, open } = Gate::shut();
    wired.receive(&script, ReceiverOptions::default().in_flight(1)).await?;
    let (_, worker) = wired.send(|service| service)?;
    stage.outbox.enqueue(NewMessage::new(TOPIC, "1").to("inventory")).await?;
    soon("the first is being handled", begun.recv()).await?;
    stage.outbox.enqueue(NewMessage::new(TOPIC, "2").to("inventory")).await?;
    let side = stage.side(Queue::Outbox);
    let told = || async move { Ok(side.record(2).await?.last_error().is_some_and(|error| error.contains("503"))) };
    eventually("the second is told to come back", told).await?;
    let record = side.record(2).await?;
    assert_eq!((record.state(), record.attempts()), (State::Ready, 0));
    assert_eq!(record.next_attempt_at(), Some(stage.now().plus(Duration::from_secs(2))));
    open.add_permits(2);
    wired.until("both are sent", |stats| stats.done == 2).await?;
    assert_eq!(script.count(), 2);
    wired.end(worker).await
}

async fn no_more_than_allowed_are_on_their_way_at_once<L: Line>(stage: &Stage<Sqlite>) -> Verdict {
    let mut wired = Wired::<L>::new(stage).await?;
    let Gate { script, mut begun, open } = Gate::shut();
    wired.receive(&script, ReceiverOptions::default()).await?;
    // With one writer only one handler is in a transaction; the others wait for it on their way.
    let (places, worker) = wired.send(|service| service.concurrency(2))?;
    stage.outbox.enqueue_many((0..6).map(|_| NewMessage::new(TOPIC, "{}").to("inventory"))).await?;
    let most = AtomicUsize::new(0);
    for _ in 0..6 {
        let next = async {
            loop {
                stage.skip_pause(Queue::Outbox).await?;
                let in_progress = places.states().first().map_or(0, |state| state.in_progress);
                most.fetch_max(in_progress, Ordering::SeqCst);
                if begun.try_recv().is_ok() {
                    return anyhow::Ok(());
                }
                tokio::task::yield_now().await;
            }
        };
        soon("the next is being handled", next).await??;
        open.add_permits(1);
    }
    wired.until("all are sent", |stats| stats.done == 6).await?;
    assert_eq!((most.into_inner(), script.count()), (2, 6));
    wired.end(worker).await
}

async fn a_destination_that_is_away_is_left_alone_and_costs_no_attempt<L: Line>(stage: &Stage<Sqlite>) -> Verdict {
    let (mut wired, script) = (Wired::<L>::new(stage).await?, Script::succeed());
    let pause = Duration::from_millis(300);
    let (places, worker) = wired.send(|service| service.concurrency(1).breaker(3, pause, pause))?;
    stage.outbox.enqueue_many((0..8).map(|_| NewMessage::new(TOPIC, "{}").to("inventory"))).await?;
    eventually("it is left alone", || async { Ok(is_held(&places)) }).await?;
    let side = stage.side(Queue::Outbox);
    let told = || async move { Ok(side.verbs().holds().await?.first().is_some_and(|hold| hold.waiting == 8)) };
    eventually("what waits for it is told", told).await?;
    let hold = side.verbs().holds().await?.remove(0);
    assert_eq!((hold.place.to_string().as_str(), hold.cause), ("inventory", Some(Cause::Unreachable)), "{hold:?}");
    let rows = side.verbs().list(postroom::operator::Filter::all()).await?;
    assert!(rows.iter().all(|row| row.attempts() == 0), "nothing is spent");
    wired.receive(&script, ReceiverOptions::default()).await?;
    wired.until("all are sent", |stats| stats.done == 8).await?;
    assert!(!is_held(&places));
    eventually("nothing is left of it", || async move { Ok(side.verbs().holds().await?.is_empty()) }).await?;
    wired.end(worker).await
}

async fn a_message_that_its_handler_refuses_time_and_again_holds_up_no_other<L: Line>(
    stage: &Stage<Sqlite>,
) -> Verdict {
    let mut wired = Wired::<L>::new(stage).await?;
    let script = Script::new(|call| {
        let fails = call.message.payload == "1";
        async move { if fails { Err(HandlerError::retry("broken")) } else { Ok(None) } }
    });
    wired.receive(&script, ReceiverOptions::default()).await?;
    let (places, worker) = wired.send(|service| service.breaker(1, Duration::MAX, Duration::MAX))?;
    for n in 1..=3 {
        stage.outbox.enqueue(NewMessage::new(TOPIC, n.to_string()).to("inventory")).await?;
    }
    wired.until("the others are sent, and it is given up", |stats| (stats.done, stats.dead) == (2, 1)).await?;
    assert!(!is_held(&places), "it answered each time");
    wired.end(worker).await
}

fn is_held(places: &Places) -> bool {
    places.states().iter().any(|state| state.held.is_some())
}

async fn a_receiver_that_shuts_down_answers_what_has_come_in<L: Line>(stage: &Stage<Sqlite>) -> Verdict {
    let mut wired = Wired::<L>::new(stage).await?;
    let Gate { script, mut begun, open } = Gate::shut();
    wired.receive(&script, ReceiverOptions::default()).await?;
    let (_, worker) = wired.send(|service| service)?;
    let pending = Reserve { order: 7 }.ask::<u32>(&stage.outbox).await?;
    soon("it is being handled", begun.recv()).await?;
    wired.office.shut_down();
    open.add_permits(1);
    assert_eq!(soon("the answer comes", pending.answer()).await??, 7);
    soon("the receiver ends", wired.office.close()).await??;
    assert_eq!(stage.side(Queue::Outbox).record(1).await?.attempts(), 0);
    wired.end(worker).await
}

async fn what_has_expired_is_never_sent<L: Line>(stage: &Stage<Sqlite>) -> Verdict {
    let (mut wired, script) = (Wired::<L>::new(stage).await?, Script::succeed());
    wired.receive(&script, ReceiverOptions::default()).await?;
    let ttl = Duration::from_secs(5);
    stage.outbox.enqueue(NewMessage::new(TOPIC, "1").to("inventory").expires_after(ttl)).await?;
    stage.clock.advance(2 * ttl);
    stage.outbox.enqueue(NewMessage::new(TOPIC, "2").to("inventory").expires_after(ttl)).await?;
    let (_, worker) = wired.send(|service| service)?;
    wired.until("one is sent, one expires", |stats| (stats.done, stats.expired) == (1, 1)).await?;
    let sent: Vec<_> = script.calls().iter().map(|message| message.payload.clone()).collect();
    assert_eq!(sent, ["2"]);
    wired.end(worker).await
}

async fn when_a_message_expires_is_told_if_that_is_wanted<L: Line>(stage: &Stage<Sqlite>) -> Verdict {
    let (mut wired, script) = (Wired::<L>::new(stage).await?, Script::succeed());
    wired.receive(&script, ReceiverOptions::default()).await?;
    let (_, worker) = wired.send(|service| service)?;
    let (now, ttl) = (stage.now(), Duration::from_secs(5));
    let message = NewMessage::new(TOPIC, "1").to("inventory").expires_after(ttl);
    for (n, (message, told)) in
        [(message.clone(), None), (message.expires_there(), Some(now.plus(ttl)))].iter().enumerate()
    {
        let message = message.clone().id(MessageId::new());
        let key = InboxKey::new("orders", message.message_id().to_string())?;
        stage.outbox.enqueue(message).await?;
        wired.until("it is sent", |stats| stats.done == n as u64 + 1).await?;
        assert_eq!(wired.inventory.inbox.get(&key).await?.and_then(|row| row.expires_at()), *told);
    }
    wired.end(worker).await
}

async fn what_is_too_large_is_not_handled_and_holds_up_no_other<L: Line>(stage: &Stage<Sqlite>) -> Verdict {
    let (mut wired, script) = (Wired::<L>::new(stage).await?, Script::succeed());
    wired.receive(&script, ReceiverOptions::default().body_max(10_000)).await?;
    let (_, worker) = wired.send(|service| service)?;
    let large = format!("\"{}\"", "x".repeat(1_000_000));
    stage.outbox.enqueue(NewMessage::new(TOPIC, large).to("inventory")).await?;
    let side = stage.side(Queue::Outbox);
    eventually("the attempt fails", || async move { Ok(side.record(1).await?.last_error().is_some()) }).await?;
    stage.outbox.enqueue(NewMessage::new(TOPIC, "1").to("inventory")).await?;
    wired.until("the other is sent", |stats| stats.done == 1).await?;
    assert_eq!((script.count(), side.record(1).await?.attempts()), (1, 0), "who could not read it proves nothing");
    wired.end(worker).await
}

async fn what_is_signed_with_another_key_is_never_handled<L: Line>(stage: &Stage<Sqlite>) -> Verdict {
    let (mut wired, script) = (Wired::<L>::new(stage).await?, Script::succeed());
    wired.receive(&script, ReceiverOptions::default()).await?;
    let other = Key::new(crate::peer::KEY_ID, Secret::parse(&Secret::generate())?)?;
    let (_, worker) = wired.send(|service| service.keys(other).breaker(100, Duration::ZERO, Duration::ZERO))?;
    stage.outbox.enqueue(NewMessage::new(TOPIC, "1").to("inventory")).await?;
    let side = stage.side(Queue::Outbox);
    let tried = || async move {
        stage.skip_pause(Queue::Outbox).await?;
        Ok(side.record(1).await?.claim_no() > 8)
    };
    eventually("it is tried more often than it has attempts", tried).await?;
    let record = side.record(1).await?;
    assert!(record.last_error().is_some_and(|error| error.contains("401")), "{:?}", record.last_error());
    assert_eq!(record.attempts(), 0, "a wrong key kills no message");
    assert_eq!((script.count(), wired.inventory.side(Queue::Inbox).rows().await?), (0, 0));
    wired.end(worker).await
}

async fn of_several_keys_one_that_both_know_is_enough<L: Line>(stage: &Stage<Sqlite>) -> Verdict {
    let (mut wired, script) = (Wired::<L>::new(stage).await?, Script::succeed());
    wired.receive(&script, ReceiverOptions::default()).await?;
    let new = Key::new("next", Secret::parse(&Secret::generate())?)?;
    let keys = postroom::services::Keys::new([new, crate::peer::key()?])?;
    let (_, worker) = wired.send(|service| service.keys(keys))?;
    stage.outbox.enqueue(NewMessage::new(TOPIC, "1").to("inventory")).await?;
    wired.until("it is sent", |stats| stats.done == 1).await?;
    wired.end(worker).await
}

/// The receiver's key is of HMAC-SHA512: a sender that has the same key by HMAC-SHA256 is not heard, and kills nothing.
async fn a_key_signs_by_its_own_algorithm_and_by_no_other<L: Line>(stage: &Stage<Sqlite>) -> Verdict {
    let (mut wired, script) = (Wired::<L>::new(stage).await?, Script::succeed());
    let longer = crate::peer::key()?.algorithm(HmacAlgorithm::Sha512);
    wired.receive_by(longer.clone(), &script).await?;
    let keys = postroom::services::Keys::from(crate::peer::key()?);
    let breaker = |service: postroom::services::Service| service.breaker(100, Duration::ZERO, Duration::ZERO);
    let (_, worker) = wired.send(|service| breaker(service.keys(keys.clone())))?;
    stage.outbox.enqueue(NewMessage::new(TOPIC, "1").to("inventory")).await?;
    let side = stage.side(Queue::Outbox);
    eventually("it is refused", || async move { Ok(side.record(1).await?.last_error().is_some()) }).await?;
    let record = side.record(1).await?;
    assert!(record.last_error().is_some_and(|error| error.contains("401")), "{:?}", record.last_error());
    assert_eq!((record.attempts(), script.count()), (0, 0));
    keys.replace([longer])?;
    let sent = || async move {
        stage.skip_pause(Queue::Outbox).await?;
        Ok(side.record(1).await?.state() == State::Done)
    };
    eventually("it is sent by the algorithm of the key", sent).await?;
    assert_eq!(script.count(), 1);
    wired.end(worker).await
}

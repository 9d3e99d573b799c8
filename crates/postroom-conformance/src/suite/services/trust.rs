//! What is accepted: signatures at the level of HTTP, keys that change, answers that anybody could have given.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use postroom::message::Kind;
use postroom::services::{
    Courier, Key, Keys, ListenOptions, Listener, Receiver, ReceiverOptions, Secret, Service, Services, Source,
};
use postroom::sqlite::Sqlite;
use postroom::{ErrorKind, Handlers, MessageId, NewMessage};

use crate::by_wire::ByWire;
use crate::case::{Verdict, cases};
use crate::harness::{Stage, Testable, refused};
use crate::peer::{self, Letter, Peer, Said};
use crate::script::Script;
use crate::services::{Desk, Receives, TOPIC, asynchronous};

cases! { trust:
    sqlite v1_is_taken_only_where_it_is_allowed ["SQM-5.3.1"];
    sqlite v1_is_refused_once_v2_was_used [];
    sqlite v1_cannot_say_that_a_message_is_too_late [];
    sqlite sources_that_share_a_secret_cannot_use_v1 [];
    sqlite a_source_sends_only_topics_that_it_may [];
    sqlite a_source_answers_whatever_topics_it_may_send [];
    sqlite a_request_without_its_signature_is_no_v1_request [];
    sqlite a_request_is_taken_for_five_minutes_either_way [];
    sqlite a_request_for_another_service_is_refused [];
    sqlite a_message_from_the_future_is_refused [];
    sqlite every_reason_for_distrust_has_the_same_answer ["SQM-5.3.2"];
    sqlite a_source_cannot_speak_for_another ["SQM-12.3"];
    sqlite a_hundred_thousand_changed_requests_are_refused_and_none_touches_the_store ["SQM-5.3.2"];
    server a_hundred_thousand_changed_requests_cause_no_statement ["SQM-5.3.2"];
    sqlite a_key_that_is_taken_away_is_refused_at_once [];
    sqlite a_key_is_needed_where_one_is_used [];
    sqlite nothing_goes_unencrypted_beyond_this_machine_unless_it_is_allowed [];
}

/// A receiver that takes v1 from `orders`.
fn lenient(stage: &Stage<Sqlite>, script: &Script) -> anyhow::Result<Desk<Sqlite>> {
    let source = Source::new("orders", peer::key()?).allow_v1();
    let receiver = Receiver::new("inventory", stage.store.clone(), asynchronous::<Sqlite>(script), [source])?;
    Ok(Desk { peer: Peer::new(stage.clock.clone()), receiver })
}

async fn v1(desk: &Desk<Sqlite>, letter: &Letter) -> anyhow::Result<Said> {
    desk.ask(desk.peer.request_v1(letter)?).await
}

/// One signature would pass for both: `a` with the topic `b.pay` and `ab` with the topic `.pay`.
async fn sources_that_share_a_secret_cannot_use_v1(stage: &Stage<Sqlite>) -> Verdict {
    let receiver = |a: Source, b: Source| {
        let handlers = asynchronous::<Sqlite>(&Script::succeed());
        Receiver::<Sqlite>::new("inventory", stage.store.clone(), handlers, [a, b])
    };
    let other = || Key::new("other", Secret::parse(&Secret::generate())?);
    let shared = || Ok::<_, postroom::Error>(Source::new("a", peer::key()?));
    let refused = receiver(shared()?.allow_v1(), Source::new("ab", peer::key()?)).err();
    assert!(refused.is_some_and(|error| error.to_string().contains("share a secret")));
    receiver(shared()?, Source::new("ab", peer::key()?))?;
    let keys = Keys::from(other()?);
    let receiver = receiver(shared()?.allow_v1(), Source::new("ab", keys.clone()))?;
    let desk = Desk { peer: Peer { source: "a".into(), ..Peer::new(stage.clock.clone()) }, receiver };
    assert_eq!(v1(&desk, &Letter::new(TOPIC)).await?.status, 200);
    keys.replace([peer::key()?])?;
    assert_eq!(v1(&desk, &Letter::new(TOPIC)).await?.status, 401, "it is shared since");
    Ok(())
}

async fn a_source_sends_only_topics_that_it_may(stage: &Stage<Sqlite>) -> Verdict {
    let script = Script::succeed();
    let source = Source::new("orders", peer::key()?).topics(["order.placed", "payment.*"]);
    let receiver = Receiver::new("inventory", stage.store.clone(), script.handlers::<Sqlite>(), [source])?;
    let desk = Desk { peer: Peer::new(stage.clock.clone()), receiver };
    for (topic, status) in [("order.placed", 200), ("payment.done", 200), ("order.deleted", 403), ("payment", 403)] {
        let request = desk.peer.request(&Letter::new(topic))?;
        let headers = request.headers().clone();
        let said = desk.ask(request).await?;
        assert_eq!(said.status, status, "{topic}");
        assert!(desk.peer.is_receipt(&headers, &said)?, "the source hears for sure that it may not");
    }
    assert_eq!((script.count(), stage.side(postroom::queue::Queue::Inbox).rows().await?), (2, 2));
    let counted = stage.setup.meters.sum("rf_inbox_distrusted_count{reason=\"topic\"}");
    assert!((counted - 2.0).abs() < f64::EPSILON, "{counted}");
    Ok(())
}

/// The topic of an answer is the topic of the request, which this service itself chose.
async fn a_source_answers_whatever_topics_it_may_send(stage: &Stage<Sqlite>) -> Verdict {
    let source = Source::new("inventory", peer::key()?).topics(["order.placed"]);
    let handlers = asynchronous::<Sqlite>(&Script::succeed());
    let receiver = Receiver::new("orders", stage.store.clone(), handlers, [source])?;
    let desk = Desk { peer: Peer::new(stage.clock.clone()).turned_round(), receiver };
    let request = NewMessage::new(TOPIC, "{}").kind(Kind::Command).to("inventory");
    let id = request.message_id();
    stage.outbox.enqueue(request).await?;
    let letter = Letter::new(TOPIC).saying("7");
    assert_eq!(desk.send(&letter).await?.status, 403, "it sends no such command");
    let answer = Letter { id: MessageId::new(), kind: "Response", correlation_id: Some(id.to_string()), ..letter };
    assert_eq!(desk.send(&answer).await?.status, 200);
    let row = stage.outbox.find(id.as_uuid()).await?.pop();
    assert_eq!(row.as_ref().and_then(postroom::operator::Record::response), Some("7"));
    Ok(())
}

async fn v1_is_taken_only_where_it_is_allowed(stage: &Stage<Sqlite>) -> Verdict {
    let script = Script::new(|_| async { Ok(Some("7".into())) });
    let (strict, letter) = (stage.desk_playing(asynchronous::<Sqlite>, &script)?, Letter::new(TOPIC));
    assert_eq!((v1(&strict, &letter).await?.status, script.count()), (401, 0));
    let desk = lenient(stage, &script)?;
    let (first, second) = (v1(&desk, &letter).await?, v1(&desk, &letter).await?);
    assert_eq!((first.status, first.payload(), second.payload()), (200, 7.into(), 7.into()));
    assert_eq!((second.is_duplicate(), script.count()), (true, 1));
    let mut mallory = desk.clone();
    mallory.peer.secret = "a secret of somebody else, long enough".into();
    assert_eq!((v1(&mallory, &Letter::new(TOPIC)).await?.status, script.count()), (401, 1));
    Ok(())
}

async fn v1_is_refused_once_v2_was_used(stage: &Stage<Sqlite>) -> Verdict {
    let script = Script::succeed();
    let desk = lenient(stage, &script)?;
    assert_eq!(v1(&desk, &Letter::new(TOPIC)).await?.status, 200);
    assert_eq!(desk.send(&Letter::new(TOPIC)).await?.status, 200);
    assert_eq!((v1(&desk, &Letter::new(TOPIC)).await?.status, script.count()), (401, 2));
    Ok(())
}

async fn v1_cannot_say_that_a_message_is_too_late(stage: &Stage<Sqlite>) -> Verdict {
    let script = Script::succeed();
    let (desk, mut letter) = (lenient(stage, &script)?, Letter::new(TOPIC));
    letter.headers.insert("rf-expires-at".into(), stage.now().to_string().into());
    assert_eq!((v1(&desk, &letter).await?.status, script.count()), (200, 1), "no header of it is signed");
    Ok(())
}

async fn a_request_without_its_signature_is_no_v1_request(stage: &Stage<Sqlite>) -> Verdict {
    let script = Script::succeed();
    for desk in [stage.desk_playing(asynchronous::<Sqlite>, &script)?, lenient(stage, &script)?] {
        let mut request = desk.peer.request(&Letter::new(TOPIC))?;
        request.headers_mut().remove("rf-signature");
        assert_eq!((desk.ask(request).await?.status, script.count()), (401, 0));
    }
    Ok(())
}

const TICK: Duration = Duration::from_micros(1);
const TOLERANCE: Duration = Duration::from_secs(300);

async fn a_request_is_taken_for_five_minutes_either_way(stage: &Stage<Sqlite>) -> Verdict {
    let desk = stage.desk_playing(asynchronous::<Sqlite>, &Script::succeed())?;
    let early = desk.peer.request(&Letter::new(TOPIC))?;
    let too_early = desk.peer.request(&Letter::new(TOPIC))?;
    stage.clock.advance(TOLERANCE);
    assert_eq!(desk.ask(early.clone()).await?.status, 200);
    stage.clock.advance(TICK);
    assert_eq!(desk.ask(too_early).await?.status, 401);
    assert_eq!(desk.ask(early).await?.status, 401, "a replay of one that was taken");
    let mut ahead = desk.clone();
    ahead.peer.clock = postroom::clock::ManualClock::new(stage.now().plus(TOLERANCE));
    assert_eq!(ahead.send(&Letter::new(TOPIC)).await?.status, 200);
    ahead.peer.clock.advance(TICK);
    assert_eq!(ahead.ask(ahead.peer.request(&Letter::new(TOPIC))?).await?.status, 401);
    Ok(())
}

async fn a_request_for_another_service_is_refused(stage: &Stage<Sqlite>) -> Verdict {
    let mut desk = stage.desk_playing(asynchronous::<Sqlite>, &Script::succeed())?;
    desk.peer.destination = "billing".into();
    assert_eq!(desk.ask(desk.peer.request(&Letter::new(TOPIC))?).await?.status, 401);
    Ok(())
}

/// It would be known again for longer than records are kept.
async fn a_message_from_the_future_is_refused(stage: &Stage<Sqlite>) -> Verdict {
    let desk = stage.desk_playing(asynchronous::<Sqlite>, &Script::succeed())?;
    let enqueued_at = Some(stage.now().plus(TOLERANCE + TICK));
    let request = desk.peer.request(&Letter { enqueued_at, ..Letter::new(TOPIC) })?;
    assert_eq!(desk.ask(request).await?.status, 401);
    Ok(())
}

async fn every_reason_for_distrust_has_the_same_answer(stage: &Stage<Sqlite>) -> Verdict {
    let desk = stage.desk_playing(asynchronous::<Sqlite>, &Script::succeed())?;
    let change = |change: fn(&mut Peer)| {
        let mut peer = desk.peer.clone();
        change(&mut peer);
        peer.request(&Letter::new(TOPIC))
    };
    let mut other_body = desk.peer.request(&Letter::new(TOPIC))?;
    *other_body.body_mut() = Full::from("{}");
    let mut stripped = desk.peer.request(&Letter::new(TOPIC))?;
    stripped.headers_mut().remove("rf-signature");
    let requests = [
        change(|peer| peer.source = "mallory".into())?,
        change(|peer| peer.key_id = "second".into())?,
        change(|peer| peer.secret = "a secret of somebody else, long enough".into())?,
        change(|peer| peer.destination = "billing".into())?,
        change(|peer| peer.clock = postroom::clock::ManualClock::new(peer.clock.now().minus(2 * TOLERANCE)))?,
        desk.peer.request_v1(&Letter::new(TOPIC))?,
        other_body,
        stripped,
    ];
    let first = desk.ask(requests[0].clone()).await?;
    assert_eq!((first.status, first.header("rf-ack")), (401, None));
    for request in requests {
        assert_eq!(desk.ask(request).await?, first);
    }
    Ok(())
}

async fn a_source_cannot_speak_for_another(stage: &Stage<Sqlite>) -> Verdict {
    let script = Script::succeed();
    let other = Key::new(peer::KEY_ID, Secret::parse("the secret of billing, long enough to be one")?)?;
    let sources = [Source::new("orders", peer::key()?), Source::new("billing", other)];
    let receiver = Receiver::new("inventory", stage.store.clone(), asynchronous::<Sqlite>(&script), sources)?;
    let desk = Desk { peer: Peer::new(stage.clock.clone()), receiver };
    let mut request = desk.peer.request(&Letter::new(TOPIC))?;
    request.headers_mut().insert("rf-source", HeaderValue::from_static("billing"));
    assert_eq!(desk.ask(request).await?.status, 401);
    // The same id of another source is another message.
    let letter = Letter::new(TOPIC);
    assert_eq!(desk.send(&letter).await?.status, 200);
    let mut billing = desk.clone();
    billing.peer.source = "billing".into();
    billing.peer.secret = "the secret of billing, long enough to be one".into();
    let said = billing.send(&letter).await?;
    assert_eq!((said.status, said.is_duplicate(), script.count()), (200, false, 2));
    Ok(())
}

/// What is signed, each in its own place.
const SIGNED: &[&str] = &[
    "rf-version",
    "rf-source",
    "rf-destination",
    "rf-message-id",
    "rf-enqueued-at",
    "rf-due-at",
    "rf-attempt",
    "rf-timestamp",
    "rf-content-sha256",
    "rf-signature",
    "content-type",
];

fn flipped(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = fastrand::usize(..bytes.len());
    bytes[at] ^= 1 << fastrand::u32(..8);
    bytes
}

/// Changes one thing about a request; none if that makes no request at all.
async fn changed(request: Request<Full<Bytes>>) -> anyhow::Result<Option<Request<Full<Bytes>>>> {
    let (mut head, body) = request.into_parts();
    let mut body = body.collect().await?.to_bytes();
    let field = SIGNED[fastrand::usize(..SIGNED.len())];
    match fastrand::u32(..100) {
        0..45 => {
            let Ok(value) = HeaderValue::from_bytes(&flipped(head.headers[field].as_bytes())) else { return Ok(None) };
            head.headers.insert(field, value);
        }
        45..85 => body = flipped(&body).into(),
        85..88 => drop(head.headers.remove(field)),
        88..91 => drop(head.headers.append(field, head.headers[field].clone())),
        91..93 => head.method = [Method::PUT, Method::GET, Method::PATCH][fastrand::usize(..3)].clone(),
        93..96 => {
            head.uri = Uri::from_static(["/_rf/receive?a", "/_rf/receive/", "/_rf/Receive"][fastrand::usize(..3)]);
        }
        96..98 => body = body.slice(..fastrand::usize(..body.len())),
        _ => body = [&body[..], b" "].concat().into(),
    }
    Ok(Some(Request::from_parts(head, Full::from(body))))
}

async fn a_hundred_thousand_changed_requests_are_refused_and_none_touches_the_store(stage: &Stage<Sqlite>) -> Verdict {
    let script = Script::succeed();
    let desk = stage.desk_playing(asynchronous::<Sqlite>, &script)?;
    // Without its table no statement about a message can be carried out, and every attempt fails.
    rusqlite::Connection::open(stage.place.path("store.db"))?.execute_batch("DROP TABLE inbox_messages")?;
    let unchanged = desk.peer.request(&whole_letter(stage))?;
    assert_eq!(desk.ask(unchanged.clone()).await?.status, 500, "the store is touched");
    refuses_a_hundred_thousand_changes(&desk, &unchanged).await?;
    assert_eq!(script.count(), 0);
    Ok(())
}

/// By statements counted on their way to the server.
async fn a_hundred_thousand_changed_requests_cause_no_statement<B: ByWire + Receives>(stage: &Stage<B>) -> Verdict {
    let ((proxy, store), script) = (stage.behind_proxy().await?, Script::succeed());
    let (peer, options) = (Peer::new(stage.clock.clone()), ReceiverOptions::default());
    let desk = Desk::<B>::open(store.clone(), peer, asynchronous::<B>(&script), options)?;
    let unchanged = desk.peer.request(&whole_letter(stage))?;
    let said = proxy.said();
    refuses_a_hundred_thousand_changes(&desk, &unchanged).await?;
    assert_eq!((proxy.said() - said, script.count()), (0, 0));
    // Last, because the news of what it enqueued follows in its own time.
    assert_eq!(desk.ask(unchanged).await?.status, 200);
    assert!(proxy.said() > said, "a message that is taken causes statements");
    Ok(())
}

/// With everything in it that is signed.
fn whole_letter<B: Testable>(stage: &Stage<B>) -> Letter {
    Letter { due_at: Some(stage.now()), ..Letter::new(TOPIC).saying(r#"{"order":7,"item":"teapot"}"#) }
}

async fn refuses_a_hundred_thousand_changes<B: Receives>(desk: &Desk<B>, unchanged: &Request<Full<Bytes>>) -> Verdict {
    let (mut tried, mut by_status) = (0, std::collections::BTreeMap::<u16, u32>::new());
    while tried < 100_000 {
        let Some(request) = changed(unchanged.clone()).await? else { continue };
        let said = desk.ask(request).await?;
        *by_status.entry(said.status).or_default() += 1;
        assert!(said.header("rf-ack").is_none(), "a receipt for a request that was changed");
        tried += 1;
    }
    println!("changed requests, by what was said to them: {by_status:?}");
    assert!(by_status.keys().all(|status| [400, 401, 405].contains(status)), "{by_status:?}");
    Ok(())
}

async fn a_key_that_is_taken_away_is_refused_at_once(stage: &Stage<Sqlite>) -> Verdict {
    let (script, keys) = (Script::succeed(), Keys::from(peer::key()?));
    let source = Source::new("orders", keys.clone());
    let receiver = Receiver::new("inventory", stage.store.clone(), asynchronous::<Sqlite>(&script), [source])?;
    let desk = Desk { peer: Peer::new(stage.clock.clone()), receiver };
    assert_eq!(desk.send(&Letter::new(TOPIC)).await?.status, 200);
    keys.replace([Key::new("second", Secret::parse(&Secret::generate())?)?])?;
    assert_eq!((desk.ask(desk.peer.request(&Letter::new(TOPIC))?).await?.status, script.count()), (401, 1));
    keys.replace([peer::key()?.not_after(stage.now())])?;
    assert_eq!(desk.send(&Letter::new(TOPIC)).await?.status, 200);
    stage.clock.advance(TICK);
    assert_eq!(desk.ask(desk.peer.request(&Letter::new(TOPIC))?).await?.status, 401);
    Ok(())
}

async fn a_key_is_needed_where_one_is_used(stage: &Stage<Sqlite>) -> Verdict {
    let courier = |service: Service| Courier::new(Services::new("orders").service(service));
    for address in ["http://127.0.0.1:1", "https://inventory.example", "unix:///run/a/in.sock", "pipe://in"] {
        refused(courier(Service::new("inventory", address)), ErrorKind::InvalidInput, "a service without a key")?;
    }
    courier(Service::new("inventory", "in-process"))?;
    let source = Source::new("orders", Keys::default());
    let receiver = Receiver::new("inventory", stage.store.clone(), Handlers::<Sqlite>::new(), [source]);
    refused(receiver, ErrorKind::InvalidInput, "a source without a key")?;
    for short in ["", "too short", "rfsec_c2hvcnQ", "base64:c2hvcnQ="] {
        refused(Secret::parse(short), ErrorKind::InvalidInput, "a short secret")?;
    }
    Ok(())
}

async fn nothing_goes_unencrypted_beyond_this_machine_unless_it_is_allowed(_: &Stage<Sqlite>) -> Verdict {
    let courier = |service: Service| Courier::new(Services::new("orders").service(service));
    for address in ["http://10.0.0.1:7", "http://inventory:7"] {
        let service = Service::new("inventory", address).keys(peer::key()?);
        refused(courier(service.clone()), ErrorKind::InvalidInput, address)?;
        courier(service.allow_unencrypted())?;
    }
    let listened = Listener::bind("http://0.0.0.0:0", ListenOptions::default()).await;
    refused(listened, ErrorKind::InvalidInput, "a listener beyond this machine")?;
    Listener::bind("http://0.0.0.0:0", ListenOptions::default().allow_unencrypted()).await?;
    refused(
        Listener::bind("https://127.0.0.1:0", ListenOptions::default()).await,
        ErrorKind::InvalidInput,
        "no certificate",
    )
}

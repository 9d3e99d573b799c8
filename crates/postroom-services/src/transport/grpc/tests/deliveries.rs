//! Tests what the courier delivers over gRPC.

use std::time::Duration;

use tokio::task::JoinSet;

use super::{Listening, SECRET, courier, key, message, plain_receiver, receiver};
use crate::foreign::CloudEventsMode;
use crate::receiver::{ReceiverOptions, Source};
use crate::transport::grpc::GrpcWire;
use crate::transport::http::{ListenOptions, Listener};
use crate::transport::judge::Answered;
use crate::transport::parcel::Parcel;
use crate::transport::wires::Wire;
use crate::transport::{Courier, Peer, Service, Services};
use postroom_core::message::{Message, Origin};
use postroom_core::queue::Fault;
use postroom_core::support::clock::Clock;
use postroom_core::work::delivery::{Delivery, Transport};

/// Asserts that the delivery failed, and that the reason contains this text.
#[track_caller]
fn assert_failed(delivery: &Delivery, said: &str) {
    let why = delivery.fault().map(Fault::why).unwrap_or_default();
    assert!(why.contains(said), "{why}");
}

#[track_caller]
fn assert_accepted(delivery: &Delivery) {
    assert!(matches!(delivery, Delivery::Accepted { response: Some(_) }), "{delivery:?}");
}

#[tokio::test]
async fn a_message_is_handled_and_its_answer_comes_back_with_the_receipt() {
    let (receiver, handled) = plain_receiver();
    let listening = Listening::start(receiver).await;
    let courier = listening.courier();
    let sent = message("reserve", r#"{"order":  7}"#);
    let delivery = courier.send(&sent).await;
    let response = r#"{"number": 1}"#.to_owned();
    assert_eq!(delivery, Delivery::Accepted { response: Some(response) }, "only a receipt makes it so");
    let arrived = handled.messages();
    assert_eq!(arrived.len(), 1);
    assert_eq!((arrived[0].id(), arrived[0].source()), (sent.id(), Some("orders")));
    assert_eq!((&arrived[0].payload, &arrived[0].headers), (&sent.payload, &sent.headers));
    assert_eq!((&arrived[0].correlation_id, arrived[0].kind), (&sent.correlation_id, sent.kind));
    assert_eq!(courier.destinations()[0].window, Some(Duration::from_secs(29 * 24 * 3600)));
}

/// Returns the answer before it is judged.
async fn exchange(listening: &Listening, message: &Message) -> Answered {
    let service = listening.service();
    let wire = GrpcWire::open(&service, &service.address().unwrap()).unwrap();
    let (keys, now) = (vec![key(SECRET)], Clock::Database.now());
    wire.exchange(&Parcel { message, source: "orders", destination: "inventory", keys, now }).await.unwrap()
}

#[tokio::test]
async fn sent_again_it_gets_the_stored_answer() {
    let (receiver, handled) = plain_receiver();
    let listening = Listening::start(receiver).await;
    let sent = message("reserve", "{}");
    for is_duplicate in [false, true, true] {
        let answered = exchange(&listening, &sent).await;
        assert!(answered.has_receipt && answered.status == 200, "{answered:?}");
        let answer = answered.answer.unwrap();
        assert_eq!((answer.acknowledged, answer.duplicate_detected), (true, is_duplicate));
        assert_eq!(answer.payload().unwrap(), r#"{"number": 1}"#);
    }
    assert_eq!(handled.messages().len(), 1);
}

#[tokio::test]
async fn who_shall_wait_is_told_how_long() {
    let (receiver, _) = plain_receiver();
    let listening = Listening::start(receiver).await;
    let answered = exchange(&listening, &message("later", "{}")).await;
    let said = (answered.status, answered.has_receipt, answered.retry_after);
    assert_eq!(said, (500, true, Some(Duration::from_secs(7))), "never shorter than asked for");
}

#[tokio::test]
async fn how_long_to_wait_counts_only_as_the_receiver_said_it() {
    for (said, is_proven) in [("7", true), ("3600", false)] {
        let (receiver, _) = plain_receiver();
        let router = axum::Router::new().route_service("/_rf/receive", receiver.service());
        let router = router.route_service("/postroom.v1.Receiver/Receive", receiver.grpc_service());
        // A proxy in between changes the answer.
        let router =
            router.layer(axum::middleware::map_response(move |mut response: axum::response::Response| async move {
                response.headers_mut().insert("retry-after", said.parse().unwrap());
                response
            }));
        let listener = Listener::bind("http://127.0.0.1:0", ListenOptions::default()).await.unwrap();
        let address = listener.tcp_address().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(listener.serve(router, std::future::pending()));
        for scheme in ["http", "grpc"] {
            let courier = courier(Service::new("inventory", format!("{scheme}://{address}")).keys(key(SECRET)));
            let delivery = courier.send(&message("later", "{}")).await;
            let holds = delivery.fault().map(Fault::holds_the_place);
            assert_eq!(holds, Some(!is_proven), "{scheme}: {delivery:?}");
        }
    }
}

#[tokio::test]
async fn what_the_receiver_decides_is_believed() {
    let (receiver, handled) = plain_receiver();
    let listening = Listening::start(receiver).await;
    let courier = listening.courier();
    let refused = message("refused", "{}");
    for _ in 0..2 {
        let delivery = courier.send(&refused).await;
        assert!(
            delivery.fault().is_some_and(|fault| fault.is_final() && fault.why().contains("never")),
            "{delivery:?}"
        );
    }
    assert_eq!(handled.messages().len(), 1, "the refusal is kept");
    assert_failed(&courier.send(&message("failing", "{}")).await, "500");
    let mut old = message("reserve", "{}");
    old.created_at = old.created_at.minus(Duration::from_secs(30 * 24 * 3600));
    let delivery = courier.send(&old).await;
    assert!(delivery.fault().is_some_and(|fault| fault.is_final() && fault.why().contains("410")), "{delivery:?}");
}

#[tokio::test]
async fn text_that_is_no_json_arrives_as_it_was() {
    let (receiver, handled) = plain_receiver();
    let listening = Listening::start(receiver).await;
    assert_accepted(&listening.courier().send(&message("reserve", "two of \"those\"")).await);
    assert_eq!(handled.messages()[0].payload, "two of \"those\"");
}

#[tokio::test]
async fn who_cannot_be_verified_is_not_heard() {
    let (receiver, handled) = plain_receiver();
    let listening = Listening::start(receiver).await;
    let wrong = listening.service().keys(key("another secret that is long enough too"));
    let stranger = Services::new("stranger").service(listening.service());
    let elsewhere = Services::new("orders").service(listening.service().named("elsewhere"));
    let mut lost = message("reserve", "{}");
    if let Origin::Outbox { destination, .. } = &mut lost.origin {
        *destination = Some("elsewhere".to_owned());
    }
    let large = format!("\"{}\"", "x".repeat(3_000_000));
    for (courier, sent) in [
        (courier(wrong.clone()), message("reserve", "{}")),
        (courier(wrong), message("reserve", &large)),
        (Courier::new(stranger).unwrap(), message("reserve", "{}")),
        (Courier::new(elsewhere).unwrap(), lost),
    ] {
        assert_failed(&courier.send(&sent).await, "answered 401: the request could not be verified");
    }
    assert!(handled.messages().is_empty());
}

#[tokio::test]
async fn what_is_too_large_is_refused_unread() {
    let options = ReceiverOptions::default().body_max(100_000);
    let (receiver, handled) = receiver(Source::new("orders", key(SECRET)), options);
    let listening = Listening::start(receiver).await;
    let courier = listening.courier();
    for (letters, fits) in [(99_000, true), (100_000, false), (5_000_000, false)] {
        let delivery = courier.send(&message("reserve", &format!("\"{}\"", "x".repeat(letters)))).await;
        if fits { assert_accepted(&delivery) } else { assert_failed(&delivery, "413") }
    }
    assert_eq!(handled.messages().len(), 1);
}

#[tokio::test]
async fn the_cause_of_a_broken_connection_is_told() {
    let (receiver, _) = plain_receiver();
    let listening = Listening::start(receiver).await;
    let courier = listening.courier();
    listening.stop().await;
    assert_failed(&courier.send(&message("reserve", "{}")).await, "refused");
}

#[tokio::test]
async fn a_foreign_peer_signs_inside_until_it_has_signed_outside() {
    let source = Source::new("orders", key(SECRET)).allow_v1();
    let (receiver, handled) = receiver(source, ReceiverOptions::default());
    let listening = Listening::start(receiver).await;
    let foreign = courier(listening.service().peer(Peer::V1));
    let wrong = courier(listening.service().peer(Peer::V1).keys(key("another secret that is long enough too")));
    assert_failed(&wrong.send(&message("reserve", "{}")).await, "401");
    assert!(handled.messages().is_empty());
    assert_accepted(&foreign.send(&message("reserve", "{}")).await);
    assert_accepted(&listening.courier().send(&message("reserve", "{}")).await);
    assert_failed(&foreign.send(&message("reserve", "{}")).await, "401");
    assert_eq!(handled.messages().len(), 2);
}

#[tokio::test]
async fn http_is_understood_at_the_same_port() {
    let (receiver, handled) = plain_receiver();
    let listening = Listening::start(receiver).await;
    let http = Service::new("inventory", format!("http://{}", listening.address)).keys(key(SECRET));
    for service in [http.clone(), http.http2()] {
        assert_accepted(&courier(service).send(&message("reserve", "{}")).await);
    }
    assert_eq!(handled.messages().len(), 2);
}

#[test]
fn other_kinds_of_peers_have_no_grpc() {
    for peer in [Peer::Webhook, Peer::CloudEvents(CloudEventsMode::Binary)] {
        let service = Service::new("inventory", "grpc://127.0.0.1:1").keys(key(SECRET)).peer(peer);
        let error = Courier::new(Services::new("orders").service(service)).unwrap_err();
        assert!(error.to_string().contains("gRPC"), "{error}");
    }
}

//! Tests what each fault does to a request.

use std::time::Duration;

use super::{server::EMPTY, *};

on_both_wires! {
    a_delayed_request_arrives_and_is_answered_later,
    a_delayed_request_arrives_even_if_its_client_has_given_up,
    a_dropped_request_never_arrives,
    a_request_whose_answer_is_dropped_is_carried_out,
    a_dropped_answer_is_read_to_its_end,
    a_reset_comes_in_the_middle_of_an_answer,
    a_half_open_connection_is_silent_until_it_is_let_go,
    a_half_open_connection_is_closed_with_the_proxy,
    a_truncated_answer_is_a_part_of_it,
    a_doubled_request_arrives_twice_and_is_answered_once,
    a_client_can_be_told_that_all_went_well_without_a_server,
}

async fn a_delayed_request_arrives_and_is_answered_later(mut stage: Stage) {
    let fault = Fault::Delay(Duration::from_millis(5));
    stage.proxy.next(fault, 1);
    let mut client = stage.connect().await;
    let begun = tokio::time::Instant::now();
    client.asks(ASK, &numbered(1)).await;
    assert!(begun.elapsed() >= Duration::from_millis(5));
    stage.server.notes("1: /numbered hello").await;
    stage.proxy.done(fault, 1).await;
    client.asks(ASK, &numbered(2)).await;
}

async fn a_delayed_request_arrives_even_if_its_client_has_given_up(mut stage: Stage) {
    let fault = Fault::Delay(Duration::from_millis(5));
    stage.proxy.next(fault, 1);
    let mut client = stage.connect().await;
    client.say(ASK).await;
    drop(client);
    stage.server.notes("1: /numbered hello").await;
    stage.proxy.done(fault, 1).await;
}

async fn a_dropped_request_never_arrives(mut stage: Stage) {
    stage.proxy.next(Fault::DropRequest, 1);
    let mut client = stage.connect().await;
    client.say(ASK).await;
    client.is_closed_without_a_word().await;
    stage.proxy.done(Fault::DropRequest, 1).await;
    stage.connect().await.asks("GET /empty HTTP/1.1\r\n\r\n", EMPTY).await;
    stage.server.notes("1: /empty ").await;
}

async fn a_request_whose_answer_is_dropped_is_carried_out(mut stage: Stage) {
    stage.proxy.next(Fault::DropResponse, 1);
    let mut client = stage.connect().await;
    client.say(ASK).await;
    client.is_closed_without_a_word().await;
    stage.proxy.done(Fault::DropResponse, 1).await;
    stage.server.notes("1: /numbered hello").await;
    stage.connect().await.asks(ASK, &numbered(2)).await;
}

async fn a_dropped_answer_is_read_to_its_end(mut stage: Stage) {
    stage.proxy.next(Fault::DropResponse, 1);
    let mut client = stage.connect().await;
    client.say("GET /large HTTP/1.1\r\n\r\n").await;
    client.is_closed_without_a_word().await;
    stage.server.notes("1: /large ").await;
    stage.server.notes("1: answered in full").await;
}

async fn a_reset_comes_in_the_middle_of_an_answer(mut stage: Stage) {
    stage.proxy.next(Fault::Reset, 1);
    let mut client = stage.connect().await;
    client.say(ASK).await;
    let (heard, end) = client.hears_to_the_end().await;
    assert_eq!(format!("{heard}er 1"), numbered(1));
    match stage.proxy.address() {
        Target::Tcp(_) => assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset),
        Target::Unix(_) => end.unwrap(),
    }
    stage.proxy.done(Fault::Reset, 1).await;
    stage.server.notes("1: /numbered hello").await;
}

async fn a_half_open_connection_is_silent_until_it_is_let_go(mut stage: Stage) {
    stage.proxy.next(Fault::HalfOpen, 1);
    let mut held = stage.connect().await;
    held.say(ASK).await;
    stage.proxy.done(Fault::HalfOpen, 1).await;
    held.hears_nothing().await;
    stage.connect().await.asks(ASK, &numbered(1)).await;
    stage.server.notes("1: /numbered hello").await;
    held.say(ASK).await;
    held.hears_nothing().await;
    stage.proxy.let_go();
    held.is_closed_without_a_word().await;
}

async fn a_half_open_connection_is_closed_with_the_proxy(stage: Stage) {
    stage.proxy.next(Fault::HalfOpen, 1);
    let mut held = stage.connect().await;
    held.say(ASK).await;
    stage.proxy.done(Fault::HalfOpen, 1).await;
    drop(stage.proxy);
    held.is_closed_without_a_word().await;
}

async fn a_truncated_answer_is_a_part_of_it(stage: Stage) {
    let cases = [
        ("/numbered", "HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nansw"),
        ("/chunked", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n wor"),
        ("/empty", "HTTP/1.1 204 "),
        ("/endless", "HTTP/1.1 "),
    ];
    for (path, part) in cases {
        stage.proxy.next(Fault::Truncate, 1);
        let mut client = stage.connect().await;
        client.say(&format!("GET {path} HTTP/1.1\r\n\r\n")).await;
        let (heard, end) = client.hears_to_the_end().await;
        assert_eq!(heard, part);
        end.unwrap();
    }
    stage.proxy.done(Fault::Truncate, 4).await;
}

async fn a_doubled_request_arrives_twice_and_is_answered_once(mut stage: Stage) {
    stage.proxy.next(Fault::Duplicate, 1);
    let mut client = stage.connect().await;
    client.asks(ASK, &numbered(1)).await;
    stage.server.notes("1: /numbered hello").await;
    stage.server.notes("2: /numbered hello").await;
    stage.proxy.done(Fault::Duplicate, 1).await;
    client.asks(ASK, &numbered(3)).await;
    stage.server.notes("1: /numbered hello").await;
}

async fn a_client_can_be_told_that_all_went_well_without_a_server(mut stage: Stage) {
    let body = r#"{"acknowledged":true,"duplicateDetected":false}"#;
    let ok =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stage.proxy.set_target(nowhere());
    stage.proxy.next(Fault::AnswerOk, 2);
    let mut client = stage.connect().await;
    client.asks(ASK, &ok).await;
    client.asks(ASK, &ok).await;
    stage.proxy.done(Fault::AnswerOk, 2).await;
    stage.proxy.set_target(stage.server.address.clone());
    client.asks(ASK, &numbered(1)).await;
    stage.server.notes("1: /numbered hello").await;
}

//! Tests what faults do to a connection that does not speak HTTP/1.

use std::time::Duration;

use super::*;

const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\n";

on_both_wires! {
    another_protocol_is_passed_on_in_both_directions,
    a_connection_can_be_delayed,
    a_connection_can_be_closed_before_anything_arrives,
    a_connection_can_be_reset_when_the_server_speaks,
    a_connection_can_be_held_open,
    what_needs_a_request_closes_the_connection_when_the_server_speaks,
}

async fn another_protocol_is_passed_on_in_both_directions(mut stage: Stage) {
    let mut client = stage.connect().await;
    client.asks(PREFACE, "settings").await;
    client.asks("SM\r\n\r\n", "SM\r\n\r\n").await;
    stage.server.notes("1: * ").await;
    client.0.writes.shutdown().await.unwrap();
    client.is_closed_without_a_word().await;
    assert_eq!(stage.proxy.counts().of(Fault::Pass), 1);
}

async fn a_connection_can_be_delayed(stage: Stage) {
    let fault = Fault::Delay(Duration::from_millis(5));
    stage.proxy.next(fault, 1);
    let begun = tokio::time::Instant::now();
    stage.connect().await.asks(PREFACE, "settings").await;
    assert!(begun.elapsed() >= Duration::from_millis(5));
    assert_eq!(stage.proxy.counts().of(fault), 1);
}

async fn a_connection_can_be_closed_before_anything_arrives(mut stage: Stage) {
    stage.proxy.next(Fault::DropRequest, 1);
    let mut client = stage.connect().await;
    client.say(PREFACE).await;
    client.is_closed_without_a_word().await;
    stage.proxy.done(Fault::DropRequest, 1).await;
    stage.connect().await.asks(ASK, &numbered(1)).await;
    stage.server.notes("1: /numbered hello").await;
}

async fn a_connection_can_be_reset_when_the_server_speaks(mut stage: Stage) {
    stage.proxy.next(Fault::Reset, 1);
    let mut client = stage.connect().await;
    client.say(PREFACE).await;
    let (heard, end) = client.hears_to_the_end().await;
    assert_eq!(heard, "");
    assert_eq!(end.is_err(), stage.proxy.tcp_address().is_some());
    stage.proxy.done(Fault::Reset, 1).await;
    stage.server.notes("1: * ").await;
}

async fn a_connection_can_be_held_open(stage: Stage) {
    stage.proxy.next(Fault::HalfOpen, 1);
    let mut client = stage.connect().await;
    client.say(PREFACE).await;
    stage.proxy.done(Fault::HalfOpen, 1).await;
    client.hears_nothing().await;
    stage.proxy.let_go();
    client.is_closed_without_a_word().await;
}

async fn what_needs_a_request_closes_the_connection_when_the_server_speaks(mut stage: Stage) {
    let faults = [Fault::DropResponse, Fault::Truncate, Fault::Duplicate, Fault::AnswerOk];
    for (fault, connection) in faults.into_iter().zip(1..) {
        stage.proxy.next(fault, 1);
        let mut client = stage.connect().await;
        client.say(PREFACE).await;
        client.is_closed_without_a_word().await;
        stage.proxy.done(fault, 1).await;
        stage.server.notes(&format!("{connection}: * ")).await;
    }
}

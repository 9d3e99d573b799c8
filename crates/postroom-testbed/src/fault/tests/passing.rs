//! Tests that nobody notices the proxy without a fault.

use super::{
    server::{CHUNKED, EMPTY, ENDLESS, HEAD, HINTED, LARGE, REFUSED, SWITCHED},
    *,
};

on_both_wires! {
    requests_of_one_connection_stay_on_one_connection,
    a_chunked_request_arrives_as_it_was_sent,
    answers_of_every_form_are_passed_on,
    an_answer_that_ends_with_its_connection_ends,
    a_large_answer_arrives_in_full,
    an_answer_that_does_not_wait_for_the_request_is_passed_on,
    a_protocol_that_is_switched_to_is_passed_on,
    a_client_that_goes_away_is_missed_by_the_server,
    a_request_that_breaks_off_breaks_off_at_the_server,
}

async fn requests_of_one_connection_stay_on_one_connection(mut stage: Stage) {
    let mut client = stage.connect().await;
    client.asks(ASK, &numbered(1)).await;
    client.asks(ASK, &numbered(2)).await;
    stage.server.notes("1: /numbered hello").await;
    stage.server.notes("1: /numbered hello").await;
    stage.proxy.done(Fault::Pass, 2).await;
    assert_eq!(stage.proxy.counts().of(Fault::Pass), 2);
    assert_eq!(stage.proxy.counts().of(Fault::Reset), 0);
}

async fn a_chunked_request_arrives_as_it_was_sent(mut stage: Stage) {
    let mut client = stage.connect().await;
    client.say("POST /numbered HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel").await;
    client.say("lo\r\n0\r\n\r\n").await;
    client.hears(&numbered(1)).await;
    client.asks(ASK, &numbered(2)).await;
    stage.server.notes("1: /numbered 5\r\nhello\r\n0\r\n\r\n").await;
    stage.server.notes("1: /numbered hello").await;
}

async fn answers_of_every_form_are_passed_on(stage: Stage) {
    let mut client = stage.connect().await;
    client.asks("GET /chunked HTTP/1.1\r\n\r\n", CHUNKED).await;
    client.asks("GET /empty HTTP/1.1\r\n\r\n", EMPTY).await;
    client.asks("HEAD /head HTTP/1.1\r\n\r\n", HEAD).await;
    client.asks("GET /hinted HTTP/1.1\r\n\r\n", HINTED).await;
    client.asks(ASK, &numbered(5)).await;
}

async fn an_answer_that_ends_with_its_connection_ends(stage: Stage) {
    let mut client = stage.connect().await;
    client.say("GET /endless HTTP/1.1\r\n\r\n").await;
    let (heard, end) = client.hears_to_the_end().await;
    assert_eq!(heard, ENDLESS);
    end.unwrap();
}

async fn a_large_answer_arrives_in_full(stage: Stage) {
    let mut client = stage.connect().await;
    client.asks("GET /large HTTP/1.1\r\n\r\n", &format!("HTTP/1.1 200 OK\r\ncontent-length: {LARGE}\r\n\r\n")).await;
    client.hears(&"a".repeat(LARGE)).await;
}

async fn an_answer_that_does_not_wait_for_the_request_is_passed_on(stage: Stage) {
    let mut client = stage.connect().await;
    client.asks("POST /refused HTTP/1.1\r\ncontent-length: 1000000\r\n\r\nhello", REFUSED).await;
    client.say("and more").await;
    client.is_closed_without_a_word().await;
    drop(client);
    stage.proxy.done(Fault::Pass, 1).await;
}

async fn a_protocol_that_is_switched_to_is_passed_on(stage: Stage) {
    let mut client = stage.connect().await;
    client.asks("GET /switched HTTP/1.1\r\nupgrade: echo\r\n\r\n", SWITCHED).await;
    client.asks("anything", "anything").await;
    client.asks("\r\n\r\n", "\r\n\r\n").await;
}

async fn a_client_that_goes_away_is_missed_by_the_server(mut stage: Stage) {
    let mut client = stage.connect().await;
    client.say("GET /unanswered HTTP/1.1\r\n\r\n").await;
    stage.server.notes("1: /unanswered ").await;
    drop(client);
    stage.server.notes("1: the client is gone").await;
}

async fn a_request_that_breaks_off_breaks_off_at_the_server(mut stage: Stage) {
    let mut client = stage.connect().await;
    client.say("POST /numbered HTTP/1.1\r\ncontent-length: 5\r\n\r\nhel").await;
    drop(client);
    stage.server.notes("1: /numbered hel").await;
}

//! Tests how a proxy gets its orders and its target.

use super::*;

on_both_wires! {
    faults_come_in_the_order_in_which_they_were_ordered,
    orders_can_be_taken_back,
    faults_drawn_at_random_befall_every_request,
    requests_follow_the_target_on_a_connection_that_stays,
    without_a_server_the_connection_is_closed,
    a_server_that_goes_away_is_missed_by_the_client,
}

async fn faults_come_in_the_order_in_which_they_were_ordered(stage: Stage) {
    stage.proxy.next(Fault::AnswerOk, 2);
    stage.proxy.next(Fault::DropRequest, 1);
    let mut client = stage.connect().await;
    client.say(ASK).await;
    stage.proxy.done(Fault::AnswerOk, 1).await;
    client.say(ASK).await;
    stage.proxy.done(Fault::AnswerOk, 2).await;
    client.say(ASK).await;
    stage.proxy.done(Fault::DropRequest, 1).await;
    stage.connect().await.asks(ASK, &numbered(1)).await;
}

async fn orders_can_be_taken_back(stage: Stage) {
    stage.proxy.next(Fault::DropRequest, 5);
    stage.proxy.at_random(7, [(1, Fault::DropRequest)]);
    stage.proxy.pass();
    stage.connect().await.asks(ASK, &numbered(1)).await;
    assert_eq!(stage.proxy.counts().of(Fault::DropRequest), 0);
}

async fn faults_drawn_at_random_befall_every_request(stage: Stage) {
    stage.proxy.at_random(7, [(1, Fault::Pass), (1, Fault::DropResponse)]);
    let mut answered = 0;
    for _ in 0..20 {
        let mut client = stage.connect().await;
        client.say(ASK).await;
        client.0.writes.shutdown().await.unwrap();
        let (heard, _) = client.hears_to_the_end().await;
        answered += u64::from(!heard.is_empty());
    }
    stage.proxy.done(Fault::Pass, answered).await;
    stage.proxy.done(Fault::DropResponse, 20 - answered).await;
    assert!((1..20).contains(&answered), "{answered}");
}

async fn requests_follow_the_target_on_a_connection_that_stays(stage: Stage) {
    let mut client = stage.connect().await;
    client.asks(ASK, &numbered(1)).await;
    for other in &mut [Server::tcp(), Server::unix()] {
        stage.proxy.set_target(other.address.clone());
        client.asks(ASK, &numbered(1)).await;
        other.notes("1: /numbered hello").await;
    }
}

async fn without_a_server_the_connection_is_closed(stage: Stage) {
    stage.proxy.set_target(nowhere());
    stage.proxy.next(Fault::DropResponse, 1);
    let mut client = stage.connect().await;
    client.say(ASK).await;
    client.is_closed_without_a_word().await;
    assert_eq!(stage.proxy.counts().of(Fault::DropResponse), 0, "no server has carried it out");
}

async fn a_server_that_goes_away_is_missed_by_the_client(stage: Stage) {
    let mut client = stage.connect().await;
    client.asks(ASK, &numbered(1)).await;
    drop(stage.server);
    client.is_closed_without_a_word().await;
}

#[tokio::test]
async fn a_proxy_says_where_it_is() {
    let tcp = FaultProxy::start(nowhere()).unwrap();
    let address = tcp.tcp_address().unwrap();
    assert!(address.ip().is_loopback());
    assert_eq!((tcp.url(), tcp.socket()), (format!("http://{address}"), None));

    let unix = FaultProxy::start_unix(address).unwrap();
    let socket = unix.socket().unwrap();
    assert_eq!((unix.url(), unix.tcp_address()), (format!("unix://{}", socket.display()), None));
}

#[tokio::test]
async fn proxies_on_different_wires_can_stand_one_behind_the_other() {
    let mut server = Server::unix();
    let behind = FaultProxy::start(server.address.clone()).unwrap();
    let before = FaultProxy::start_unix(behind.tcp_address().unwrap()).unwrap();
    Client::connect(&before).await.asks(ASK, &numbered(1)).await;
    server.notes("1: /numbered hello").await;
}

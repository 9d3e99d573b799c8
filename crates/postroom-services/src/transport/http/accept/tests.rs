use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

/// This is far longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

/// Serves one connection at a time while `asking` runs.
async fn with_room_for_one<F: Future<Output = ()>>(asking: impl FnOnce(SocketAddr) -> F) {
    let options = ListenOptions::default().connections(1).patience(Duration::from_millis(100));
    let listener = Listener::bind("http://127.0.0.1:0", options).await.unwrap();
    let address = listener.tcp_address().unwrap();
    let serving = listener.serve(Router::new().route("/", get(async || "hello")), std::future::pending());
    tokio::select! {
        () = serving => {}
        () = asking(address) => {}
    }
}

async fn hello(address: SocketAddr) -> String {
    let mut next = TcpStream::connect(address).await.unwrap();
    next.write_all(b"GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(LONG, next.read_to_string(&mut answer)).await.expect("there is room").unwrap();
    answer
}

#[tokio::test]
async fn who_does_not_ask_anything_makes_room_for_others() {
    let settings: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    let quiet = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", settings].concat();
    for said in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n", b"GET / HTT", &quiet] {
        with_room_for_one(|address| async move {
            let mut holder = TcpStream::connect(address).await.unwrap();
            holder.write_all(said).await.unwrap();
            assert!(hello(address).await.starts_with("HTTP/1.1 200 OK"), "{said:?}");
            drop(holder);
        })
        .await;
    }
}

#[tokio::test]
async fn a_connection_that_is_quiet_after_an_answer_is_closed() {
    with_room_for_one(|address| async move {
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (mut sender, mut connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        let request = Request::get(format!("http://{address}/")).body(Empty::<Bytes>::new()).unwrap();
        let answer = tokio::select! {
            answer = sender.send_request(request) => answer.unwrap(),
            _ = &mut connection => panic!("it is answered first"),
        };
        assert_eq!(answer.status(), 200);
        drop(answer);
        let _ = tokio::time::timeout(LONG, connection).await.expect("it is closed");
        drop(sender);
    })
    .await;
}

#[tokio::test]
async fn who_does_not_take_the_answer_makes_room_for_others() {
    with_room_for_one(|address| async move {
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let mut client = http2::Builder::new(TokioExecutor::new());
        let (mut sender, mut connection) = client.initial_stream_window_size(0).handshake(stream).await.unwrap();
        let request = Request::get(format!("http://{address}/")).body(Empty::<Bytes>::new()).unwrap();
        let answer = tokio::select! {
            answer = sender.send_request(request) => answer.unwrap(),
            _ = &mut connection => panic!("it is answered first"),
        };
        assert_eq!(answer.status(), 200);
        let _ = tokio::time::timeout(LONG, connection).await.expect("it is closed");
        assert!(hello(address).await.starts_with("HTTP/1.1 200 OK"));
        drop((sender, answer));
    })
    .await;
}

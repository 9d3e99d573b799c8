use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use futures_util::FutureExt;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::*;
use crate::receiver::{Hook, Receiver, ReceiverOptions};
use postroom_core::store::MemoryStore;
use postroom_core::work::handler::{Handlers, Memory};

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

#[tokio::test]
async fn an_address_has_so_many_connections_and_the_next_is_closed() {
    let options = ListenOptions::default().connections_per_address(2).patience(2 * LONG);
    let listener = Listener::bind("http://127.0.0.1:0", options).await.unwrap();
    let address = listener.tcp_address().unwrap();
    let serving = listener.serve(Router::new().route("/", get(async || "hello")), std::future::pending());
    let asking = async {
        let held = [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
        let mut third = TcpStream::connect(address).await.unwrap();
        let closed = tokio::time::timeout(LONG, third.read(&mut [0])).await.expect("it is closed at once");
        assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
        let elsewhere = from("127.0.0.2", address, "GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").await;
        assert!(answer_of(elsewhere).await.starts_with("HTTP/1.1 200 OK"), "another address has places of its own");
        drop(held);
    };
    tokio::select! {
        () = serving => {}
        () = asking => {}
    }
}

async fn from(here: &str, address: SocketAddr, said: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(here.parse().unwrap(), 0)).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(said.as_bytes()).await.unwrap();
    stream
}

async fn answer_of(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    tokio::time::timeout(LONG, stream.read_to_string(&mut answer)).await.expect("it is answered").unwrap();
    answer
}

#[tokio::test]
async fn bodies_that_nobody_signed_take_a_quarter_of_the_room_from_one_address() {
    const KIB: usize = 1024;
    let options = ReceiverOptions::default().hook(Hook::unsigned_cloud_events("broker"));
    let options = options.body_max(8 * KIB).unverified_max(32 * KIB);
    let receiver = Receiver::<Memory>::with("shop", MemoryStore::new(), Handlers::new(), [], options).unwrap();
    let listener = Listener::bind("http://127.0.0.1:0", ListenOptions::default()).await.unwrap();
    let address = listener.tcp_address().unwrap();
    let post = |bytes: usize| {
        let head = "POST /_rf/hooks/broker HTTP/1.1\r\nhost: here\r\nconnection: close";
        format!("{head}\r\ncontent-length: {}\r\n\r\n{}", 8 * KIB, "x".repeat(bytes))
    };
    let asking = async {
        // The last byte never comes, so this keeps its room.
        let held = from("127.0.0.1", address, &post(8 * KIB - 1)).await;
        loop {
            let again = answer_of(from("127.0.0.1", address, &post(8 * KIB)).await).await;
            // The first one may still be on its way.
            match again.split(' ').nth(1) {
                Some("503") => break assert!(again.contains("retry-after: 1\r\n"), "{again}"),
                status => assert_eq!(status, Some("400"), "{again}"),
            }
        }
        let other = answer_of(from("127.0.0.2", address, &post(8 * KIB)).await).await;
        assert!(other.starts_with("HTTP/1.1 400"), "it is read, and is no event: {other}");
        drop(held);
    };
    tokio::select! {
        () = receiver.serve(listener, std::future::pending()) => {}
        () = tokio::time::timeout(LONG, asking).map(|done| done.expect("one address is limited")) => {}
    }
}

/// Peers in other languages are written from the guide.
#[test]
fn the_guide_tells_the_limits_that_hold() {
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../guides/wire.md")).unwrap();
    let (listening, receiving) = (ListenOptions::default(), ReceiverOptions::default());
    for (what, limit) in [
        ("streams of an HTTP/2 connection", STREAMS_MAX.to_string()),
        ("connections of a listener", listening.connections.to_string()),
        ("connections of one address", listening.per_address().to_string()),
        ("HTTP headers of a request", HEADERS_MAX.to_string()),
        ("request line and headers", format!("{} KiB", HEAD_BYTES_MAX >> 10)),
        ("v1 and webhooks", format!("{} MiB", receiving.unverified_max >> 20)),
        ("messages that are handled at once", receiving.in_flight.to_string()),
    ] {
        let told = guide.lines().any(|line| line.contains(what) && line.contains(&format!("| {limit}")));
        assert!(told, "{what}: {limit}");
    }
}

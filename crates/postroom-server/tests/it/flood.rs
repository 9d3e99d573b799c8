//! A node under a flood of large unsigned requests.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::Bytes;
use axum::http::Request;
use hyper::body::{Body, Frame};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::desk::until;
use crate::hook::{Hook, said};
use crate::node::two;

const CONNECTIONS: usize = 100;
const STREAMS: usize = 256;
const MIB: usize = 1 << 20;
const SIGNED: usize = 10;
/// The flood is on when so many requests were asked to come back later.
const REFUSED: usize = 1000;

/// What the flood came to.
#[derive(Default)]
struct Tally {
    connections: AtomicUsize,
    refused: AtomicUsize,
    others: AtomicUsize,
}

/// Four mebibytes that never end.
struct Endless(usize);

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        const CHUNK: usize = 16 * 1024;
        if self.0 + CHUNK >= 4 * MIB {
            return Poll::Pending;
        }
        self.0 += CHUNK;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; CHUNK])))))
    }
}

/// Sends on as many streams of one connection as allowed, until all are answered or the connection breaks.
async fn flood(port: u16, tally: Arc<Tally>) {
    let stream = TokioIo::new(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tally.connections.fetch_add(1, Ordering::Relaxed);
    let mut streams = JoinSet::new();
    streams.spawn(async move { drop(connection.await) });
    for _ in 0..STREAMS {
        let (mut sender, tally) = (sender.clone(), tally.clone());
        let address = format!("http://127.0.0.1:{port}/_rf/hooks/theirs");
        let request = Request::post(address).body(Endless(0)).unwrap();
        streams.spawn(async move {
            sender.ready().await.unwrap();
            let is_refused = sender.send_request(request).await.is_ok_and(|response| response.status() == 503);
            let count = if is_refused { &tally.refused } else { &tally.others };
            count.fetch_add(1, Ordering::Relaxed);
        });
    }
    drop(sender);
    streams.join_all().await;
}

#[test]
fn a_flood_that_nobody_signed_takes_little_memory_and_no_place_of_others() {
    let hook = Hook::new(|_, _| said("200 OK", "", "{}"));
    let (orders, mut inventory) = two(&hook);
    inventory.more += "[hooks.theirs]\nscheme = \"github\"\nsecret = { file = \"old.key\" }\n";
    inventory.configure(&["old"]);
    let (_here, there) = (orders.start(), inventory.start());
    let signed = || {
        orders.desk.ok(&["send", "stock.reserve", "{}", "--to", "inventory"]);
        hook.next();
    };
    signed();
    let before = there.memory();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (mut floods, tally) = (JoinSet::new(), Arc::new(Tally::default()));
    for _ in 0..CONNECTIONS {
        floods.spawn_on(flood(inventory.port, tally.clone()), runtime.handle());
    }
    let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    let mut most = before;
    for _ in 0..SIGNED {
        signed();
        most = most.max(there.memory());
    }
    until("every connection is open, and requests find no room", || {
        most = most.max(there.memory());
        of(&tally.connections) == CONNECTIONS && of(&tally.refused) >= REFUSED
    });
    signed();
    let answered = format!("{} refused, {} others", of(&tally.refused), of(&tally.others));
    println!("{} KiB before, {} KiB more at most; {answered}", before / 1024, (most - before) / 1024);
    assert!(most - before < 64 * MIB, "it grew by {} MiB", (most - before) / MIB);
    runtime.shutdown_background();
}

//! Tests the proxy in front of a small server, on TCP and on Unix sockets.

mod connections;
mod faults;
mod orders;
mod passing;
mod server;

use std::{io, net::SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{side::Side, *};
use server::Server;

const ASK: &str = "POST /numbered HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello";

/// Each case becomes one test on TCP and one on Unix sockets.
macro_rules! on_both_wires {
    ($($case:ident),+ $(,)?) => {
        mod on_tcp {
            $(#[tokio::test]
            async fn $case() {
                super::$case(super::Stage::tcp()).await;
            })+
        }
        mod on_unix {
            $(#[tokio::test]
            async fn $case() {
                super::$case(super::Stage::unix()).await;
            })+
        }
    };
}
use on_both_wires;

/// A proxy in front of a server.
struct Stage {
    server: Server,
    proxy: FaultProxy,
}

impl Stage {
    fn tcp() -> Self {
        let server = Server::tcp();
        Self { proxy: FaultProxy::start(server.address.clone()).unwrap(), server }
    }

    fn unix() -> Self {
        let server = Server::unix();
        Self { proxy: FaultProxy::start_unix(server.address.clone()).unwrap(), server }
    }

    async fn connect(&self) -> Client {
        Client::connect(&self.proxy).await
    }
}

struct Client(Side);

impl Client {
    async fn connect(proxy: &FaultProxy) -> Self {
        Self(proxy.address().connect().await.unwrap())
    }

    async fn say(&mut self, words: &str) {
        self.0.writes.write_all(words.as_bytes()).await.unwrap();
    }

    async fn hears(&mut self, words: &str) {
        let mut heard = vec![0; words.len()];
        self.0.reads.read_exact(&mut heard).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&heard), words);
    }

    async fn asks(&mut self, request: &str, answer: &str) {
        self.say(request).await;
        self.hears(answer).await;
    }

    /// Reads everything up to the close, or to an error in its place.
    async fn hears_to_the_end(&mut self) -> (String, io::Result<()>) {
        let mut heard = Vec::new();
        let end = self.0.reads.read_to_end(&mut heard).await;
        (String::from_utf8(heard).unwrap(), end.map(drop))
    }

    /// Asserts that the connection is closed properly, and that nothing came before that.
    async fn is_closed_without_a_word(&mut self) {
        let (heard, end) = self.hears_to_the_end().await;
        assert_eq!(heard, "");
        end.unwrap();
    }

    /// Asserts that nothing comes, however often all other tasks get a turn.
    async fn hears_nothing(&mut self) {
        let turns = async {
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            byte = self.0.reads.read_u8() => panic!("{byte:?}"),
            () = turns => {}
        }
    }
}

/// Returns the server's answer to its first, second, … request.
fn numbered(number: usize) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nanswer {number}")
}

/// Returns an address where nobody listens.
fn nowhere() -> Target {
    Target::Tcp(SocketAddr::from(([127, 0, 0, 1], 1)))
}

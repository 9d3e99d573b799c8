//! A flood of large requests that nobody signed: it takes little memory, and nobody else's place.

use std::convert::Infallible;
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, Command};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame};
use hyper::client::conn::http2;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use postroom::{
    Clock, Hook, ListenOptions, Listener, ManualClock, Receiver, Source, Sqlite, SqliteOptions, WebhookScheme,
    WebhookSecret,
};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::case::{Verdict, cases};
use crate::harness::{Stage, eventually, soon};
use crate::peer::{self, Letter, Peer};
use crate::script::Script;
use crate::services::{TOPIC, asynchronous};
use crate::suite::large::memory_of;
use crate::suite::processes;

cases! { flood:
    sqlite requests_that_nobody_signed_take_little_memory_and_no_place_of_others [];
}

/// The part that a child plays here.
pub(super) const ROLE: &str = "flooded";

const CONNECTIONS: usize = 100;
const STREAMS: usize = 256;
const MIB: usize = 1 << 20;
const PAUSE: Duration = Duration::from_millis(100);

/// Receives at a hook and from a source, until it is killed.
pub(super) async fn play_part(path: &Path) -> Verdict {
    let store = SqliteOptions::new(path).deploy_schema(true).open().await?;
    let secret = WebhookSecret::parse("an example secret, long enough to be one")?;
    let options = postroom::ReceiverOptions::default().hook(Hook::new("theirs", WebhookScheme::github([secret])?));
    let handlers = asynchronous::<Sqlite>(&Script::succeed());
    let sources = [Source::new("orders", peer::key()?)];
    let receiver = Receiver::with("inventory", store, handlers, sources, options)?;
    let listener = Listener::bind("http://127.0.0.1:0", ListenOptions::default()).await?;
    let address = listener.tcp_address().context("no address")?.to_string();
    let (written, told) = (path.with_extension("new"), path.with_extension("address"));
    std::fs::write(&written, address)?;
    std::fs::rename(written, told)?;
    receiver.serve(listener, std::future::pending()).await;
    Ok(())
}

/// Killed when it is dropped.
struct Flooded(Child);

impl Drop for Flooded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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

/// Sends on one connection, on as many streams as it may, until all of them are answered or it is broken off.
async fn flood(address: String) -> anyhow::Result<()> {
    let stream = TokioIo::new(TcpStream::connect(&address).await?);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
    let mut streams = JoinSet::new();
    streams.spawn(async move { drop(connection.await) });
    for _ in 0..STREAMS {
        let mut sender = sender.clone();
        let request = Request::post(format!("http://{address}/_rf/hooks/theirs")).body(Endless(0))?;
        streams.spawn(async move {
            if sender.ready().await.is_ok() {
                let _ = sender.send_request(request).await;
            }
        });
    }
    drop(sender);
    streams.join_all().await;
    Ok(())
}

async fn signed(address: &str) -> anyhow::Result<u16> {
    let mut request = Peer::new(ManualClock::new(Clock::Database.now())).request(&Letter::new(TOPIC))?;
    let path = request.uri().path().to_owned();
    *request.uri_mut() = format!("http://{address}{path}").parse::<Uri>()?;
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let answer = client.request(request).await?;
    let status = answer.status().as_u16();
    answer.into_body().collect().await?;
    Ok(status)
}

async fn requests_that_nobody_signed_take_little_memory_and_no_place_of_others(stage: &Stage<Sqlite>) -> Verdict {
    let path = stage.place.path("flooded.db");
    let mut command = Command::new(std::env::current_exe()?);
    processes::as_child(&mut command, ROLE, &path);
    let child = Flooded(command.spawn()?);
    let told = path.with_extension("address");
    eventually("it listens", || async { Ok(told.exists()) }).await?;
    let address = std::fs::read_to_string(told)?;
    ensure!(signed(&address).await? == 200, "a signed message is taken");
    let before = memory_of(child.0.id())?;
    let mut floods = JoinSet::new();
    for _ in 0..CONNECTIONS {
        floods.spawn(flood(address.clone()));
    }
    let mut most = before;
    // What is refused ends soon; what was let in holds its place for as long as a body may take.
    for _ in 0..20 {
        ensure!(soon("a signed message", signed(&address)).await?? == 200, "a signed message goes through meanwhile");
        most = most.max(memory_of(child.0.id())?);
        tokio::time::sleep_until(Instant::now() + PAUSE).await; // tidy: time itself: a flood lasts a while
    }
    floods.abort_all();
    let grown = most.saturating_sub(before);
    ensure!(grown < 64 * MIB, "it grew by {} MiB", grown / MIB);
    ensure!(grown > 2 * MIB, "it grew by {} KiB only: nothing came in", grown / 1024);
    Ok(())
}

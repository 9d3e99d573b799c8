//! Tests the proxy in front of a server that sends back everything it gets.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    sync::mpsc,
};

use super::*;

const HELLO: &[u8] = b"\0\0\0\x09\0\x03\0\0\0";
const BEGIN: &[u8] = b"Q\0\0\0\x0aBEGIN\0";
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// A proxy in front of an echo server.
struct Stage {
    proxy: Proxy,
    /// The data that arrived at the server.
    arrived: mpsc::UnboundedReceiver<Vec<u8>>,
    _server: JoinSet<()>,
    _folder: TempDir,
}

impl Stage {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let (note, arrived) = mpsc::unbounded_channel();
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut echoes = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                echoes.spawn(echo(stream, note.clone()));
            }
        });
        let proxy = Proxy::start(&format!("postgres:///a?host={}", folder.path().display())).unwrap();
        Self { proxy, arrived, _server: server, _folder: folder }
    }

    async fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.proxy.socket).await.unwrap()
    }
}

async fn echo(mut stream: UnixStream, note: mpsc::UnboundedSender<Vec<u8>>) {
    let mut chunk = [0; 1024];
    while let Ok(length @ 1..) = stream.read(&mut chunk).await {
        note.send(chunk[..length].to_vec()).ok();
        if stream.write_all(&chunk[..length]).await.is_err() {
            return;
        }
    }
}

async fn say(client: &mut UnixStream, words: &[u8]) -> Vec<u8> {
    client.write_all(words).await.unwrap();
    let mut answer = vec![0; words.len()];
    client.read_exact(&mut answer).await.unwrap();
    answer
}

/// Returns whether the connection is closed, with nothing more to read.
async fn is_closed(client: &mut UnixStream) -> bool {
    client.read(&mut [0]).await.unwrap_or(0) == 0
}

#[tokio::test]
async fn what_is_said_is_passed_on_and_back() {
    let stage = Stage::open();
    let mut client = stage.connect().await;
    assert_eq!(say(&mut client, HELLO).await, HELLO);
    assert_eq!(say(&mut client, COMMIT).await, COMMIT);
    assert_eq!((stage.proxy.cuts(), stage.proxy.said()), (0, 2));
}

#[tokio::test]
async fn a_cut_commit_arrives_and_its_answer_does_not() {
    let mut stage = Stage::open();
    let (mut first, mut second) = (stage.connect().await, stage.connect().await);
    say(&mut first, HELLO).await;
    say(&mut second, HELLO).await;
    stage.proxy.cut_next_commits(1);
    say(&mut first, BEGIN).await;
    first.write_all(COMMIT).await.unwrap();
    assert!(is_closed(&mut first).await);
    stage.proxy.has_cut(1).await;
    assert_eq!(say(&mut second, COMMIT).await, COMMIT, "only the next one was to be cut");
    assert_eq!(stage.proxy.cuts(), 1);
    let mut arrived = Vec::new();
    for _ in 0..5 {
        arrived.push(stage.arrived.recv().await.unwrap());
    }
    assert_eq!(arrived, [HELLO, HELLO, BEGIN, COMMIT, COMMIT]);
}

#[tokio::test]
async fn a_lost_commit_never_arrives() {
    let mut stage = Stage::open();
    let mut client = stage.connect().await;
    say(&mut client, HELLO).await;
    stage.proxy.lose_next_commits(1);
    client.write_all(COMMIT).await.unwrap();
    assert!(is_closed(&mut client).await);
    stage.proxy.has_cut(1).await;
    let mut other = stage.connect().await;
    say(&mut other, HELLO).await;
    say(&mut other, COMMIT).await;
    let mut arrived = Vec::new();
    for _ in 0..3 {
        arrived.push(stage.arrived.recv().await.unwrap());
    }
    assert_eq!(arrived, [HELLO, HELLO, COMMIT], "only the second one got there");
}

#[tokio::test]
async fn only_the_commit_of_the_words_is_lost() {
    let stage = Stage::open();
    let (mut speaker, mut other) = (stage.connect().await, stage.connect().await);
    say(&mut speaker, HELLO).await;
    say(&mut other, HELLO).await;
    stage.proxy.lose_commit_of("BEGIN");
    say(&mut speaker, BEGIN).await;
    assert_eq!(say(&mut other, COMMIT).await, COMMIT);
    speaker.write_all(COMMIT).await.unwrap();
    assert!(is_closed(&mut speaker).await);
    say(&mut other, BEGIN).await;
    assert_eq!(say(&mut other, COMMIT).await, COMMIT, "once is enough");
}

#[tokio::test]
async fn a_stalled_connection_stays_open_and_goes_on_later() {
    let mut stage = Stage::open();
    let mut client = stage.connect().await;
    say(&mut client, HELLO).await;
    stage.arrived.recv().await.unwrap();
    stage.proxy.stall();
    client.write_all(BEGIN).await.unwrap();
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(stage.arrived.try_recv().is_err(), "it was passed on");
    stage.proxy.resume();
    assert_eq!(stage.arrived.recv().await.unwrap(), BEGIN);
}

#[tokio::test]
async fn refused_connections_leave_the_others_alone() {
    let stage = Stage::open();
    let mut early = stage.connect().await;
    say(&mut early, HELLO).await;
    stage.proxy.refuse().unwrap();
    assert!(UnixStream::connect(&stage.proxy.socket).await.is_err());
    assert_eq!(say(&mut early, BEGIN).await, BEGIN);
    stage.proxy.admit().unwrap();
    assert_eq!(say(&mut stage.connect().await, HELLO).await, HELLO);
}

#[tokio::test]
async fn all_connections_can_be_cut() {
    let stage = Stage::open();
    let mut early = stage.connect().await;
    say(&mut early, HELLO).await;
    stage.proxy.cut_all();
    assert!(is_closed(&mut early).await);
    assert_eq!(say(&mut stage.connect().await, HELLO).await, HELLO);
}

//! A server that records what it gets and answers by the path of a request.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::{AsyncBufReadExt, copy_buf},
    sync::mpsc,
};

use super::*;

/// This is more than fits between a server and a client that does not read.
pub(super) const LARGE: usize = 32 * 1024 * 1024;
pub(super) const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\nsum: a\r\n\r\n";
pub(super) const EMPTY: &str = "HTTP/1.1 204 No Content\r\n\r\n";
pub(super) const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n";
pub(super) const HINTED: &str =
    "HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
pub(super) const ENDLESS: &str = "HTTP/1.1 200 OK\r\n\r\nhello";
pub(super) const REFUSED: &str = "HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n";
pub(super) const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nupgrade: echo\r\n\r\n";

pub(super) struct Server {
    pub(super) address: Target,
    noted: mpsc::UnboundedReceiver<String>,
    _folder: Option<TempDir>,
    _accepting: JoinSet<()>,
}

impl Server {
    pub(super) fn tcp() -> Self {
        Self::start(Listener::tcp().unwrap(), None)
    }

    pub(super) fn unix() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::start(Listener::unix(&folder.path().join("server.sock")).unwrap(), Some(folder))
    }

    fn start(listener: Listener, folder: Option<TempDir>) -> Self {
        let address = listener.address().unwrap();
        let (note, noted) = mpsc::unbounded_channel();
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let (mut conversations, requests) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
            for connection in 1.. {
                let side = listener.accept().await.unwrap();
                let conversation = Conversation { side, connection, requests: requests.clone(), note: note.clone() };
                conversations.spawn(conversation.run());
            }
        });
        Self { address, noted, _folder: folder, _accepting: accepting }
    }

    /// Asserts what happened next: the number of the connection, and what came on it.
    pub(super) async fn notes(&mut self, what: &str) {
        assert_eq!(self.noted.recv().await.unwrap(), what);
    }
}

struct Conversation {
    side: Side,
    connection: usize,
    /// The number of requests on all connections.
    requests: Arc<AtomicUsize>,
    note: mpsc::UnboundedSender<String>,
}

impl Conversation {
    async fn run(mut self) -> io::Result<()> {
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if self.side.reads.read_line(&mut head).await? == 0 {
                    return Ok(());
                }
            }
            let path = head.split(' ').nth(1).unwrap().to_owned();
            let body = if path == "/refused" { String::new() } else { self.body(&head).await? };
            self.note(format!("{path} {body}"));
            let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
            match path.as_str() {
                "/numbered" => self.answer(&numbered(number)).await?,
                "/chunked" => self.answer(CHUNKED).await?,
                "/empty" => self.answer(EMPTY).await?,
                "/head" => self.answer(HEAD).await?,
                "/hinted" => self.answer(HINTED).await?,
                "/large" => {
                    self.answer(&format!("HTTP/1.1 200 OK\r\ncontent-length: {LARGE}\r\n\r\n")).await?;
                    self.answer(&"a".repeat(LARGE)).await?;
                    self.note("answered in full".into());
                }
                "/endless" => return self.answer(ENDLESS).await,
                "/refused" => return self.answer(REFUSED).await,
                "/unanswered" => {
                    self.side.reads.read_to_end(&mut Vec::new()).await?;
                    self.note("the client is gone".into());
                }
                "/switched" => {
                    self.answer(SWITCHED).await?;
                    return self.echo().await;
                }
                // This is the path in the first bytes of an HTTP/2 client.
                "*" => {
                    self.answer("settings").await?;
                    return self.echo().await;
                }
                _ => panic!("{path}"),
            }
        }
    }

    async fn body(&mut self, head: &str) -> io::Result<String> {
        let mut body = String::new();
        if head.contains("transfer-encoding: chunked") {
            while !body.ends_with("0\r\n\r\n") {
                self.side.reads.read_line(&mut body).await?;
            }
        } else if let Some((_, rest)) = head.split_once("content-length: ") {
            let length = rest.split_once("\r\n").unwrap().0.parse().unwrap();
            (&mut self.side.reads).take(length).read_to_string(&mut body).await?;
        }
        Ok(body)
    }

    fn note(&self, what: String) {
        self.note.send(format!("{}: {what}", self.connection)).ok();
    }

    async fn answer(&mut self, words: &str) -> io::Result<()> {
        self.side.writes.write_all(words.as_bytes()).await
    }

    async fn echo(mut self) -> io::Result<()> {
        copy_buf(&mut self.side.reads, &mut self.side.writes).await.map(drop)
    }
}

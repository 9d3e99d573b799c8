//! A handler in another language: a small web server that records its requests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

/// Far longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

/// A request.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// A web server on a free port.
pub(crate) struct Hook {
    port: u16,
    asked: Receiver<Asked>,
}

/// The answer to the n-th request; `None` leaves the client waiting.
type Answer = dyn Fn(usize, &Asked) -> Option<String> + Send + Sync;

impl Hook {
    pub(crate) fn new(answer: impl Fn(usize, &Asked) -> Option<String> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, asked) = mpsc::channel();
        let answer: Arc<Answer> = Arc::new(answer);
        std::thread::spawn(move || {
            for (nth, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                let (sender, answer) = (sender.clone(), answer.clone());
                std::thread::spawn(move || converse(stream, nth, &sender, answer.as_ref()));
            }
        });
        Self { port, asked }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/messages", self.port)
    }

    /// The next request.
    pub(crate) fn next(&self) -> Asked {
        self.asked.recv_timeout(LONG).unwrap()
    }
}

/// One request per connection, so that they can be counted.
fn converse(stream: TcpStream, nth: usize, sender: &Sender<Asked>, answer: &Answer) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        headers.insert(name.to_owned(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    let asked = Asked { line: line.trim_end().to_owned(), headers, body: String::from_utf8(body).ok()? };
    let said = answer(nth, &asked);
    let _ = sender.send(asked);
    match said {
        Some(said) => (&stream).write_all(said.as_bytes()).ok(),
        // Until the client gives up.
        None => reader.read(&mut [0]).ok().map(|_| ()),
    }
}

/// An answer, after which the connection closes.
pub(crate) fn said(status: &str, headers: &str, body: &str) -> Option<String> {
    let length = body.len();
    Some(format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"))
}

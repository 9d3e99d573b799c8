//! What stands in front of a service: it passes requests on, answers itself, or does not answer at all.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What it does with a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Manner {
    /// Passes it on to what listens at this address.
    PassOn(String),
    /// Says this: a whole HTTP response without its length.
    Say(String),
    /// Says nothing, and keeps the connection open.
    Hang,
}

impl Manner {
    /// An answer with this status line, these header lines and this body.
    pub fn say(status: &str, headers: &[&str], body: &str) -> Self {
        let mut head = format!("HTTP/1.1 {status}\r\n");
        headers.iter().for_each(|header| head.push_str(&format!("{header}\r\n")));
        Self::Say(format!("{head}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()))
    }
}

/// Something in front of a service, at its own address.
#[derive(Debug)]
pub struct Front {
    address: String,
    manner: Arc<watch::Sender<Manner>>,
    seen: Arc<Mutex<usize>>,
    _accepting: JoinSet<()>,
}

impl Front {
    /// Listens at a free port.
    pub async fn start(manner: Manner) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}", listener.local_addr()?);
        let (manner, seen) = (Arc::new(watch::Sender::new(manner)), Arc::<Mutex<usize>>::default());
        let mut accepting = JoinSet::new();
        let (told, counted) = (manner.clone(), seen.clone());
        accepting.spawn(async move {
            let mut conversations = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                *counted.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                conversations.spawn(converse(stream, told.subscribe()));
            }
        });
        Ok(Self { address, manner, seen, _accepting: accepting })
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.address
    }

    /// From now on like this; connections that hang are closed.
    pub fn set(&self, manner: Manner) {
        self.manner.send_replace(manner);
    }

    /// How many connections it has seen.
    pub fn seen(&self) -> usize {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn converse(mut stream: TcpStream, mut told: watch::Receiver<Manner>) -> anyhow::Result<()> {
    let manner = told.borrow_and_update().clone();
    match manner {
        Manner::PassOn(address) => {
            let mut there = TcpStream::connect(address.trim_start_matches("http://")).await?;
            copy_bidirectional(&mut stream, &mut there).await?;
        }
        Manner::Say(answer) => {
            read_request(&mut stream).await?;
            stream.write_all(answer.as_bytes()).await?;
            stream.shutdown().await?;
        }
        Manner::Hang => told.changed().await?,
    }
    Ok(())
}

/// Reads a request to its end: who answers before that resets the connection.
async fn read_request(stream: &mut TcpStream) -> anyhow::Result<()> {
    let mut read = Vec::new();
    loop {
        let mut more = [0; 4096];
        let count = stream.read(&mut more).await?;
        read.extend_from_slice(&more[..count]);
        let head_ends = read.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(at) = head_ends {
            let head = String::from_utf8_lossy(&read[..at]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.context("no length")?.trim().parse()?;
            if read.len() >= at + 4 + length {
                return Ok(());
            }
        }
        anyhow::ensure!(count > 0, "the request has no end");
    }
}

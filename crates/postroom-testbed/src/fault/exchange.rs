//! One request and its answer.

use std::{io, pin::pin};

use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::{
    body::{self, Framing},
    head::{self, Opening, Request},
    side::{self, Reads, Side},
};

/// An answer that was forwarded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) framing: Framing,
    /// The body began after this many bytes.
    pub(super) body_at: usize,
}

/// Forwards a request and its answer as they come. It also returns whether the client sent its whole request.
pub(super) async fn pass(
    head: &[u8],
    request: Request,
    client: &mut Side,
    server: &mut Side,
) -> io::Result<(Answer, bool)> {
    let mut is_sent = false;
    let answering = answer(&mut server.reads, request, &mut client.writes);
    let sending = async {
        let sent = async {
            server.writes.write_all(head).await?;
            body::transfer(&mut client.reads, request.framing, &mut server.writes).await
        };
        is_sent = sent.await.is_ok();
        // If the client goes away, the server notices it, as if there were no proxy.
        if !is_sent || side::ends(&mut client.reads).await {
            let _ = server.writes.shutdown().await;
        }
    };
    let answer = while_doing(sending, answering).await?;
    Ok((answer, is_sent))
}

/// Sends a whole request and forwards its answer.
pub(super) async fn deliver(
    whole: &[u8],
    request: Request,
    server: &mut Side,
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<Answer> {
    let Side { reads, writes } = server;
    while_doing(writes.write_all(whole), answer(reads, request, to)).await
}

/// Waits for the second future, and drives the first one meanwhile. The result of the first shows in the second: a
/// server may refuse a request before all of it has arrived, and close.
pub(super) async fn while_doing<T>(first: impl Future, second: impl Future<Output = T>) -> T {
    let mut second = pin!(second);
    tokio::select! {
        biased;
        _ = first => second.await,
        done = &mut second => done,
    }
}

async fn answer(from: &mut Reads, request: Request, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<Answer> {
    let mut body_at = 0;
    loop {
        let opening = head::read(from, |bytes| head::response(request, bytes)).await?;
        let Opening::Head(head, response) = opening else { return Err(io::ErrorKind::InvalidData.into()) };
        to.write_all(&head).await?;
        body_at += head.len();
        if !response.is_interim {
            body::transfer(from, response.framing, to).await?;
            return Ok(Answer { framing: response.framing, body_at });
        }
    }
}

//! Applies a fault to one request.

use std::io;

use tokio::io::{AsyncWriteExt, copy_buf, sink};

use super::{
    body::{self, Framing},
    exchange::{self, Answer},
    head::Request,
    kind::Fault,
    link::{Link, Then},
    target::Target,
};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 47\r\n\r\n\
    {\"acknowledged\":true,\"duplicateDetected\":false}";

impl Link<'_> {
    pub(super) async fn serve(&mut self, fault: Fault, mut head: Vec<u8>, request: Request) -> io::Result<Then> {
        if fault == Fault::Pass {
            return self.pass(&head, request).await;
        }
        // Once the whole request is here, neither a close nor a client that gives up can cut it short.
        body::transfer(&mut self.client.reads, request.framing, &mut head).await?;
        self.befall(fault, &head, request).await
    }

    async fn pass(&mut self, head: &[u8], request: Request) -> io::Result<Then> {
        let target = self.target();
        let server = self.backend.reach(target).await?;
        let (answer, is_sent) = exchange::pass(head, request, &mut self.client, server).await?;
        if is_sent {
            return Ok(after(answer));
        }
        // Closing while the client is still sending would destroy the answer.
        self.client.writes.shutdown().await?;
        copy_buf(&mut self.client.reads, &mut sink()).await?;
        Ok(Then::Close)
    }

    async fn befall(&mut self, fault: Fault, whole: &[u8], request: Request) -> io::Result<Then> {
        match fault {
            Fault::Pass | Fault::Delay(_) => {
                fault.pause().await;
                let (bytes, answer) = self.ask(whole, request).await?;
                Ok(self.tell(&bytes, after(answer)).await)
            }
            Fault::DropRequest => Ok(Then::Close),
            Fault::HalfOpen => Ok(Then::Hold),
            Fault::DropResponse => {
                self.ask(whole, request).await?;
                Ok(Then::Close)
            }
            Fault::Truncate | Fault::Reset => {
                let (bytes, answer) = self.ask(whole, request).await?;
                let then = if fault == Fault::Reset { Then::Reset } else { Then::Close };
                Ok(self.tell(part(&bytes, answer), then).await)
            }
            Fault::Duplicate => {
                let (bytes, answer) = self.ask(whole, request).await?;
                let again = self.ask_again(whole, request).await;
                let then = self.tell(&bytes, after(answer)).await;
                // If the second request did not arrive, the first one still gets its answer.
                again.map(|()| then)
            }
            Fault::AnswerOk => Ok(self.tell(OK, Then::KeepOpen).await),
        }
    }

    /// Sends a request to the server and reads its answer.
    async fn ask(&mut self, whole: &[u8], request: Request) -> io::Result<(Vec<u8>, Answer)> {
        let target = self.target();
        let server = self.backend.reach(target).await?;
        let mut bytes = Vec::new();
        let answer = exchange::deliver(whole, request, server, &mut bytes).await?;
        Ok((bytes, answer))
    }

    /// Sends the request again, on its own connection.
    async fn ask_again(&self, whole: &[u8], request: Request) -> io::Result<()> {
        let mut server = self.target().connect().await?;
        exchange::deliver(whole, request, &mut server, &mut sink()).await.map(drop)
    }

    /// Sends bytes to the client. The fault counts as completed even if the client is gone.
    async fn tell(&mut self, bytes: &[u8], then: Then) -> Then {
        let told = self.client.writes.write_all(bytes).await;
        told.map_or(Then::Close, |()| then)
    }

    fn target(&self) -> Target {
        self.orders.borrow().target.clone()
    }
}

fn after(answer: Answer) -> Then {
    match answer.framing {
        Framing::Empty | Framing::Length(_) | Framing::Chunked => Then::KeepOpen,
        Framing::UntilClose => Then::Close,
        Framing::Switched => Then::Switch,
    }
}

/// Returns a part of an answer that cannot be mistaken for all of it.
fn part(bytes: &[u8], answer: Answer) -> &[u8] {
    let length = match answer.framing {
        Framing::Length(1..) | Framing::Chunked => answer.body_at.midpoint(bytes.len()),
        Framing::Length(0) | Framing::Empty | Framing::UntilClose | Framing::Switched => answer.body_at / 2,
    };
    &bytes[..length]
}

//! A connection that does not speak HTTP/1: its bytes are forwarded, and a fault affects all of it.

use std::io;

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt},
    sync::watch,
};

use super::{
    exchange,
    kind::Fault,
    link,
    orders::{self, Orders},
    side::{self, Side},
};

/// Takes over the connection, beginning with the client's first bytes.
pub(super) async fn run(client: Side, first: &[u8], orders: &watch::Sender<Orders>) -> io::Result<()> {
    let fault = orders::choose(orders);
    match fault {
        Fault::DropRequest => drop(client),
        Fault::HalfOpen => return link::hold(client, fault, orders).await,
        Fault::Pass | Fault::Delay(_) => {
            fault.pause().await;
            let server = connect(first, orders).await?;
            // Such a connection may stay open forever, so the order is complete when it begins.
            orders::count(orders, fault);
            return side::both_ways(client, server).await;
        }
        Fault::Reset => until_answered(client, first, orders).await?.reset()?,
        Fault::DropResponse | Fault::Truncate | Fault::Duplicate | Fault::AnswerOk => {
            drop(until_answered(client, first, orders).await?);
        }
    }
    orders::count(orders, fault);
    Ok(())
}

async fn connect(first: &[u8], orders: &watch::Sender<Orders>) -> io::Result<Side> {
    let target = orders.borrow().target.clone();
    let mut server = target.connect().await?;
    server.writes.write_all(first).await?;
    Ok(server)
}

/// Forwards what the client sends until the server sends something.
async fn until_answered(mut client: Side, first: &[u8], orders: &watch::Sender<Orders>) -> io::Result<Side> {
    let mut server = connect(first, orders).await?;
    let sending = side::one_way(&mut client.reads, &mut server.writes);
    let answer = exchange::while_doing(sending, server.reads.fill_buf()).await?;
    if answer.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(client) }
}

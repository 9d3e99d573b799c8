//! One client's connection through the proxy.

use std::io;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::watch,
};

use super::{
    address::{Stream, Wire},
    commit::Watch,
    orders::{self, Cut, Orders},
};

const CHUNK: usize = 16 * 1024;

/// Forwards everything until either side closes or the connection is cut.
pub(super) async fn run(
    mut client: Box<dyn Stream>,
    mut server: Box<dyn Stream>,
    wire: Wire,
    orders: &watch::Sender<Orders>,
) {
    let born = orders.borrow().generation;
    let last = {
        let (client_reads, client_writes) = tokio::io::split(&mut client);
        let (server_reads, server_writes) = tokio::io::split(&mut server);
        tokio::select! {
            last = requests(client_reads, server_writes, wire, orders) => last,
            _ = answers(server_reads, client_writes, orders) => return,
            () = orders::hold(orders, |orders| orders.generation != born) => return,
        }
    };
    // Nobody reads answers any more, so the first one belongs to the COMMIT.
    if let Ok(Some((mut commit, cut))) = last {
        if cut == Cut::Answer && server.write_all(&commit).await.is_ok() {
            let _ = server.read(&mut commit).await;
        }
        drop((client, server));
        orders.send_modify(|orders| orders.cuts += 1);
    }
}

/// Ends with the bytes of a COMMIT that is to be cut, which are not forwarded yet.
async fn requests(
    mut client: impl AsyncRead + Unpin,
    mut server: impl AsyncWrite + Unpin,
    wire: Wire,
    orders: &watch::Sender<Orders>,
) -> io::Result<Option<(Vec<u8>, Cut)>> {
    let mut watch = Watch::new(wire);
    let mut marked = None;
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = client.read(&mut chunk).await?;
        if length == 0 {
            return Ok(None);
        }
        orders.send_modify(|orders| orders.said += 1);
        orders::hold(orders, |orders| !orders.stalled).await;
        marked = marked.or_else(|| orders::take_mark(orders, &chunk[..length]));
        if watch.sees_commit(&chunk[..length])
            && let Some(cut) = marked.or_else(|| orders::take_cut(orders))
        {
            chunk.truncate(length);
            return Ok(Some((chunk, cut)));
        }
        server.write_all(&chunk[..length]).await?;
    }
}

async fn answers(
    mut server: impl AsyncRead + Unpin,
    mut client: impl AsyncWrite + Unpin,
    orders: &watch::Sender<Orders>,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = server.read(&mut chunk).await?;
        if length == 0 {
            return Ok(());
        }
        orders::hold(orders, |orders| !orders.stalled).await;
        client.write_all(&chunk[..length]).await?;
    }
}

//! A proxy between clients and a server that breaks their connections on demand.

mod address;
mod commit;
mod link;
mod orders;

use std::{fs, path::PathBuf, sync::Arc};

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::{sync::watch, task::JoinSet};

use address::{Address, Door, Wire};
use orders::{Cut, Orders};

/// Stands in front of a server's Unix socket, with a socket of its own, or in front of SQL Server's port, and passes on
/// what it gets until it is told to do otherwise. What it is told holds for all its connections: a client that
/// shall be spared gets a proxy of its own.
///
/// Dropped, it closes every connection.
#[derive(Debug)]
pub struct Proxy {
    orders: Arc<watch::Sender<Orders>>,
    url: String,
    wire: Wire,
    socket: PathBuf,
    folder: TempDir,
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// Stands in front of the server with this URL, which must lead to a Unix socket, or to a port of SQL Server. Needs
    /// a tokio runtime around it.
    pub fn start(url: &str) -> Result<Self> {
        let server = Address::parse(url)?;
        let folder = tempfile::Builder::new().prefix("pr-").tempdir().context("no temporary folder")?;
        let (own, door) = server.moved_to(folder.path())?;
        let orders = Arc::new(watch::Sender::new(Orders::default()));
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(door, server, orders.clone()));
        Ok(Self { orders, url: own.url(), wire: own.wire(), socket: own.socket(), folder, _accepting: accepting })
    }

    /// The server's URL with the proxy's socket in it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Cuts the connections of the next `count` COMMITs: each is passed on and carried out, but its answer never
    /// arrives. Only a COMMIT that is sent as a statement of its own counts.
    pub fn cut_next_commits(&self, count: u64) {
        self.orders.send_modify(|orders| orders.commits_to_cut = count);
    }

    /// Cuts the connections of the next `count` COMMITs before they get to the server: they are never carried out.
    pub fn lose_next_commits(&self, count: u64) {
        self.orders.send_modify(|orders| orders.commits_to_lose = count);
    }

    /// Cuts the connection of the COMMIT that ends the transaction in which these words are said from now on: it is
    /// carried out, but its answer never arrives.
    pub fn cut_commit_of(&self, words: &str) {
        self.orders.send_modify(|orders| orders.marked = Some((self.said_as(words), Cut::Answer)));
    }

    /// Cuts the connection of the COMMIT that ends the transaction in which these words are said from now on before it
    /// gets to the server: it is never carried out.
    pub fn lose_commit_of(&self, words: &str) {
        self.orders.send_modify(|orders| orders.marked = Some((self.said_as(words), Cut::Request)));
    }

    /// SQL Server's characters have 16 bits.
    fn said_as(&self, words: &str) -> Vec<u8> {
        match self.wire {
            Wire::Tds => words.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Wire::Postgres | Wire::MySql => words.into(),
        }
    }

    /// How many connections were cut at a COMMIT.
    pub fn cuts(&self) -> u64 {
        self.orders.borrow().cuts
    }

    /// How often clients have said something to the server: nothing is asked or changed without it.
    pub fn said(&self) -> u64 {
        self.orders.borrow().said
    }

    /// Waits until so many connections were cut at a COMMIT. What they committed is in the database by then.
    pub async fn has_cut(&self, count: u64) {
        orders::hold(&self.orders, |orders| orders.cuts >= count).await;
    }

    /// Closes every connection. New ones are let in.
    pub fn cut_all(&self) {
        self.orders.send_modify(|orders| orders.generation += 1);
    }

    /// Passes nothing on from now, in either direction, and keeps all connections open.
    pub fn stall(&self) {
        self.orders.send_modify(|orders| orders.stalled = true);
    }

    /// Passes on what was held back, and all that follows.
    pub fn resume(&self) {
        self.orders.send_modify(|orders| orders.stalled = false);
    }

    /// Lets no new connection in, as a server that is down: there is no socket. Those that exist stay.
    pub fn refuse(&self) -> Result<()> {
        if self.wire == Wire::Tds {
            self.orders.send_modify(|orders| orders.refusing = true);
            return Ok(());
        }
        fs::rename(&self.socket, self.folder.path().join("refused")).context("it refuses already")
    }

    /// Lets new connections in again.
    pub fn admit(&self) -> Result<()> {
        if self.wire == Wire::Tds {
            self.orders.send_modify(|orders| orders.refusing = false);
            return Ok(());
        }
        fs::rename(self.folder.path().join("refused"), &self.socket).context("it does not refuse")
    }
}

async fn accept(door: Door, server: Address, orders: Arc<watch::Sender<Orders>>) {
    let mut links = JoinSet::new();
    let server = Arc::new(server);
    while let Ok(client) = door.accept().await {
        if orders.borrow().refusing {
            continue;
        }
        let (address, orders) = (server.clone(), orders.clone());
        links.spawn(async move {
            if let Ok(server) = address.connect().await {
                link::run(client, server, address.wire(), &orders).await;
            }
        });
        while links.try_join_next().is_some() {}
    }
}

#[cfg(test)]
mod tests;

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

/// A proxy in front of a server's Unix socket, with its own socket, or in front of SQL Server's port. It forwards
/// everything until it gets other orders, which apply to all its connections: a client that must not be affected
/// needs another proxy.
///
/// When the proxy is dropped, it closes every connection.
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
    /// Starts a proxy in front of the server with this URL, which must lead to a Unix socket, or to a port of SQL
    /// Server. It must run inside a tokio runtime.
    pub fn start(url: &str) -> Result<Self> {
        let server = Address::parse(url)?;
        let folder = tempfile::Builder::new().prefix("pr-").tempdir().context("no temporary folder")?;
        let (own, door) = server.moved_to(folder.path())?;
        let orders = Arc::new(watch::Sender::new(Orders::default()));
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(door, server, orders.clone()));
        Ok(Self { orders, url: own.url(), wire: own.wire(), socket: own.socket(), folder, _accepting: accepting })
    }

    /// Returns the server's URL with the proxy's socket in it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Cuts the connections of the next `count` COMMITs: each is forwarded and executed, but its answer never
    /// arrives. Only a COMMIT that is sent as its own statement counts.
    pub fn cut_next_commits(&self, count: u64) {
        self.orders.send_modify(|orders| orders.commits_to_cut = count);
    }

    /// Cuts the connections of the next `count` COMMITs before they reach the server, so they are never executed.
    pub fn lose_next_commits(&self, count: u64) {
        self.orders.send_modify(|orders| orders.commits_to_lose = count);
    }

    /// Cuts the connection of one COMMIT: of the next transaction that contains these words. The COMMIT is executed,
    /// but its answer never arrives.
    pub fn cut_commit_of(&self, words: &str) {
        self.orders.send_modify(|orders| orders.marked = Some((self.said_as(words), Cut::Answer)));
    }

    /// Cuts the connection of one COMMIT before it reaches the server: of the next transaction that contains these
    /// words. The COMMIT is never executed.
    pub fn lose_commit_of(&self, words: &str) {
        self.orders.send_modify(|orders| orders.marked = Some((self.said_as(words), Cut::Request)));
    }

    /// Encodes the words as the client sends them: characters of SQL Server have 16 bits.
    fn said_as(&self, words: &str) -> Vec<u8> {
        match self.wire {
            Wire::Tds => words.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Wire::Postgres | Wire::MySql => words.into(),
        }
    }

    /// Returns how many connections were cut at a COMMIT.
    pub fn cuts(&self) -> u64 {
        self.orders.borrow().cuts
    }

    /// Returns how often clients have sent something to the server: without that, nothing is read or changed.
    pub fn said(&self) -> u64 {
        self.orders.borrow().said
    }

    /// Waits until this many connections were cut at a COMMIT. What they committed is in the database by then.
    pub async fn has_cut(&self, count: u64) {
        orders::hold(&self.orders, |orders| orders.cuts >= count).await;
    }

    /// Closes every connection. New ones are accepted.
    pub fn cut_all(&self) {
        self.orders.send_modify(|orders| orders.generation += 1);
    }

    /// Forwards nothing from now on, in either direction, and keeps all connections open.
    pub fn stall(&self) {
        self.orders.send_modify(|orders| orders.stalled = true);
    }

    /// Forwards what was held back, and everything that follows.
    pub fn resume(&self) {
        self.orders.send_modify(|orders| orders.stalled = false);
    }

    /// Accepts no new connections, like a server that is down: there is no socket. Existing connections stay.
    pub fn refuse(&self) -> Result<()> {
        if self.wire == Wire::Tds {
            self.orders.send_modify(|orders| orders.refusing = true);
            return Ok(());
        }
        fs::rename(&self.socket, self.folder.path().join("refused")).context("it refuses already")
    }

    /// Accepts new connections again.
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

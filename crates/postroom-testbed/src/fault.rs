//! A proxy on the wire between two services that loses, doubles, delays and breaks requests on demand.

mod backend;
mod body;
mod exchange;
mod head;
mod kind;
mod link;
mod listener;
mod mix;
mod opaque;
mod orders;
mod request;
mod side;
mod target;

use std::{net::SocketAddr, path::Path, sync::Arc};

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::{sync::watch, task::JoinSet};

pub use kind::{Counts, Fault};
use listener::Listener;
use mix::Mix;
use orders::Orders;
pub use target::Target;

/// Stands between a client and a server, each on TCP or on a Unix socket, and passes on what it gets until it is told
/// to do otherwise. What it is told holds for all its connections.
///
/// On HTTP/1 a fault befalls one request. Anything else, such as HTTP/2, is passed on as bytes, provided that the
/// client speaks first; there a fault befalls a whole connection, as [`Fault`] says. A client that waits for
/// `100 Continue` before it sends the rest gets that only while its request is passed on without a fault.
///
/// Where the server cannot be reached, the client's connection is closed. Dropped, it closes every connection.
#[derive(Debug)]
pub struct FaultProxy {
    orders: Arc<watch::Sender<Orders>>,
    address: Target,
    /// Where its own Unix socket is.
    _folder: Option<TempDir>,
    _accepting: JoinSet<()>,
}

impl FaultProxy {
    /// Listens at a free port of 127.0.0.1. Needs a tokio runtime around it.
    pub fn start(target: impl Into<Target>) -> Result<Self> {
        let listener = Listener::tcp().context("cannot listen at 127.0.0.1")?;
        Self::listen(listener, target.into(), None)
    }

    /// Listens at a Unix socket in a folder of its own. Needs a tokio runtime around it.
    pub fn start_unix(target: impl Into<Target>) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("pr-").tempdir().context("no temporary folder")?;
        let socket = folder.path().join("fault.sock");
        let listener = Listener::unix(&socket).with_context(|| format!("cannot listen at {}", socket.display()))?;
        Self::listen(listener, target.into(), Some(folder))
    }

    fn listen(listener: Listener, target: Target, folder: Option<TempDir>) -> Result<Self> {
        let address = listener.address().context("the listener has no address")?;
        let orders = Arc::new(watch::Sender::new(Orders::new(target)));
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, orders.clone()));
        Ok(Self { orders, address, _folder: folder, _accepting: accepting })
    }

    /// Where clients reach it.
    pub fn address(&self) -> &Target {
        &self.address
    }

    /// Where clients reach it, if that is on TCP.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match &self.address {
            Target::Tcp(address) => Some(*address),
            Target::Unix(_) => None,
        }
    }

    /// Where clients reach it, if that is a Unix socket.
    pub fn socket(&self) -> Option<&Path> {
        match &self.address {
            Target::Tcp(_) => None,
            Target::Unix(socket) => Some(socket),
        }
    }

    /// Where clients reach it: `http://127.0.0.1:…` or `unix:///…`.
    pub fn url(&self) -> String {
        self.address.url()
    }

    /// Sends the requests that come from now on to another server, also those of clients that stay connected.
    pub fn set_target(&self, target: impl Into<Target>) {
        let target = target.into();
        self.orders.send_modify(|orders| orders.target = target);
    }

    /// Has this befall the next `count` requests, after those that were ordered before and are still to come.
    pub fn next(&self, fault: Fault, count: u64) {
        self.orders.send_modify(|orders| orders.ordered.push_back((fault, count)));
    }

    /// Draws what befalls each request, after those that were ordered: a fault with twice the weight comes twice as
    /// often. The same seed draws the same faults in the same order.
    pub fn at_random(&self, seed: u64, weighted: impl Into<Vec<(u32, Fault)>>) {
        let mix = Mix::new(seed, weighted.into());
        self.orders.send_modify(|orders| orders.mix = Some(mix));
    }

    /// Forgets every order: requests that come from now on are passed on.
    pub fn pass(&self) {
        self.orders.send_modify(|orders| {
            orders.ordered.clear();
            orders.mix = None;
        });
    }

    /// Closes the connections that [`Fault::HalfOpen`] holds open.
    pub fn let_go(&self) {
        self.orders.send_modify(|orders| orders.generation += 1);
    }

    /// How often each fault was carried out to its end. One that needed a server and found none is spent, but not
    /// counted. A client may have its answer a moment before that is counted: wait for it with [`done`](Self::done).
    pub fn counts(&self) -> Counts {
        self.orders.borrow().counts.clone()
    }

    /// Waits until this fault, whatever its delay, was carried out so many times since the proxy was started.
    pub async fn done(&self, fault: Fault, count: u64) {
        orders::hold(&self.orders, |orders| orders.counts.of(fault) >= count).await;
    }
}

async fn accept(listener: Listener, orders: Arc<watch::Sender<Orders>>) {
    let mut links = JoinSet::new();
    while let Ok(client) = listener.accept().await {
        let orders = orders.clone();
        // An error is a connection that broke, and both its ends are told by closing them.
        links.spawn(async move { link::run(client, &orders).await.ok() });
        while links.try_join_next().is_some() {}
    }
}

#[cfg(test)]
mod tests;

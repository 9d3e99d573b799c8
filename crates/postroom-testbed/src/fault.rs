//! A proxy on the wire between two services that loses, duplicates, delays and breaks requests on demand.

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

/// A proxy between a client and a server, each on TCP or on a Unix socket. It forwards everything until it gets other
/// orders, which apply to all its connections.
///
/// On HTTP/1 a fault affects one request. Anything else, such as HTTP/2, is forwarded as bytes, provided that the
/// client speaks first; there a fault affects a whole connection, as [`Fault`] describes. A client that waits for
/// `100 Continue` before it sends the rest gets it only if its request is forwarded without a fault.
///
/// If the server cannot be reached, the client's connection is closed. When the proxy is dropped, it closes every
/// connection.
#[derive(Debug)]
pub struct FaultProxy {
    orders: Arc<watch::Sender<Orders>>,
    address: Target,
    /// The folder of its own Unix socket.
    _folder: Option<TempDir>,
    _accepting: JoinSet<()>,
}

impl FaultProxy {
    /// Listens on a free port of 127.0.0.1. It must run inside a tokio runtime.
    pub fn start(target: impl Into<Target>) -> Result<Self> {
        let listener = Listener::tcp().context("cannot listen at 127.0.0.1")?;
        Self::listen(listener, target.into(), None)
    }

    /// Listens on a Unix socket in its own folder. It must run inside a tokio runtime.
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

    /// Returns the address for clients.
    pub fn address(&self) -> &Target {
        &self.address
    }

    /// Returns the address for clients, if it is on TCP.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match &self.address {
            Target::Tcp(address) => Some(*address),
            Target::Unix(_) => None,
        }
    }

    /// Returns the address for clients, if it is a Unix socket.
    pub fn socket(&self) -> Option<&Path> {
        match &self.address {
            Target::Tcp(_) => None,
            Target::Unix(socket) => Some(socket),
        }
    }

    /// Returns the URL for clients: `http://127.0.0.1:…` or `unix:///…`.
    pub fn url(&self) -> String {
        self.address.url()
    }

    /// Sends all new requests to another server, even those of clients that stay connected.
    pub fn set_target(&self, target: impl Into<Target>) {
        let target = target.into();
        self.orders.send_modify(|orders| orders.target = target);
    }

    /// Orders this fault for the next `count` requests, after all earlier orders.
    pub fn next(&self, fault: Fault, count: u64) {
        self.orders.send_modify(|orders| orders.ordered.push_back((fault, count)));
    }

    /// Draws the fault of each request at random, after all earlier orders: a fault with twice the weight comes twice
    /// as often. The same seed draws the same faults in the same order.
    pub fn at_random(&self, seed: u64, weighted: impl Into<Vec<(u32, Fault)>>) {
        let mix = Mix::new(seed, weighted.into());
        self.orders.send_modify(|orders| orders.mix = Some(mix));
    }

    /// Forgets every order, so that new requests are forwarded.
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

    /// Returns how often each fault was completed. A fault that needed a server and found none is used up, but not
    /// counted. A client may have its answer a moment before the fault is counted: wait for that with
    /// [`done`](Self::done).
    pub fn counts(&self) -> Counts {
        self.orders.borrow().counts.clone()
    }

    /// Waits until this fault, whatever its delay, was completed this many times since the proxy was started.
    pub async fn done(&self, fault: Fault, count: u64) {
        orders::hold(&self.orders, |orders| orders.counts.of(fault) >= count).await;
    }
}

async fn accept(listener: Listener, orders: Arc<watch::Sender<Orders>>) {
    let mut links = JoinSet::new();
    while let Ok(client) = listener.accept().await {
        let orders = orders.clone();
        // An error means that a connection broke; closing it tells both ends.
        links.spawn(async move { link::run(client, &orders).await.ok() });
        while links.try_join_next().is_some() {}
    }
}

#[cfg(test)]
mod tests;

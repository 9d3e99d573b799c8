//! One client's connection through the proxy.

use std::io;

use tokio::{
    io::{copy_buf, sink},
    sync::watch,
};

use super::{
    backend::Backend,
    head::{self, Opening},
    kind::Fault,
    opaque,
    orders::{self, Orders},
    side::{self, Side},
};

pub(super) struct Link<'a> {
    pub(super) client: Side,
    pub(super) backend: Backend,
    pub(super) orders: &'a watch::Sender<Orders>,
}

/// What happens to a client's connection after a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    KeepOpen,
    Close,
    Reset,
    /// It stays open, and nothing more is sent.
    Hold,
    /// From now on it speaks another protocol.
    Switch,
}

/// Serves one request after the other until either side closes or a fault ends it.
pub(super) async fn run(client: Side, orders: &watch::Sender<Orders>) -> io::Result<()> {
    let mut link = Link { client, backend: Backend::default(), orders };
    loop {
        let opening = tokio::select! {
            opening = head::read(&mut link.client.reads, head::request) => opening?,
            () = link.backend.breaks() => return Ok(()),
        };
        let (head, request) = match opening {
            Opening::Head(head, request) => (head, request),
            Opening::Foreign(bytes) => return opaque::run(link.client, &bytes, orders).await,
            Opening::End => return Ok(()),
        };
        let fault = orders::choose(orders);
        match link.serve(fault, head, request).await? {
            Then::KeepOpen => orders::count(orders, fault),
            then => return link.end(then, fault).await,
        }
    }
}

impl Link<'_> {
    /// Ends the connection. The fault is counted at the end, so that everything is done for those who wait for it.
    async fn end(self, then: Then, fault: Fault) -> io::Result<()> {
        match then {
            Then::KeepOpen | Then::Close => drop(self.client),
            Then::Reset => self.client.reset()?,
            Then::Hold => return hold(self.client, fault, self.orders).await,
            Then::Switch => {
                orders::count(self.orders, fault);
                let server = self.backend.into_side().ok_or(io::ErrorKind::NotConnected)?;
                return side::both_ways(self.client, server).await;
            }
        }
        orders::count(self.orders, fault);
        Ok(())
    }
}

/// Holds a connection open until the client gives up or the proxy lets go. It is counted at once, because it may
/// never end.
pub(super) async fn hold(mut client: Side, fault: Fault, orders: &watch::Sender<Orders>) -> io::Result<()> {
    let born = orders.borrow().generation;
    orders::count(orders, fault);
    let mut unheard = sink();
    tokio::select! {
        gone = copy_buf(&mut client.reads, &mut unheard) => gone.map(drop),
        () = orders::hold(orders, |orders| orders.generation != born) => Ok(()),
    }
}

//! The listener for clients.

use std::{
    io,
    net::{self, Ipv4Addr},
    path::Path,
};

use tokio::net::{TcpListener, UnixListener};

use super::{side::Side, target::Target};

#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    pub(super) fn tcp() -> io::Result<Self> {
        let listener = net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener).map(Self::Tcp)
    }

    pub(super) fn unix(socket: &Path) -> io::Result<Self> {
        UnixListener::bind(socket).map(Self::Unix)
    }

    pub(super) fn address(&self) -> io::Result<Target> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Target::Tcp),
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                let socket = address.as_pathname().ok_or(io::ErrorKind::AddrNotAvailable)?;
                Ok(socket.into())
            }
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Side> {
        match self {
            Self::Tcp(listener) => Side::tcp(listener.accept().await?.0),
            Self::Unix(listener) => Ok(Side::unix(listener.accept().await?.0)),
        }
    }
}

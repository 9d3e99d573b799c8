//! The address of a server.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use tokio::net::{TcpStream, UnixStream};

use super::side::Side;

/// The address of a server, or of the proxy itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Target {
    /// Returns it as `http://…` or `unix:///…`.
    pub fn url(&self) -> String {
        match self {
            Self::Tcp(address) => format!("http://{address}"),
            Self::Unix(socket) => format!("unix://{}", socket.display()),
        }
    }

    pub(super) async fn connect(&self) -> io::Result<Side> {
        match self {
            Self::Tcp(address) => Side::tcp(TcpStream::connect(address).await?),
            Self::Unix(socket) => Ok(Side::unix(UnixStream::connect(socket).await?)),
        }
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl From<PathBuf> for Target {
    fn from(socket: PathBuf) -> Self {
        Self::Unix(socket)
    }
}

impl From<&Path> for Target {
    fn from(socket: &Path) -> Self {
        Self::Unix(socket.into())
    }
}

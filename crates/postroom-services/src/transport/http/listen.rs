//! A receiver's own listener, without another web server.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{Stream, TlsIdentity, tls};
use crate::transport::address::{Address, Host, Location};
use postroom_core::support::error::{Error, ErrorKind, Result};

/// The options of a listener: its certificate, and its limits for clients.
///
/// ```no_run
/// # fn f() -> postroom::Result<()> {
/// use postroom::services::{ListenOptions, TlsIdentity};
///
/// let identity = TlsIdentity::from_files("/etc/shop/cert.pem", "/etc/shop/key.pem")?;
/// let options = ListenOptions::default().tls(identity).connections(200);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListenOptions {
    pub(super) tls: Option<TlsIdentity>,
    pub(super) insecure: bool,
    pub(super) connections: usize,
    pub(super) per_address: Option<usize>,
    pub(super) patience: Duration,
    pub(super) uids: Vec<u32>,
    pub(super) grace: Duration,
}

impl Default for ListenOptions {
    fn default() -> Self {
        let (patience, grace) = (Duration::from_secs(10), Duration::from_secs(30));
        Self { tls: None, insecure: false, connections: 1024, per_address: None, patience, uids: Vec::new(), grace }
    }
}

impl ListenOptions {
    postroom_core::setters! {
        /// Sets the certificate that the listener shows, for `https://` and `grpcs://`.
        pub fn tls(mut self, identity: TlsIdentity) { self.tls = Some(identity); }

        /// Allows unencrypted connections, even beyond this machine.
        pub fn allow_unencrypted(mut self) { self.insecure = true; }

        /// Accepts at most this many connections at once; 1024 by default. Others wait.
        pub fn connections(mut self, connections: usize) { self.connections = connections.max(1); }

        /// Accepts at most this many of them from one address, or from one IPv6 network; a quarter of all by default.
        /// Others are closed at once. Allow more if there is a proxy in front.
        pub fn connections_per_address(mut self, connections: usize) { self.per_address = Some(connections.max(1)); }
    }

    pub(super) fn per_address(&self) -> usize {
        self.per_address.unwrap_or(self.connections.div_ceil(4))
    }

    postroom_core::setters! {
        /// Sets how long a client may take for its handshake, and for the head of a request; 10 s by default.
        pub fn patience(mut self, patience: Duration) { self.patience = patience; }

        /// Sets how long requests in progress may take at the end; 30 s by default.
        pub fn grace(mut self, grace: Duration) { self.grace = grace; }

        /// Sets the users that may connect to a Unix socket; only our own user by default.
        pub fn users(mut self, uids: impl Into<Vec<u32>>) { self.uids = uids.into(); }
    }
}

/// A listener for a receiver, at one address.
///
/// ```no_run
/// # async fn f(receiver: postroom::services::Receiver<postroom::store::Memory>) -> postroom::Result<()> {
/// use postroom::services::{ListenOptions, Listener};
///
/// let listener = Listener::bind("http://127.0.0.1:7002", ListenOptions::default()).await?;
/// let shutdown = async { tokio::signal::ctrl_c().await.ok(); };
/// receiver.serve(listener, shutdown).await;
/// # Ok(()) }
/// ```
pub struct Listener {
    pub(super) at: At,
    pub(super) options: ListenOptions,
}

pub(super) enum At {
    Tcp(TcpListener, Option<TlsIdentity>),
    #[cfg(unix)]
    Unix(super::unix::Socket),
    #[cfg(feature = "pipe")]
    Pipe(super::pipe::Pipe),
}

impl Listener {
    /// Listens at an [`Address`]: `http://127.0.0.1:7002`, `https://0.0.0.0:7002`, `grpc://…`, `unix:///…` or
    /// `pipe://…`. Each of them accepts both HTTP and gRPC. Port 0 selects any free port.
    pub async fn bind(address: &str, options: ListenOptions) -> Result<Self> {
        let address: Address = address.parse()?;
        let at = match &address.0 {
            Location::Http { host, .. } | Location::Grpc { host, .. } => tcp(host, &options).await?,
            #[cfg(unix)]
            Location::Unix { socket } => At::Unix(super::unix::Socket::bind(socket, &options.uids)?),
            #[cfg(feature = "pipe")]
            Location::Pipe { name } => At::Pipe(super::pipe::Pipe::bind(name)?),
            _ => return Err(Error::invalid(format!("this build cannot listen at {address}"))),
        };
        Ok(Self { at, options })
    }

    /// Returns the IP address and port, if the listener has one.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match &self.at {
            At::Tcp(listener, _) => listener.local_addr().ok(),
            #[allow(unreachable_patterns, reason = "only TCP is left without the others")]
            _ => None,
        }
    }

    /// Waits for a connection, and returns where it comes from. Its handshake has not happened yet.
    pub(super) async fn accept(&self) -> io::Result<(Stream, Option<IpAddr>)> {
        match &self.at {
            At::Tcp(listener, _) => {
                let (tcp, from) = listener.accept().await?;
                tcp.set_nodelay(true)?;
                Ok((Stream::new(tcp), Some(from.ip())))
            }
            #[cfg(unix)]
            At::Unix(socket) => Ok((socket.accept().await?, None)),
            #[cfg(feature = "pipe")]
            At::Pipe(pipe) => Ok((pipe.accept().await?, None)),
        }
    }

    /// Returns the TLS acceptor with the current certificate.
    pub(super) fn tls(&self) -> Option<TlsAcceptor> {
        match &self.at {
            At::Tcp(_, tls) => tls.as_ref().map(|identity| TlsAcceptor::from(identity.server())),
            #[allow(unreachable_patterns, reason = "only TCP is left without the others")]
            _ => None,
        }
    }
}

async fn tcp(host: &Host, options: &ListenOptions) -> Result<At> {
    let tls = match (&options.tls, host.tls) {
        (Some(identity), true) => Some(identity.clone()),
        (None, true) => return Err(Error::invalid("listening with TLS needs a certificate: set ListenOptions::tls")),
        (_, false) if host.is_loopback() || options.insecure => None,
        (_, false) => {
            return Err(Error::invalid(
                "this would listen unencrypted beyond this machine; use https://, or allow it with \
                 ListenOptions::allow_unencrypted",
            ));
        }
    };
    let listener = TcpListener::bind((host.name.as_str(), host.port)).await.map_err(|error| {
        let place = host.authority();
        Error::new(ErrorKind::Unavailable, format!("cannot listen at {place}: {error}")).caused_by(error)
    })?;
    Ok(At::Tcp(listener, tls))
}

/// Does the TLS handshake on a new connection.
pub(super) async fn secure(stream: Stream, acceptor: TlsAcceptor) -> io::Result<Stream> {
    let tls = acceptor.accept(stream).await?;
    let http2 = tls::agreed_on_http2(tls.get_ref().1.alpn_protocol());
    Ok(Stream { http2, ..Stream::new(tls) })
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("tcp", &self.tcp_address()).finish_non_exhaustive()
    }
}

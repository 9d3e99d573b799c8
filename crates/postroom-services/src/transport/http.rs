//! HTTP/1.1 and HTTP/2, both ends, over TCP, TLS, Unix sockets and pipes. The wire is the same; only the listeners
//! differ.

mod accept;
pub(super) mod client;
mod connect;
mod egress;
mod foreign;
pub(super) mod guests;
mod idle_timeout;
mod listen;
#[cfg(feature = "pipe")]
mod pipe;
mod push;
pub(super) mod receive;
mod serve;
mod service;
mod tls;
#[cfg(unix)]
mod unix;

pub(crate) use client::HttpWire;
pub use egress::Egress;
pub use listen::{ListenOptions, Listener};
pub use push::PushUrl;
pub use service::HttpService;
pub use tls::{ClientTls, TlsIdentity};

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(crate) const JSON: &str = "application/json";

trait Io: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Io for T {}

/// A connection, whatever it runs over.
pub(crate) struct Stream {
    io: Pin<Box<dyn Io>>,
    /// Whether TLS negotiated HTTP/2.
    http2: bool,
}

impl Stream {
    fn new(io: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        Self { io: Box::pin(io), http2: false }
    }

    fn for_hyper(self) -> TokioIo<Self> {
        TokioIo::new(self)
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let connected = Connected::new();
        if self.http2 { connected.negotiated_h2() } else { connected }
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.io.as_mut().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.as_mut().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

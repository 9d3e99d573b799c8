//! Connects to one destination, whatever it runs over. Proxies from the environment are never used.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;

use super::{Egress, Stream, tls};
use crate::transport::address::{Host, Location};
use crate::transport::services::Service;
use postroom_core::support::error::Result;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to one destination. It ignores the URI it is called with, because it always goes to the same place.
#[derive(Clone)]
pub(crate) struct Connector {
    location: Arc<Location>,
    tls: Option<Arc<ClientConfig>>,
    egress: Egress,
}

impl Connector {
    pub(crate) fn new(service: &Service, location: &Location) -> Result<Self> {
        let tls = match location {
            Location::Http { host, .. } if host.tls => Some(service.tls.config(service.http2)?),
            Location::Grpc { host, .. } if host.tls => Some(service.tls.config(true)?),
            _ => None,
        };
        Ok(Self { location: Arc::new(location.clone()), tls, egress: service.egress })
    }

    async fn connect(self) -> io::Result<Stream> {
        match &*self.location {
            Location::Http { host, .. } | Location::Grpc { host, .. } => self.connect_tcp(host).await,
            #[cfg(unix)]
            Location::Unix { socket } => Ok(Stream::new(tokio::net::UnixStream::connect(socket).await?)),
            #[cfg(feature = "pipe")]
            Location::Pipe { name } => super::pipe::connect(name).await,
            _ => {
                Err(io::Error::new(io::ErrorKind::Unsupported, "this system does not support this kind of connection"))
            }
        }
    }

    async fn connect_tcp(&self, host: &Host) -> io::Result<Stream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
        for address in tokio::net::lookup_host((host.name.as_str(), host.port)).await? {
            if !self.egress.allows(address.ip()) {
                last = io::Error::new(io::ErrorKind::PermissionDenied, "the destination's address is not public");
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(tcp) => {
                    tcp.set_nodelay(true)?;
                    return self.secure(host, tcp).await;
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn secure(&self, host: &Host, tcp: TcpStream) -> io::Result<Stream> {
        let Some(config) = &self.tls else { return Ok(Stream::new(tcp)) };
        let name = ServerName::try_from(host.name.clone())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the host name cannot be in a certificate"))?;
        let tls = tokio_rustls::TlsConnector::from(config.clone()).connect(name, tcp).await?;
        let http2 = tls::agreed_on_http2(tls.get_ref().1.alpn_protocol());
        Ok(Stream { http2, ..Stream::new(tls) })
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Stream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, self.clone().connect());
        Box::pin(async move {
            let slow = || io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {CONNECT_TIMEOUT:?}"));
            Ok(connecting.await.map_err(|_| slow())??.for_hyper())
        })
    }
}

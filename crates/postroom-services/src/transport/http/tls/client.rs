//! The TLS options of a sender.

use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, SignatureScheme};

use super::{HTTP1, HTTP2, TlsIdentity, authorities, provider, refused};
use postroom_core::support::error::{Error, Result};

/// How a sender speaks TLS to a service or to a handler: whom it trusts, and which certificate it shows.
///
/// ```
/// use postroom::services::{ClientTls, PushUrl};
///
/// // Trust only the certificate authority of our own network.
/// fn handler(authority: &str) -> postroom::Result<PushUrl> {
///     let tls = ClientTls::default().root_certificates(authority)?;
///     PushUrl::with_tls("https://handler.internal/messages", tls)
/// }
///
/// assert!(handler("no certificate").is_err());
/// ```
#[derive(Clone, Debug, Default)]
pub struct ClientTls {
    root_certificates: Option<Vec<u8>>,
    identity: Option<TlsIdentity>,
}

impl ClientTls {
    /// Trusts these certificate authorities (in PEM) instead of the system's.
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Result<Self> {
        let pem = pem.into();
        authorities(&pem)?;
        self.root_certificates = Some(pem);
        Ok(self)
    }

    /// Shows this certificate to peers that require one.
    #[must_use]
    pub fn identity(mut self, identity: TlsIdentity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Builds the configuration for connections that speak only HTTP/2, or either version.
    pub(in super::super) fn config(&self, http2_only: bool) -> Result<Arc<ClientConfig>> {
        let trusted = match &self.root_certificates {
            Some(pem) => authorities(pem)?,
            None => authorities_of_system()?,
        };
        let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let config = config.map_err(refused)?.with_root_certificates(trusted);
        let mut config = match &self.identity {
            Some(identity) => config.with_client_cert_resolver(Arc::new(Showing(identity.clone()))),
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = if http2_only { vec![HTTP2.to_vec()] } else { vec![HTTP2.to_vec(), HTTP1.to_vec()] };
        Ok(Arc::new(config))
    }
}

/// Rustls asks this at each handshake, because the certificate may have been replaced.
#[derive(Debug)]
struct Showing(TlsIdentity);

impl ResolvesClientCert for Showing {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.pair())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn authorities_of_system() -> Result<RootCertStore> {
    let mut trusted = RootCertStore::empty();
    trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if trusted.is_empty() {
        return Err(Error::invalid(
            "this system has no root certificates; install them, or set ClientTls::root_certificates",
        ));
    }
    Ok(trusted)
}

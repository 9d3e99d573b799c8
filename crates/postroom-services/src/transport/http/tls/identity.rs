//! The certificate of a listener or a sender.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{InconsistentKeys, ServerConfig};
use zeroize::Zeroizing;

use super::{HTTP1, HTTP2, authorities, certificates_of, provider, refused, validity};
use crate::wire::secret::check_private;
use crate::wire::signature::hex;
use postroom_core::message::hash_bytes;
use postroom_core::support::clock::Clock;
use postroom_core::support::error::{Error, Result};

/// A certificate with its private key, in PEM. A listener or a sender proves its identity with it.
///
/// ```
/// use postroom::services::{ListenOptions, TlsIdentity};
///
/// fn listen(certificates: &str, key: &str, authority: &str) -> postroom::Result<ListenOptions> {
///     // Clients must have a certificate too, issued by this authority.
///     let identity = TlsIdentity::new(certificates, key)?.require_clients(authority)?;
///     Ok(ListenOptions::default().tls(identity))
/// }
///
/// assert!(listen("no certificate", "no key", "no authority").is_err());
/// ```
#[derive(Clone)]
pub struct TlsIdentity(Arc<RwLock<Arc<Shown>>>);

/// What the other end sees now.
struct Shown {
    pair: Arc<CertifiedKey>,
    server: Arc<ServerConfig>,
}

impl TlsIdentity {
    /// Creates an identity from the texts of both. It refuses a certificate that is not valid now.
    pub fn new(certificates: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<Self> {
        let pair = paired(chain_of(certificates.as_ref())?, key_of(key.as_ref())?)?;
        Self::showing(pair, WebPkiClientVerifier::no_client_auth())
    }

    /// Reads an identity from the files of both. Only its owner and its group may be able to read the key's file.
    pub fn from_files(certificates: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self> {
        let (certificates, key) = (certificates.as_ref(), key.as_ref());
        let chain = in_file(certificates, std::fs::read(certificates).map_err(unread).and_then(|pem| chain_of(&pem)))?;
        let private = check_private(key).and_then(|()| std::fs::read(key)).map(Zeroizing::new);
        let pair = private.map_err(unread).and_then(|pem| paired(chain, key_of(&pem)?));
        Self::showing(in_file(key, pair)?, WebPkiClientVerifier::no_client_auth())
    }

    fn showing(pair: Arc<CertifiedKey>, clients: Arc<dyn ClientCertVerifier>) -> Result<Self> {
        let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let config = config.map_err(refused)?.with_client_cert_verifier(clients);
        let mut server = config.with_cert_resolver(Arc::new(SingleCertAndKey::from(pair.clone())));
        server.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        Ok(Self(Arc::new(RwLock::new(Arc::new(Shown { pair, server: server.into() })))))
    }

    /// Requires that clients of its listeners show a certificate issued by one of these authorities (PEM).
    pub fn require_clients(self, authority: impl AsRef<[u8]>) -> Result<Self> {
        let trusted = Arc::new(authorities(authority.as_ref())?);
        let clients = WebPkiClientVerifier::builder_with_provider(trusted, provider()).build();
        let clients = clients.map_err(|error| Error::invalid(format!("TLS: {error}")).caused_by(error))?;
        Self::showing(self.pair(), clients)
    }

    /// Replaces the certificate, and the requirements for clients, with those of another identity. This applies to
    /// all new connections, at every listener and service that has this identity or a clone of it. Open connections
    /// stay.
    pub fn replace(&self, other: &Self) {
        let shown = other.shown();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = shown;
    }

    fn shown(&self) -> Arc<Shown> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the certificate and key that a sender shows now.
    pub(super) fn pair(&self) -> Arc<CertifiedKey> {
        self.shown().pair.clone()
    }

    /// Returns the TLS configuration that a listener uses now.
    pub(in super::super) fn server(&self) -> Arc<ServerConfig> {
        self.shown().server.clone()
    }
}

/// Returns the certificates of a PEM text; the first one is shown to the other end.
fn chain_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let chain = certificates_of(pem)?;
    if let Some(first) = chain.first() {
        validity::check(first, Clock::Database.wall())?;
    }
    Ok(chain)
}

fn key_of(pem: &[u8]) -> Result<PrivateKeyDer<'static>> {
    // Rustls's own error is not used, because it may quote what was read.
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| Error::invalid("there is no private key in the PEM"))
}

fn paired(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Arc<CertifiedKey>> {
    let pair = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            Error::invalid("the private key does not belong to the certificate")
        }
        other => refused(other),
    })?;
    Ok(Arc::new(pair))
}

fn unread(error: std::io::Error) -> Error {
    Error::invalid(error.to_string()).caused_by(error)
}

fn in_file<T>(path: &Path, read: Result<T>) -> Result<T> {
    read.map_err(|error| Error::invalid(format!("{}: {error}", path.display())).caused_by(error))
}

// Two different identities print differently; nothing of the key is printed.
impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chain: Vec<u8> = self.pair().cert.iter().flat_map(|certificate| certificate.to_vec()).collect();
        write!(f, "TlsIdentity({}…)", hex(&hash_bytes(&chain)[..8]))
    }
}

//! Who a listener says it is.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::{HTTP1, HTTP2, certificates_of, provider, refused};
use crate::error::{Error, Result};

/// A certificate with its private key, in PEM: who a listener says it is.
///
/// ```
/// use postroom::{ListenOptions, TlsIdentity};
///
/// fn listen(certificates: &str, key: &str) -> postroom::Result<ListenOptions> {
///     Ok(ListenOptions::default().tls(TlsIdentity::new(certificates, key)?))
/// }
///
/// assert!(listen("no certificate", "no key").is_err());
/// ```
#[derive(Clone)]
pub struct TlsIdentity {
    pub(in super::super) config: Arc<ServerConfig>,
    shown: Arc<Shown>,
}

/// What is shown to those who connect at this moment.
#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl Shown {
    fn current(&self) -> Arc<CertifiedKey> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

impl TlsIdentity {
    /// From the texts of both.
    pub fn new(certificates: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<Self> {
        let certificates = certificates_of(certificates.as_ref())?;
        let key = PrivateKeyDer::from_pem_slice(key.as_ref())
            .map_err(|error| Error::invalid(format!("the private key is no PEM: {error}")))?;
        let pair = CertifiedKey::from_der(certificates, key, &provider()).map_err(refused)?;
        let shown = Arc::new(Shown(RwLock::new(Arc::new(pair))));
        let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let mut config = config.map_err(refused)?.with_no_client_auth().with_cert_resolver(shown.clone());
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        Ok(Self { config: Arc::new(config), shown })
    }

    /// From the files of both.
    pub fn from_files(certificates: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| Error::invalid(format!("{}: {error}", path.display())).caused_by(error))
        };
        Self::new(read(certificates.as_ref())?, read(key.as_ref())?)
    }

    /// From now on the certificate of another: whoever connects next sees it, at every listener that has this identity
    /// or a clone of it. Connections that are open stay.
    pub fn replace(&self, other: &Self) {
        *self.shown.0.write().unwrap_or_else(PoisonError::into_inner) = other.shown.current();
    }
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsIdentity(…)")
    }
}

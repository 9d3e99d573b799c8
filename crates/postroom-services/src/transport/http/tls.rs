//! TLS by rustls, with an explicit crypto provider.

mod client;
mod identity;
mod validity;

pub use client::ClientTls;
pub use identity::TlsIdentity;

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use postroom_core::support::error::{Error, Result};

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn authorities(pem: &[u8]) -> Result<RootCertStore> {
    let mut trusted = RootCertStore::empty();
    for certificate in certificates_of(pem)? {
        trusted.add(certificate).map_err(refused)?;
    }
    Ok(trusted)
}

pub(super) fn agreed_on_http2(agreed: Option<&[u8]>) -> bool {
    agreed == Some(HTTP2)
}

fn certificates_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let certificates: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates =
        certificates.map_err(|error| Error::invalid(format!("the certificates are not PEM: {error}")))?;
    if certificates.is_empty() {
        return Err(Error::invalid("there is no certificate in the PEM"));
    }
    Ok(certificates)
}

fn refused(error: rustls::Error) -> Error {
    Error::invalid(format!("TLS: {error}")).caused_by(error)
}

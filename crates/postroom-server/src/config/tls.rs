//! TLS: which files there are, and what is in them.

use std::path::PathBuf;

use postroom::{ClientTls, TlsIdentity};

use super::Config;
use super::reader::Section;
use super::tree::At;

/// A certificate and its key.
#[derive(Clone, PartialEq)]
pub(super) struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    at: At,
}

/// How TLS is spoken to a service or a handler.
#[derive(Clone, PartialEq, Default)]
pub(super) struct Trust {
    /// Instead of the system's.
    authority: Option<(PathBuf, At)>,
}

impl Tls {
    /// Both, or neither.
    pub(super) fn take(section: &mut Section<'_>) -> Option<Self> {
        match (section.text("tls_cert"), section.text("tls_key")) {
            (Some((certificate, at)), Some((key, _))) => {
                Some(Self { certificate: certificate.into(), key: key.into(), at })
            }
            (None, None) => None,
            (Some((_, at)), None) | (None, Some((_, at))) => {
                section.mistake(&at, format!("{} needs `tls_cert` and `tls_key`, or neither", section.title));
                None
            }
        }
    }
}

impl Trust {
    pub(super) fn take(section: &mut Section<'_>) -> Self {
        Self { authority: section.text("tls_ca").map(|(path, at)| (path.into(), at)) }
    }

    /// A key that means something only where TLS is spoken.
    pub(super) fn key(&self) -> Option<&'static str> {
        self.authority.as_ref().map(|_| "tls_ca")
    }
}

impl Config {
    pub(super) fn identity(&self, title: &str, tls: Option<&Tls>, told: &mut Vec<(At, String)>) -> Option<TlsIdentity> {
        let Tls { certificate, key, at } = tls?;
        let read = TlsIdentity::from_files(self.folder().join(certificate), self.folder().join(key));
        let wrong = |error| told.push((at.clone(), format!("`tls_cert` and `tls_key` in {title}: {error}")));
        read.map_err(wrong).ok()
    }

    pub(super) fn client_tls(&self, title: &str, trust: &Trust, told: &mut Vec<(At, String)>) -> ClientTls {
        let tls = ClientTls::default();
        let Some((path, at)) = &trust.authority else { return tls };
        let path = self.folder().join(path);
        let read = std::fs::read(&path).map_err(|error| error.to_string());
        let trusting = read.and_then(|pem| tls.clone().root_certificates(pem).map_err(|error| error.to_string()));
        trusting.unwrap_or_else(|error| {
            told.push((at.clone(), format!("`tls_ca` in {title}: {}: {error}", path.display())));
            tls
        })
    }
}

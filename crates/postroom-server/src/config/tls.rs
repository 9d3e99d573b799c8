//! TLS: certificates, keys and authorities from files.

use std::path::{Path, PathBuf};

use postroom::services::{ClientTls, TlsIdentity};

use super::Config;
use super::reader::Section;
use super::tree::At;

/// A certificate and its key.
#[derive(Clone, PartialEq)]
pub(super) struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    at: At,
    /// At a listener: clients must present a certificate from one of these authorities.
    clients: Option<(PathBuf, At)>,
}

/// The TLS settings for connections to a service or a handler.
#[derive(Clone, PartialEq, Default)]
pub(super) struct Trust {
    /// Trusted in place of the system's authorities.
    authority: Option<(PathBuf, At)>,
    /// The client certificate.
    identity: Option<Tls>,
}

fn file(section: &mut Section<'_>, key: &'static str) -> Option<(PathBuf, At)> {
    section.text(key).map(|(path, at)| (path.into(), at))
}

impl Tls {
    /// Reads both keys, or neither.
    fn take(section: &mut Section<'_>) -> Option<Self> {
        match (file(section, "tls_cert"), file(section, "tls_key")) {
            (Some((certificate, at)), Some((key, _))) => Some(Self { certificate, key, at, clients: None }),
            (None, None) => None,
            (Some((_, at)), None) | (None, Some((_, at))) => {
                section.mistake(&at, format!("{} needs both `tls_cert` and `tls_key`, or neither", section.title));
                None
            }
        }
    }

    /// Reads the TLS keys of a listener.
    pub(super) fn of_listener(section: &mut Section<'_>) -> Option<Self> {
        let (tls, clients) = (Self::take(section), file(section, "client_ca"));
        if let (None, Some((_, at))) = (&tls, &clients) {
            section.mistake(at, format!("`client_ca` in {} needs `tls_cert` and `tls_key`", section.title));
        }
        Some(Self { clients, ..tls? })
    }
}

impl Trust {
    /// Its keys.
    pub(super) const KEYS: [&str; 3] = ["tls_ca", "tls_cert", "tls_key"];

    pub(super) fn take(section: &mut Section<'_>) -> Self {
        Self { authority: file(section, "tls_ca"), identity: Tls::take(section) }
    }

    /// A key that only has an effect with TLS.
    fn key(&self) -> Option<&'static str> {
        let authority = self.authority.as_ref().map(|_| "tls_ca");
        authority.or(self.identity.as_ref().map(|_| "tls_cert"))
    }
}

impl Config {
    /// The certificate of a listener or a client.
    pub(super) fn identity(&self, title: &str, tls: Option<&Tls>, told: &mut Vec<(At, String)>) -> Option<TlsIdentity> {
        let Tls { certificate, key, at, clients } = tls?;
        let read = TlsIdentity::from_files(self.folder().join(certificate), self.folder().join(key));
        let wrong = |error| told.push((at.clone(), format!("`tls_cert` and `tls_key` in {title}: {error}")));
        let identity = read.map_err(wrong).ok()?;
        let Some((path, at)) = clients else { return Some(identity) };
        let required = self.with_authority(path, |pem| identity.require_clients(pem));
        required.map_err(|error| told.push((at.clone(), format!("`client_ca` in {title}: {error}")))).ok()
    }

    pub(super) fn client_tls(&self, title: &str, trust: &Trust, told: &mut Vec<(At, String)>) -> ClientTls {
        let identity = self.identity(title, trust.identity.as_ref(), told);
        let tls = identity.into_iter().fold(ClientTls::default(), ClientTls::identity);
        let Some((path, at)) = &trust.authority else { return tls };
        let trusting = self.with_authority(path, |pem| tls.clone().root_certificates(pem));
        trusting.unwrap_or_else(|error| {
            told.push((at.clone(), format!("`tls_ca` in {title}: {error}")));
            tls
        })
    }

    /// Reads the authorities in a file and passes them on.
    fn with_authority<T>(&self, path: &Path, made: impl FnOnce(Vec<u8>) -> postroom::Result<T>) -> Result<T, String> {
        let path = self.folder().join(path);
        let read = std::fs::read(&path).map_err(|error| error.to_string());
        let made = read.and_then(|pem| made(pem).map_err(|error| error.to_string()));
        made.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// TLS settings that have no effect.
    pub(super) fn tls_doubts(&self) -> Vec<String> {
        let services = self.services.iter().map(|to| (format!("[services.{}]", to.name), &to.url, &to.tls));
        let handlers = self.handlers.iter().map(|to| (format!("[handlers.{:?}]", to.topic), &to.url, &to.tls));
        let unused = services.chain(handlers).filter(|(_, url, _)| !is_tls(url)).filter_map(|(title, _, tls)| {
            let key = tls.key()?;
            Some(format!("`{key}` in {title} has no effect, because its `url` is neither https:// nor grpcs://"))
        });
        let asks = self.receiver.tls.as_ref().is_some_and(|tls| tls.clients.is_some());
        let open = self.receiver.listen.iter().flatten().filter(|address| asks && !is_tls(address));
        let open =
            open.map(|address| format!("`client_ca` in [receiver] has no effect on {address}, which uses no TLS"));
        unused.chain(open).collect()
    }
}

/// Whether the address uses TLS.
pub(super) fn is_tls(address: &str) -> bool {
    address.starts_with("https://") || address.starts_with("grpcs://")
}

//! Where secrets are, and what they open: keys, services and handlers. Read when the node starts, and when it is told.

use std::path::{Path, PathBuf};

use postroom::{Key, PushUrl, Secret, Service, WebhookSecret, WebhookSigner};

use super::reader::Mistakes;
use super::tree::At;
use super::{Config, Handler};

/// Where a text stands.
#[derive(Clone, PartialEq)]
pub(crate) enum Place {
    /// In the configuration itself.
    Here(String),
    Variable(String),
    File(PathBuf),
}

/// A secret that stands elsewhere, and what it is for.
#[derive(Clone, PartialEq)]
pub(crate) struct SecretRef {
    pub(super) place: Place,
    pub(super) at: At,
    pub(super) of: String,
}

/// What a node needs its secrets for.
pub(crate) struct Opened {
    /// The keys of each source.
    pub(crate) sources: Vec<(String, Vec<Key>)>,
    pub(crate) services: Vec<Service>,
    /// The handlers, with how many messages are posted to each at once.
    pub(crate) handlers: Vec<(String, PushUrl, usize)>,
}

impl Config {
    /// Reads every secret. All that is wrong with them is told at once.
    pub(crate) fn open(&self) -> Result<Opened, Mistakes> {
        let mut told = Vec::new();
        let mut opened = Opened { sources: Vec::new(), services: Vec::new(), handlers: Vec::new() };
        for source in &self.sources {
            opened.sources.push((source.name.clone(), self.keys(&source.keys, &mut told)));
        }
        for service in &self.services {
            let keys = postroom::Keys::new(self.keys(&service.keys, &mut told));
            let keys = keys.unwrap_or_else(|error| {
                told.push((service.at.clone(), error.to_string()));
                postroom::Keys::default()
            });
            let described = Service::new(&service.name, &service.url)
                .keys(keys)
                .timeout(service.timeout)
                .concurrency(service.concurrency);
            let described = if service.allow_unencrypted { described.allow_unencrypted() } else { described };
            opened.services.push(described);
        }
        for handler in &self.handlers {
            match self.push_url(handler) {
                Ok(url) => opened.handlers.push((handler.topic.clone(), url, handler.concurrency)),
                Err(mistake) => told.push(mistake),
            }
        }
        if told.is_empty() { Ok(opened) } else { Err(Mistakes::new(told, &self.shown())) }
    }

    fn keys(&self, keys: &[(String, SecretRef)], told: &mut Vec<(At, String)>) -> Vec<Key> {
        let read = keys.iter().filter_map(|(id, secret)| {
            let read = self.read_secret(secret, Secret::from_env, |path| Secret::from_file(path));
            let key = read.and_then(|read| Key::new(id, read));
            key.map_err(|error| told.push((secret.at.clone(), format!("{}: {error}", secret.of)))).ok()
        });
        read.collect()
    }

    fn push_url(&self, handler: &Handler) -> Result<PushUrl, (At, String)> {
        let at = |error: postroom::Error| (handler.at.clone(), error.to_string());
        let url = PushUrl::new(&handler.url).map_err(at)?.timeout(handler.timeout);
        let mut secrets = Vec::new();
        for secret in &handler.secrets {
            let read = self.read_secret(secret, WebhookSecret::from_env, |path| WebhookSecret::from_file(path));
            // Each by itself: which of them cannot be used is known here alone.
            let usable = read.and_then(|read| WebhookSigner::new([read.clone()]).map(|_| read));
            secrets.push(usable.map_err(|error| (secret.at.clone(), format!("{}: {error}", secret.of)))?);
        }
        if secrets.is_empty() {
            return Ok(url);
        }
        Ok(url.signer(WebhookSigner::new(secrets).map_err(at)?))
    }

    fn read_secret<T>(
        &self,
        secret: &SecretRef,
        from_variable: impl FnOnce(&str) -> postroom::Result<T>,
        from_file: impl FnOnce(&Path) -> postroom::Result<T>,
    ) -> postroom::Result<T> {
        match &secret.place {
            Place::Here(name) | Place::Variable(name) => from_variable(name),
            Place::File(path) => from_file(&self.folder().join(path)),
        }
    }
}

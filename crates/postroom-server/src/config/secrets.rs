//! Reads secrets for keys, services and handlers, when the node starts and on SIGHUP.

use std::io;
use std::path::{Path, PathBuf};

use postroom::services::{ClientTls, Key, PushUrl, Service, TlsIdentity};
use postroom::webhooks::{WebhookScheme, WebhookSecret, WebhookSigner};

use super::reader::Mistakes;
use super::tree::At;
use super::{Config, EVERY, Handler, Hook, Scheme};

/// Where the value of a setting comes from.
#[derive(Clone, PartialEq)]
pub(crate) enum ValueSource {
    /// In the configuration itself.
    Here(String),
    Variable(String),
    File(PathBuf),
}

/// A reference to a secret, and what it is for.
#[derive(Clone, PartialEq)]
pub(crate) struct SecretRef {
    pub(super) place: ValueSource,
    pub(super) at: At,
    pub(super) of: String,
}

/// Everything that a node builds from its secrets.
#[derive(Default)]
pub(crate) struct Opened {
    /// The keys of each source.
    pub(crate) sources: Vec<(String, Vec<Key>)>,
    pub(crate) services: Vec<Service>,
    /// How every other service is reached.
    pub(crate) others: Option<Service>,
    /// The handlers, by topic.
    pub(crate) handlers: Vec<(String, Route)>,
    pub(crate) hooks: Vec<postroom::services::Hook>,
    /// The certificate of the receiver.
    pub(crate) tls: Option<TlsIdentity>,
    /// The certificate of the admin listener.
    pub(crate) admin_tls: Option<TlsIdentity>,
}

impl Hook {
    fn described(&self, scheme: WebhookScheme) -> postroom::services::Hook {
        let described = postroom::services::Hook::new(&self.name, scheme);
        let described = if self.cloud_events { described.cloud_events() } else { described };
        self.topics.iter().fold(described, |hook, topics| hook.topics(topics.clone()))
    }
}

/// These often hold the password of a database.
const DATABASE_VARIABLES: [&str; 3] = ["POSTROOM_DB", "POSTROOM_STORE_URL", "PGPASSWORD"];

impl Config {
    /// The variables that hold secrets of this node.
    pub(crate) fn secret_variables(&self) -> Vec<String> {
        let keys =
            self.sources.iter().map(|source| &source.keys).chain(self.services.iter().map(|service| &service.keys));
        let keys = keys.flatten().map(|key| &key.secret);
        let others =
            self.handlers.iter().map(|handler| &handler.secrets).chain(self.hooks.iter().map(|hook| &hook.secrets));
        let places = keys
            .chain(others.flatten())
            .map(|secret| &secret.place)
            .chain(self.store.url.iter().map(|(place, _)| place));
        let named = places.filter_map(|place| match place {
            ValueSource::Variable(variable) => Some(variable.clone()),
            _ => None,
        });
        named.chain(DATABASE_VARIABLES.map(String::from)).collect()
    }
}

/// Where a handler is reached.
pub(crate) struct Route {
    pub(crate) url: PushUrl,
    /// As it was written.
    pub(crate) address: String,
    /// The most messages at once.
    pub(crate) limit: usize,
}

impl Handler {
    fn route(&self, url: PushUrl) -> Route {
        Route { url, address: self.url.clone(), limit: self.concurrency }
    }
}

impl Config {
    /// Reads every secret, and reports all problems at once.
    pub(crate) fn open(&self) -> Result<Opened, Mistakes> {
        let mut told = Vec::new();
        let mut opened = Opened {
            tls: self.identity("[receiver]", self.receiver.tls.as_ref(), &mut told),
            admin_tls: self.identity("[admin]", self.admin.tls.as_ref(), &mut told),
            ..Opened::default()
        };
        for source in &self.sources {
            opened.sources.push((source.name.clone(), self.open_keys(&source.keys, &mut told)));
        }
        for service in &self.services {
            let keys = postroom::services::Keys::new(self.open_keys(&service.keys, &mut told));
            let keys = keys.unwrap_or_else(|error| {
                told.push((service.at.clone(), error.to_string()));
                postroom::services::Keys::default()
            });
            let described = Service::new(&service.name, &service.url)
                .keys(keys)
                .tls(self.client_tls(&format!("[services.{}]", service.name), &service.tls, &mut told))
                .timeout(service.timeout)
                .concurrency(service.concurrency);
            let described = if service.allow_unencrypted { described.allow_unencrypted() } else { described };
            match service.name.as_str() {
                EVERY => opened.others = Some(described),
                _ => opened.services.push(described),
            }
        }
        for handler in &self.handlers {
            let tls = self.client_tls(&format!("[handlers.{:?}]", handler.topic), &handler.tls, &mut told);
            match self.push_url(handler, tls) {
                Ok(url) => opened.handlers.push((handler.topic.clone(), handler.route(url))),
                Err(mistake) => told.push(mistake),
            }
        }
        for hook in &self.hooks {
            match self.webhooks(hook) {
                Ok(scheme) => opened.hooks.push(hook.described(scheme)),
                Err(mistake) => told.push(mistake),
            }
        }
        if told.is_empty() { Ok(opened) } else { Err(Mistakes::new(told, &self.shown())) }
    }

    fn push_url(&self, handler: &Handler, tls: ClientTls) -> Result<PushUrl, (At, String)> {
        let at = |error: postroom::Error| (handler.at.clone(), error.to_string());
        let url = PushUrl::with_tls(&handler.url, tls).map_err(at)?.timeout(handler.timeout);
        let secrets = self.webhook_secrets(&handler.secrets, |secret| WebhookSigner::new([secret]).map(|_| ()))?;
        if secrets.is_empty() {
            return Ok(url);
        }
        Ok(url.signer(WebhookSigner::new(secrets).map_err(at)?))
    }

    fn webhooks(&self, hook: &Hook) -> Result<WebhookScheme, (At, String)> {
        let scheme = |secrets: Vec<WebhookSecret>| match hook.scheme {
            Scheme::StandardWebhooks => WebhookScheme::standard_webhooks(secrets),
            Scheme::Stripe => WebhookScheme::stripe(secrets),
            Scheme::GitHub => WebhookScheme::github(secrets),
        };
        let secrets = self.webhook_secrets(&hook.secrets, |secret| scheme(vec![secret]).map(|_| ()))?;
        scheme(secrets).map_err(|error| (hook.at.clone(), error.to_string()))
    }

    /// Checks each secret on its own, so that an error names the one that is wrong.
    fn webhook_secrets(
        &self,
        secrets: &[SecretRef],
        check: impl Fn(WebhookSecret) -> postroom::Result<()>,
    ) -> Result<Vec<WebhookSecret>, (At, String)> {
        let read = secrets.iter().map(|secret| {
            let read = self.read_secret(secret, WebhookSecret::from_env, |path| WebhookSecret::from_file(path));
            let usable = read.and_then(|read| check(read.clone()).map(|()| read));
            usable.map_err(|error| (secret.at.clone(), format!("{}: {error}", secret.of)))
        });
        read.collect()
    }

    pub(super) fn read_secret<T>(
        &self,
        secret: &SecretRef,
        from_variable: impl FnOnce(&str) -> postroom::Result<T>,
        from_file: impl FnOnce(&Path) -> postroom::Result<T>,
    ) -> postroom::Result<T> {
        match &secret.place {
            ValueSource::Here(name) | ValueSource::Variable(name) => from_variable(name),
            ValueSource::File(path) => from_file(&self.folder().join(path)),
        }
    }
}

/// Reads a file that must be private to its owner and group.
pub(super) fn read_private(path: &Path) -> io::Result<String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(path)?.permissions().mode() & 0o777;
        if mode & 0o037 != 0 {
            let why = format!("others can read or change it (mode {mode:o}); set the mode to 600 or 640");
            return Err(io::Error::other(why));
        }
    }
    std::fs::read_to_string(path)
}

//! The service map as configuration, in TOML or any other format that serde reads.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::foreign::{CloudEventsMode, WebhookSecret, WebhookSigner};
#[cfg(feature = "http")]
use crate::transport::http::{ClientTls, TlsIdentity};
use crate::transport::judge::Peer;
use crate::transport::services::{Service, Services};
use crate::wire::{Key, Keys, Secret};
use postroom_core::support::error::{Error, Result};

/// The service map of a configuration file. Secrets are not in it: they are in files, or in the environment.
///
/// ```
/// use postroom::services::{Services, ServicesConfig};
///
/// # let file = r#"{
/// #     "service": "orders",
/// #     "default": { "address": "https://{service}.internal:7000", "keys": [{ "id": "a", "env": "SHARED" }] },
/// #     "services": { "email": { "address": "pipe://rf-email", "keys": [{ "id": "a", "file": "/run/email.key" }] } }
/// # }"#;
/// // service = "orders"
/// // default = { address = "https://{service}.internal:7000", keys = [{ id = "a", env = "SHARED" }] }
/// // [services.email]
/// // address = "pipe://rf-email"
/// // keys = [{ id = "a", file = "/run/email.key" }]
/// let config: ServicesConfig = serde_json::from_str(file).unwrap();
/// let problem = Services::from_config(config).unwrap_err();
/// assert!(problem.to_string().starts_with("the service email: the secret in /run/email.key"));
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServicesConfig {
    /// The name of this service.
    service: String,
    /// The transport for services whose address does not name one, such as `https`.
    #[serde(default)]
    default_transport: Option<String>,
    /// The settings for services that are not listed.
    #[serde(default)]
    default: Option<ServiceConfig>,
    #[serde(default)]
    services: BTreeMap<String, ServiceConfig>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceConfig {
    #[serde(default)]
    address: String,
    #[serde(default)]
    peer: PeerName,
    #[serde(default)]
    keys: Vec<KeyConfig>,
    #[serde(default)]
    webhook_secrets: Vec<SecretConfig>,
    concurrency: Option<usize>,
    timeout_seconds: Option<f64>,
    #[serde(default)]
    allow_unencrypted: bool,
    #[serde(default)]
    http2: bool,
    #[cfg(feature = "http")]
    root_certificates: Option<PathBuf>,
    #[cfg(feature = "http")]
    identity: Option<IdentityConfig>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PeerName {
    #[default]
    V2,
    V1,
    Webhook,
    CloudEventsBinary,
    CloudEventsStructured,
}

impl From<PeerName> for Peer {
    fn from(name: PeerName) -> Self {
        match name {
            PeerName::V2 => Self::V2,
            PeerName::V1 => Self::V1,
            PeerName::Webhook => Self::Webhook,
            PeerName::CloudEventsBinary => Self::CloudEvents(CloudEventsMode::Binary),
            PeerName::CloudEventsStructured => Self::CloudEvents(CloudEventsMode::Structured),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyConfig {
    id: String,
    env: Option<String>,
    file: Option<PathBuf>,
    algorithm: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretConfig {
    env: Option<String>,
    file: Option<PathBuf>,
}

impl Services {
    /// Builds the service map of a configuration file. It reads the secrets immediately.
    pub fn from_config(config: ServicesConfig) -> Result<Self> {
        let mut services = Self::new(config.service);
        if let Some(transport) = config.default_transport {
            services =
                services.default_transport(transport.parse().map_err(|error| named("default_transport", &error))?);
        }
        for (name, service) in config.services {
            let of = format!("the service {name}");
            services = services.service(service.open(&name).map_err(|error| named(&of, &error))?);
        }
        if let Some(default) = config.default {
            services = services.others(default.open("default").map_err(|error| named("the default service", &error))?);
        }
        Ok(services)
    }
}

fn named(of: &str, error: &Error) -> Error {
    Error::invalid(format!("{of}: {error}"))
}

impl ServiceConfig {
    fn open(self, name: &str) -> Result<Service> {
        let mut service = Service::new(name, self.address).peer(self.peer.into());
        service.keys = Keys::new(self.keys.iter().map(KeyConfig::read).collect::<Result<Vec<_>>>()?)?;
        if !self.webhook_secrets.is_empty() {
            let secrets = self.webhook_secrets.iter().map(SecretConfig::read).collect::<Result<Vec<_>>>()?;
            service = service.signer(WebhookSigner::new(secrets)?);
        }
        if let Some(concurrency) = self.concurrency {
            service = service.concurrency(concurrency);
        }
        if let Some(seconds) = self.timeout_seconds {
            let timeout = Duration::try_from_secs_f64(seconds)
                .map_err(|_| Error::invalid(format!("timeout_seconds = {seconds} is not a valid duration")))?;
            service = service.timeout(timeout);
        }
        #[cfg(feature = "http")]
        {
            service = service.tls(client_tls(self.root_certificates, self.identity)?);
        }
        (service.insecure, service.http2) = (self.allow_unencrypted, self.http2);
        Ok(service)
    }
}

/// A certificate and its key, for peers that require one.
#[cfg(feature = "http")]
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct IdentityConfig {
    certificate: PathBuf,
    key: PathBuf,
}

#[cfg(feature = "http")]
fn client_tls(roots: Option<PathBuf>, identity: Option<IdentityConfig>) -> Result<ClientTls> {
    let mut tls = ClientTls::default();
    if let Some(path) = roots {
        let of = format!("root_certificates, {}", path.display());
        let pem = std::fs::read(&path).map_err(|error| Error::invalid(format!("{of}: {error}")))?;
        tls = tls.root_certificates(pem).map_err(|error| named(&of, &error))?;
    }
    if let Some(IdentityConfig { certificate, key }) = identity {
        tls = tls.identity(TlsIdentity::from_files(certificate, key).map_err(|error| named("identity", &error))?);
    }
    Ok(tls)
}

impl KeyConfig {
    fn read(&self) -> Result<Key> {
        let secret = match (&self.env, &self.file) {
            (Some(variable), None) => Secret::from_env(variable)?,
            (None, Some(path)) => Secret::from_file(path)?,
            _ => return Err(Error::invalid(format!("the key {} needs either env or file", self.id))),
        };
        let of_key = |error: Error| Error::invalid(format!("the key {}: {error}", self.id));
        let algorithm = self.algorithm.as_deref().map(str::parse).transpose().map_err(of_key)?;
        Ok(Key::new(&self.id, secret)?.algorithm(algorithm.unwrap_or_default()))
    }
}

impl SecretConfig {
    fn read(&self) -> Result<WebhookSecret> {
        match (&self.env, &self.file) {
            (Some(variable), None) => WebhookSecret::from_env(variable),
            (None, Some(path)) => WebhookSecret::from_file(path),
            _ => Err(Error::invalid("a webhook secret needs either env or file")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services(config: &str) -> Result<Services> {
        Services::from_config(serde_json::from_str(config).unwrap())
    }

    #[test]
    fn what_is_wrong_is_said_with_the_service_it_is_wrong_with() {
        for (config, said) in [
            (r#"{"service":"a","services":{"b":{"address":"http://127.0.0.1:1"}}}"#, "the service b has no key"),
            (r#"{"service":"a","services":{"b":{"address":"nowhere","peer":"webhook"}}}"#, "is not an address"),
            (
                r#"{"service":"a","services":{"b":{"address":"pipe://b","keys":[{"id":"k"}]}}}"#,
                "needs either env or file",
            ),
            (r#"{"service":"A","services":{}}"#, "a service's name must be"),
            (
                r#"{"service":"a","default":{"address":"http://127.0.0.1:1","peer":"webhook"}}"#,
                "must contain {service}",
            ),
            (r#"{"service":"a","services":{"b":{"address":"http://10.0.0.1:1","peer":"webhook"}}}"#, "unencrypted"),
            (
                r#"{"service":"a","services":{"b":{"address":"pipe://b","timeout_seconds":-1,"peer":"webhook"}}}"#,
                "not a valid duration",
            ),
        ] {
            let problem = services(config).and_then(|services| services.checked().map(|_| ())).unwrap_err();
            assert!(problem.to_string().contains(said), "{config}: {problem}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_key_may_say_its_algorithm() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, Secret::generate()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let with = |algorithm: &str| {
            let key = format!(r#"{{"id":"k","file":{path:?}{algorithm}}}"#);
            services(&format!(r#"{{"service":"a","services":{{"b":{{"address":"pipe://b","keys":[{key}]}}}}}}"#))
        };
        for (algorithm, expected) in [("", "Sha256"), (r#","algorithm":"HMAC-SHA512""#, "Sha512")] {
            let keys = format!("{:?}", with(algorithm).unwrap().checked().unwrap().services["b"].keys);
            assert!(keys.contains(expected), "{keys}");
        }
        let problem = with(r#","algorithm":"MD5""#).unwrap_err().to_string();
        let expected = "the service b: the key k: \"MD5\" is not an algorithm; use HMAC-SHA256 or HMAC-SHA512";
        assert_eq!(problem, expected);
    }

    #[test]
    fn an_unknown_name_is_refused() {
        for config in [
            r#"{"service":"a","service_map":{}}"#,
            r#"{"service":"a","services":{"b":{"adress":"pipe://b"}}}"#,
            r#"{"service":"a","services":{"b":{"address":"pipe://b","peer":"v3"}}}"#,
        ] {
            assert!(serde_json::from_str::<ServicesConfig>(config).is_err(), "{config}");
        }
    }

    #[test]
    fn services_that_are_not_listed_have_the_default() {
        let config = r#"{"service":"a","default":{"address":"https://{service}.internal:7","peer":"webhook"}}"#;
        let checked = services(config).unwrap().checked().unwrap();
        assert!(checked.services.is_empty());
        let address = checked.others.unwrap().named("billing").address().unwrap().to_string();
        assert_eq!(address, "https://billing.internal:7/_rf/receive");
    }

    #[test]
    fn what_does_not_say_how_it_is_spoken_to_has_the_default_transport() {
        let with = |transport: &str, of_b: &str| {
            let default = r#""default":{"address":"{service}.internal:7","peer":"webhook"}"#;
            let b = format!(r#""services":{{"b":{{{of_b}"peer":"webhook"}}}}"#);
            services(&format!(r#"{{"service":"a",{transport}{default},{b}}}"#)).and_then(Services::checked)
        };
        let https = r#""default_transport":"https","#;
        for (of_b, expected) in [
            (r#""address":"b:5","#, "https://b:5/_rf/receive"),
            (r#""address":"unix:///run/b.sock","#, "unix:///run/b.sock"),
            ("", "https://b:443/_rf/receive"),
        ] {
            let checked = with(https, of_b).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(checked.services["b"].address().unwrap().to_string(), expected);
            let other = checked.others.unwrap().named("billing").address().unwrap().to_string();
            assert_eq!(other, "https://billing.internal:7/_rf/receive");
        }
        let refused = |transport: &str| with(transport, r#""address":"b:5","#).err().unwrap().to_string();
        assert!(refused("").contains("\"b:5\" is not an address"), "{}", refused(""));
        assert!(refused(r#""default_transport":"tcp","#).starts_with("default_transport: \"tcp\" is not a transport"));
        assert!(refused(r#""default_transport":"http","#).contains("unencrypted"), "the same checks as ever");
    }

    #[test]
    fn in_process_needs_no_list() {
        let config = r#"{"service":"a","default_transport":"in-process"}"#;
        let others = services(config).unwrap().checked().unwrap().others.unwrap();
        assert_eq!(others.named("billing").address().unwrap().to_string(), "in-process");
    }
}

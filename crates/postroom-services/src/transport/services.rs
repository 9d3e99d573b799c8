//! The services that a sender knows: where they are, and how to reach them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::foreign::WebhookSigner;
use crate::transport::address::{Address, Host, Location};
#[cfg(feature = "http")]
use crate::transport::http::{ClientTls, Egress};
use crate::transport::judge::Peer;
use crate::transport::usual::TransportType;
use crate::wire::{Keys, grammar};
use postroom_core::support::clock::Clock;
use postroom_core::support::error::{Error, Result};
use postroom_core::work::places::Limits;

/// The placeholder for the service's name in an address for many services.
const NAME: &str = "{service}";

/// A service that messages go to.
///
/// ```
/// use std::time::Duration;
/// use postroom::services::{Key, Secret, Service};
///
/// let key = Key::new("2026-11", Secret::parse(&Secret::generate())?)?;
/// let inventory = Service::new("inventory", "https://inventory.example.com:7000")
///     .keys(key)
///     .concurrency(8)
///     .timeout(Duration::from_secs(10));
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Service {
    pub(crate) name: String,
    address: String,
    pub(crate) peer: Peer,
    pub(crate) keys: Keys,
    pub(crate) signer: Option<WebhookSigner>,
    pub(crate) limits: Limits,
    pub(crate) timeout: Duration,
    pub(crate) insecure: bool,
    pub(crate) http2: bool,
    #[cfg(feature = "http")]
    pub(crate) tls: ClientTls,
    #[cfg(feature = "http")]
    pub(crate) egress: Egress,
}

impl Service {
    /// Creates a service at an [`Address`].
    pub fn new(name: impl Into<String>, address: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            address: address.into(),
            peer: Peer::default(),
            keys: Keys::default(),
            signer: None,
            limits: Limits::default().concurrency(32),
            timeout: Duration::from_secs(30),
            insecure: false,
            http2: false,
            #[cfg(feature = "http")]
            tls: ClientTls::default(),
            #[cfg(feature = "http")]
            egress: Egress::default(),
        }
    }

    postroom_core::setters! {
        /// Sets the keys that we share with it. Keep a clone of them to change them later.
        pub fn keys(mut self, keys: impl Into<Keys>) { self.keys = keys.into(); }

        /// Sets the kind of peer; a Postroom service by default.
        pub fn peer(mut self, peer: Peer) { self.peer = peer; }

        /// Signs messages to a webhook or CloudEvents peer by Standard Webhooks.
        pub fn signer(mut self, signer: WebhookSigner) { self.signer = Some(signer); }

        /// Sends at most this many messages to it at once, if the worker's limit for one place allows it; 32 by
        /// default.
        pub fn concurrency(mut self, messages: usize) { self.limits.concurrency = messages; }

        /// Sets how long it may take to answer; 30 s by default.
        pub fn timeout(mut self, timeout: Duration) { self.timeout = timeout; }

        /// Sets the circuit breaker. After this many failures in a row the service is held for `pause`, then for twice
        /// as long, up to `pause_max`: 5, 2 s and 60 s by default. Messages that wait for it spend no attempt.
        pub fn breaker(mut self, failures: u32, pause: Duration, pause_max: Duration) {
            self.limits = self.limits.breaker(failures, pause, pause_max);
        }

        /// Allows unencrypted connections to it, even beyond this machine.
        pub fn allow_unencrypted(mut self) { self.insecure = true; }

        /// Uses HTTP/2 without negotiation. Over TLS, the better of the two versions is negotiated anyway.
        pub fn http2(mut self) { self.http2 = true; }

        /// Sets the TLS options for it. By default, the system's certificate authorities are trusted.
        #[cfg(feature = "http")]
        pub fn tls(mut self, tls: ClientTls) { self.tls = tls; }

        /// Restricts the addresses it may have, for a service that comes from data; anywhere by default.
        #[cfg(feature = "http")]
        pub fn egress(mut self, egress: Egress) { self.egress = egress; }
    }

    /// Returns the same settings for the service of this name.
    pub(crate) fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Returns the same service with an address that names its transport.
    fn completed(mut self, usual: Option<TransportType>) -> Self {
        if let Some(usual) = usual {
            self.address = usual.complete(&self.address, &self.name);
        }
        self
    }

    pub(crate) fn address(&self) -> Result<Address> {
        self.address.replace(NAME, &self.name).parse()
    }

    /// Refuses settings that would fail later, or that would send messages unencrypted.
    fn check(&self) -> Result<()> {
        let name = &self.name;
        grammar::service("a service's name", name)?;
        let address = self.address().map_err(|error| Error::invalid(format!("the service {name}: {error}")))?;
        let needs_key = self.peer.needs_key() && address.0 != Location::InProcess;
        if needs_key && self.keys.is_empty() {
            return Err(Error::invalid(format!(
                "the service {name} has no key: set one with Service::keys, from a file or from the environment"
            )));
        }
        if self.limits.concurrency == 0 || self.timeout.is_zero() {
            return Err(Error::invalid(format!("the service {name}: concurrency and timeout must be more than zero")));
        }
        match &address.0 {
            Location::Http { host, .. } | Location::Grpc { host, .. } => self.check_privacy(host),
            _ => Ok(()),
        }
    }

    fn check_privacy(&self, host: &Host) -> Result<()> {
        if host.tls || host.is_loopback() || self.insecure {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "messages to the service {} would travel unencrypted; use https:// or grpcs://, or allow it with \
             Service::allow_unencrypted",
            self.name
        )))
    }
}

/// The services that a sender knows.
///
/// ```
/// use postroom::services::{Key, Secret, Service, Services};
///
/// let key = Key::new("2026-11", Secret::parse(&Secret::generate())?)?;
/// let services = Services::new("orders")
///     .service(Service::new("inventory", "http://127.0.0.1:7002").keys(key.clone()))
///     .service(Service::new("audit", "unix:///run/audit/postroom.sock").keys(key));
/// # Ok::<(), postroom::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Services {
    pub(crate) source: String,
    services: Vec<Service>,
    pub(crate) others: Option<Service>,
    usual: Option<TransportType>,
    clock: Clock,
}

/// Services that passed all checks.
pub(crate) struct Checked {
    pub(crate) source: String,
    pub(crate) services: BTreeMap<String, Service>,
    pub(crate) others: Option<Service>,
    pub(crate) clock: Clock,
}

impl Services {
    /// Creates an empty map for `source`, which is this service.
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), services: Vec::new(), others: None, usual: None, clock: Clock::Database }
    }

    postroom_core::setters! {
        /// Adds a service.
        pub fn service(mut self, service: Service) { self.services.push(service); }

        /// Sets the transport for services whose address does not name one, such as `Service::new("inventory",
        /// "inventory:5000")`. This transport derives an empty address from the service's name, as
        /// [`TransportType::complete`] describes. Without a default transport, every address must name its own.
        ///
        /// It also applies to [`others`](Self::others). Services that are not listed are reached only through those
        /// settings, because these contain the keys. In process nobody needs a key, so with
        /// [`TransportType::InProcess`] unlisted services are reached in process.
        ///
        /// ```
        /// use postroom::services::{Key, Secret, Service, Services, TransportType};
        ///
        /// let key = Key::new("2026-11", Secret::parse(&Secret::generate())?)?;
        /// let services = Services::new("orders")
        ///     .default_transport(TransportType::Https)
        ///     .service(Service::new("inventory", "inventory.internal:5000").keys(key.clone()))
        ///     .service(Service::new("email", "pipe://rf-email").keys(key));
        /// # Ok::<(), postroom::Error>(())
        /// ```
        pub fn default_transport(mut self, transport: TransportType) { self.usual = Some(transport); }

        /// Sets how every other service is reached. In the address, `{service}` stands for the name of the service, and
        /// the default transport applies; the name of the given service is not used.
        pub fn others(mut self, service: Service) { self.others = Some(service); }

        /// Sets the clock for signatures; the machine's own by default.
        pub fn clock(mut self, clock: Clock) { self.clock = clock; }
    }

    /// Returns all services by name, or an error if one of them is invalid.
    pub(crate) fn checked(self) -> Result<Checked> {
        grammar::service("a service's name", &self.source)?;
        let mut known = BTreeMap::new();
        for service in self.services {
            let service = service.completed(self.usual);
            service.check()?;
            if let Some(twice) = known.insert(service.name.clone(), service) {
                return Err(Error::invalid(format!("there are two services named {}", twice.name)));
            }
        }
        let in_process = (self.usual == Some(TransportType::InProcess)).then(|| Service::new(NAME, ""));
        let others = self.others.or(in_process).map(|others| others.named(NAME).completed(self.usual));
        if let Some(others) = &others {
            if !others.address.contains(NAME) && others.address != TransportType::InProcess.to_string() {
                return Err(Error::invalid(format!("the address of other services must contain {NAME}")));
            }
            others.clone().named("other").check()?;
        }
        Ok(Checked { source: self.source, services: known, others, clock: self.clock })
    }
}

//! The sections of the file, with the names, defaults and limits of their keys.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use postroom::queue::{BATCH_MAX, LEASE_MAX};
use postroom::services::{Address, TransportType};

use super::handlers::{EVERY, Way, handler};
use super::reader::{Reader, Section};
use super::retry::Retry;
use super::secrets::ValueSource;
use super::senders::{hook, source};
use super::tls::{Tls, Trust, is_tls};
use super::tokens::token;
use super::tree::{At, Table};
use super::{Admin, Backup, Config, Receiver, Retention, Service, Store, Worker};
use crate::database::{ALLOWED, Database};
use crate::duration;

const SECTIONS: [&str; 14] = [
    "node",
    "store",
    "worker",
    "retry",
    "topics",
    "retention",
    "backup",
    "receiver",
    "admin",
    "tokens",
    "sources",
    "services",
    "handlers",
    "hooks",
];
pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
/// The inbox remembers a message for at least this much longer than the receiver accepts it.
pub(super) const RETENTION_MARGIN: Duration = Duration::from_secs(600);
/// A window must be longer than signatures may be old.
pub(super) const WINDOW: RangeInclusive<Duration> = Duration::from_secs(301)..=YEAR;
/// The largest semaphore.
pub(super) const PLACES_MAX: u64 = 1_000_000;
const NAME_CHARS_MAX: usize = 64;
/// Stands for the service's name in the address of `[services."*"]`.
const NAMED: &str = "{service}";
/// The address of the node itself.
const IN_PROCESS: &str = "in-process";
const ADDRESSES: &str = "http://host:port, https://host:port, grpc://host:port, grpcs://host:port, unix:///path or \
                         pipe://name";

/// Reads every section, and reports mistakes to the reader.
pub(super) fn read(reader: &Reader, mut root: Table, file: Option<PathBuf>) -> Config {
    let (retention, kept_at) = retention(reader.section(&mut root, "retention"));
    let (mut handlers, mut pulled, mut pulled_retry, mut fetched_at) = (Vec::new(), Vec::new(), Vec::new(), None);
    for (topic, section) in reader.sections(&mut root, "handlers") {
        let at = section.at.clone();
        match handler((topic, section)) {
            Some(Way::Posted(handler)) => handlers.push(*handler),
            Some(Way::Fetched(topic, retry)) => {
                pulled.push(topic);
                pulled_retry.push(retry);
                fetched_at = fetched_at.or(Some(at));
            }
            None => {}
        }
    }
    let tokens: Vec<_> = reader.sections(&mut root, "tokens").into_iter().filter_map(token).collect();
    let (name, transport) = node(reader.section(&mut root, "node"));
    let service = |entry| service(entry, transport);
    let config = Config {
        file,
        name,
        store: store(reader.section(&mut root, "store")),
        worker: worker(reader.section(&mut root, "worker")),
        retry: retry(reader.section(&mut root, "retry")),
        topics: reader.sections(&mut root, "topics").into_iter().map(topic).collect(),
        retention,
        backup: backup(reader.section(&mut root, "backup")),
        receiver: receiver(reader.section(&mut root, "receiver")),
        admin: admin(reader.section(&mut root, "admin"), !tokens.is_empty()),
        tokens,
        sources: reader.sections(&mut root, "sources").into_iter().map(source).collect(),
        services: reader.sections(&mut root, "services").into_iter().filter_map(service).collect(),
        handlers,
        pulled,
        pulled_retry,
        hooks: reader.sections(&mut root, "hooks").into_iter().filter_map(hook).collect(),
    };
    for hook in config.hooks.iter().filter(|hook| config.sources.iter().any(|source| source.name == hook.name)) {
        reader.mistake(&hook.at, format!("{} is both a source and a hook; rename one of them", hook.name));
    }
    for service in config.services.iter().filter(|to| to.url == IN_PROCESS && to.name != config.name) {
        let why = format!("{IN_PROCESS} means this node itself; only [services.{}] may use it", config.name);
        reader.mistake(&service.at, format!("`url` in [services.{}]: {why}", service.name));
    }
    if let Some(at) = fetched_at.filter(|_| !config.receiver.queued) {
        let why = "`pull` needs `queued = true` in [receiver]; otherwise the sender waits for the handler";
        reader.mistake(&at, why);
    }
    reader.unknown_sections(&root, &SECTIONS);
    if let Some(what) = config.forgets_early(&config.retention, config.receiver.window) {
        reader.mistake(&kept_at, what);
    }
    config
}

/// Its name, and the transport for services whose `url` has no scheme.
fn node(mut section: Section<'_>) -> (String, Option<TransportType>) {
    let name = section.text("name").map(|(name, at)| {
        check_name(&section, &name, &at, "`name` in [node]");
        name
    });
    let transport = section.text("default_transport").and_then(|(text, at)| match text.parse() {
        // In-process reaches only the node itself.
        Ok(TransportType::InProcess) | Err(_) => {
            let forms = "\"http\", \"https\", \"grpc\", \"grpcs\", \"unix\" or \"pipe\"";
            section.mistake(&at, format!("`default_transport` in [node] must be {forms}"));
            None
        }
        Ok(known) => Some(known),
    });
    section.finish();
    (name.unwrap_or_else(|| "postroom".into()), transport)
}

/// The rule for names. The library checks it too, but does not know the line.
pub(crate) const NAME_RULE: &str =
    "1 to 64 characters from a-z, 0-9, `.`, `_` and `-`, and start with a letter or digit";

pub(crate) fn is_name(name: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.bytes().next().is_some_and(is_fine)
        && name.bytes().all(|byte| is_fine(byte) || b"._-".contains(&byte))
        && name.len() <= NAME_CHARS_MAX
}

pub(super) fn check_name(section: &Section<'_>, name: &str, at: &At, what: &str) {
    if !is_name(name) {
        section.mistake(at, format!("{what} must be {NAME_RULE}"));
    }
}

fn store(mut section: Section<'_>) -> Store {
    let url = section.text_or_place("url");
    if let Some((ValueSource::Here(text), at)) = &url {
        match Database::parse(Path::new(text)) {
            _ if text.trim().is_empty() => section.mistake(at, "`url` in [store] must not be empty"),
            Err(error) => section.mistake(at, format!("`url` in [store]: {error}; write {ALLOWED}")),
            Ok(database) if matches!(at, At::Line(_)) && !database.is_public() => section.mistake(
                at,
                "`url` in [store] holds a password, which must not be in this file; write { env = \"VARIABLE\" } or \
                 { file = \"PATH\" }, or set POSTROOM_STORE_URL, and change the password, because others may have \
                 read it here",
            ),
            Ok(_) => {}
        }
    }
    let (deploy_schema, topic) = (section.flag("deploy_schema"), section.text("dead_letter_topic"));
    if let Some((_, at)) = topic.as_ref().filter(|(topic, _)| topic.trim().is_empty()) {
        section.mistake(at, "`dead_letter_topic` in [store] must not be empty");
    }
    let pooler = section.flag("pooler").unwrap_or(false);
    section.finish();
    Store { url, deploy_schema, dead_letter_topic: topic.map(|(topic, _)| topic), pooler }
}

fn worker(mut section: Section<'_>) -> Worker {
    let rows = 1..=BATCH_MAX as u64;
    let worker = Worker {
        batch: places(section.number("batch", rows.clone()), 50),
        lease: section.span("lease", MILLISECOND..=LEASE_MAX).unwrap_or(30 * SECOND),
        poll: section.span("poll", MILLISECOND..=YEAR).unwrap_or(SECOND / 2),
        poll_max: section.span("poll_max", MILLISECOND..=YEAR).unwrap_or(5 * SECOND),
        concurrency: places(section.number("concurrency", rows.clone()), 16),
        per_place: section.number("per_place", rows).map(|number| places(Some(number), 1)),
        memory_mib: section.number("memory_mib", 1..=1 << 20).unwrap_or(32),
        grace: section.span("grace", Duration::ZERO..=YEAR).unwrap_or(30 * SECOND),
    };
    if let Some(at) = section.place_of("poll_max").filter(|_| worker.poll_max < worker.poll) {
        section.mistake(&at, "`poll_max` in [worker] must not be shorter than `poll`");
    }
    section.finish();
    Worker { poll_max: worker.poll_max.max(worker.poll), ..worker }
}

fn retry(mut section: Section<'_>) -> Retry {
    let retry = Retry::take(&mut section);
    section.finish();
    retry
}

fn topic((name, section): (String, Section<'_>)) -> (String, Retry) {
    if name.trim().is_empty() || name.contains('*') {
        section.mistake(&section.at, "[topics.\"TOPIC\"] needs the full name of one topic; patterns are not allowed");
    }
    (name, retry(section))
}

fn retention(mut section: Section<'_>) -> (Retention, At) {
    let retention = Retention {
        outbox: section.span("outbox", Duration::ZERO..=100 * YEAR).unwrap_or(7 * DAY),
        inbox: section.span("inbox", RETENTION_MARGIN..=100 * YEAR).unwrap_or(30 * DAY),
        dead: section.span("dead", MINUTE..=100 * YEAR),
        expired: section.span("expired", MINUTE..=100 * YEAR),
        dismissed: section.span("dismissed", MINUTE..=100 * YEAR).unwrap_or(30 * DAY),
        seen: section.span("seen", MINUTE..=100 * YEAR),
        payloads: section.span("payloads", MINUTE..=100 * YEAR).unwrap_or(7 * DAY),
        every: section.span("every", SECOND..=YEAR).unwrap_or(5 * MINUTE),
    };
    // After the shortest of these, the inbox no longer recognises a duplicate.
    let shortest = retention.kept().known_for();
    let kept = [("inbox", Some(retention.inbox)), ("dead", retention.dead), ("dismissed", Some(retention.dismissed))];
    let key = kept.into_iter().find(|(_, kept)| *kept == Some(shortest)).map_or("inbox", |(key, _)| key);
    let kept_at = section.place_of(key).unwrap_or_else(|| section.at.clone());
    section.finish();
    (retention, kept_at)
}

fn backup(mut section: Section<'_>) -> Backup {
    let every = section.span("every", MINUTE..=YEAR);
    let every = every.zip(section.place_of("every"));
    let keep = section.span("keep", MINUTE..=100 * YEAR).unwrap_or(7 * DAY);
    let folder = section.text("folder").filter(|(folder, at)| {
        let is_empty = folder.trim().is_empty();
        if is_empty {
            section.mistake(at, "`folder` in [backup] must not be empty");
        }
        !is_empty
    });
    if let Some((every, at)) = every.as_ref().filter(|(every, _)| *every > keep) {
        let (every, keep) = (duration::short(*every), duration::short(keep));
        let why = format!("a copy would be deleted before the next one; `keep` is {keep}, so `every` must be shorter");
        section.mistake(at, format!("`every` in [backup] is {every}: {why}"));
    }
    section.finish();
    Backup { every, keep, folder: folder.map(|(folder, _)| folder.into()) }
}

fn receiver(mut section: Section<'_>) -> Receiver {
    let listen = section.list("listen");
    for (address, at) in listen.iter().flatten() {
        check_listen(&section, address, at);
    }
    let allow_unencrypted = section.flag("allow_unencrypted").unwrap_or(false);
    let exposed = listen.iter().flatten().find(|(address, _)| !allow_unencrypted && is_exposed(address));
    if let Some((address, at)) = exposed {
        let instead = secured(address);
        let why = format!("write {instead}://, or set `allow_unencrypted` to true");
        section.mistake(at, format!("`listen` in [receiver]: other machines could connect without encryption; {why}"));
    }
    let tls = Tls::of_listener(&mut section);
    let https = listen.iter().flatten().find(|(address, _)| is_tls(address));
    if let Some((address, at)) =
        https.filter(|_| section.place_of("tls_cert").or(section.place_of("tls_key")).is_none())
    {
        let scheme = secured(address);
        section.mistake(at, format!("`listen` in [receiver]: {scheme}:// needs `tls_cert` and `tls_key`"));
    }
    let receiver = Receiver {
        listen: listen.map(|listen| listen.into_iter().map(|(address, _)| address).collect()),
        queued: section.flag("queued").unwrap_or(true),
        window: section.span("window", WINDOW).unwrap_or(29 * DAY),
        body_max: places(section.number("body_max", 1..=1 << 30), 4 << 20),
        unverified_max: places(section.number("unverified_max", 1..=1 << 40), 16 << 20),
        in_flight: places(section.number("in_flight", 1..=PLACES_MAX), 512),
        connections_per_address: places(section.number("connections_per_address", 1..=PLACES_MAX), 256),
        tls,
        allow_unencrypted,
    };
    section.finish();
    receiver
}

/// Checks an address to listen at.
fn check_listen(section: &Section<'_>, text: &str, at: &At) {
    if text == IN_PROCESS || text.parse::<Address>().is_err() {
        section.mistake(at, format!("`listen` in {} must be {ADDRESSES}, without a user or password", section.title));
    }
}

/// Checks an address to send to.
fn check_url(section: &Section<'_>, text: &str, at: &At) -> bool {
    let is_fine = text.replace(NAMED, "other").parse::<Address>().is_ok();
    if !is_fine {
        let forms = format!("{ADDRESSES}, without a user or password, or {IN_PROCESS} for this node itself");
        section.mistake(at, format!("`url` in {} must be {forms}", section.title));
    }
    is_fine
}

fn admin(mut section: Section<'_>, has_tokens: bool) -> Admin {
    let listen = section.text("listen").and_then(|(text, at)| match text.parse::<SocketAddr>() {
        Ok(address) => Some((address, at)),
        Err(_) => {
            section.mistake(&at, "`listen` in [admin] must be an address and a port, like 127.0.0.1:7411");
            None
        }
    });
    let tls = Tls::of_listener(&mut section);
    let hosts = section.list("hosts").unwrap_or_default();
    for (host, at) in &hosts {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_name) {
            section.mistake(at, "`hosts` in [admin] must be host names without a port, like node.example.com");
        }
    }
    let exposed = listen.as_ref().filter(|(address, _)| !address.ip().is_loopback());
    if let Some((_, at)) = exposed.filter(|_| tls.is_none() || !has_tokens || hosts.is_empty()) {
        let needed = "`tls_cert` and `tls_key`, `hosts`, and a section [tokens.NAME]";
        let what = format!("an address that other machines can reach needs {needed}; or write 127.0.0.1:7411");
        section.mistake(at, format!("`listen` in [admin]: {what}"));
    }
    section.finish();
    let (listen, hosts) = (listen.map(|(address, _)| address), hosts.into_iter().map(|(host, _)| host).collect());
    Admin { listen, hosts, tls }
}

fn service((name, mut section): (String, Section<'_>), transport: Option<TransportType>) -> Option<Service> {
    if name != EVERY {
        check_name(&section, &name, &section.at, "the name of a service");
    }
    let url = service_url(&name, &mut section, transport);
    let url = url.filter(|(url, at)| check_url(&section, url, at));
    if let Some((_, at)) = url.as_ref().filter(|(url, _)| url.contains(NAMED) != (name == EVERY)) {
        let why = format!("{NAMED} must be in the `url` of [services.\"*\"], and nowhere else");
        section.mistake(at, format!("`url` in {}: {why}", section.title));
    }
    let keys = section.keys("keys");
    // Messages to the node itself need no signature.
    let is_itself = url.as_ref().is_some_and(|(url, _)| url == IN_PROCESS);
    needs_key(&section, keys.is_empty() && !is_itself);
    let timeout = section.span("timeout", MILLISECOND..=DAY).unwrap_or(30 * SECOND);
    let concurrency = places(section.number("concurrency", 1..=PLACES_MAX), 32);
    let allow_unencrypted = section.flag("allow_unencrypted").unwrap_or(false);
    let (tls, retry) = (Trust::take(&mut section), Retry::take(&mut section));
    let service =
        url.map(|(url, at)| Service { name, at, url, keys, timeout, concurrency, allow_unencrypted, tls, retry });
    if let Some(service) = service.as_ref().filter(|service| !service.allow_unencrypted && is_exposed(&service.url)) {
        let why = "messages would travel unencrypted";
        let instead = format!("write {}://, or set `allow_unencrypted` to true", secured(&service.url));
        section.mistake(&service.at, format!("`url` in {}: {why}; {instead}", section.title));
    }
    section.finish();
    service
}

/// The address of a service. Without a `url`, the default transport derives it from the name.
fn service_url(name: &str, section: &mut Section<'_>, transport: Option<TransportType>) -> Option<(String, At)> {
    let Some(transport) = transport else { return required(section, "https://billing.example.com:7410") };
    let written = section.text("url");
    let (text, at) = match section.place_of("url") {
        Some(_) => written?,
        None => (String::new(), section.at.clone()),
    };
    Some((transport.complete(&text, if name == EVERY { NAMED } else { name }), at))
}

/// The same scheme with TLS.
fn secured(address: &str) -> &'static str {
    if address.starts_with("grpc") { "grpcs" } else { "https" }
}

/// Whether others on the network could read what is sent there.
pub(super) fn is_exposed(address: &str) -> bool {
    let rest = ["http://", "grpc://"].iter().find_map(|scheme| address.strip_prefix(scheme));
    let Some(rest) = rest else { return false };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host != "localhost" && !address.is_ok_and(|address| address.is_loopback())
}

pub(super) fn required(section: &mut Section<'_>, example: &str) -> Option<(String, At)> {
    let url = section.text("url");
    if section.place_of("url").is_none() {
        section.mistake(&section.at, format!("{} needs a `url`, like \"{example}\"", section.title));
    }
    url
}

pub(super) fn needs_key(section: &Section<'_>, is_missing: bool) {
    if is_missing && section.place_of("keys").is_none() {
        let example = "keys = { \"2026-11\" = { env = \"VARIABLE\" } }";
        section.mistake(&section.at, format!("{} needs a key, like {example}", section.title));
    }
}

pub(super) fn places(number: Option<u64>, usual: usize) -> usize {
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or(usual)
}

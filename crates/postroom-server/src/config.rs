//! The configuration of a node: one file and the environment, which overrides it. Everything is checked before anything
//! starts.

mod handlers;
mod keys;
mod nearest;
mod reader;
mod retry;
mod secrets;
mod sections;
mod senders;
mod summary;
mod tls;
mod tokens;
mod tree;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

pub(crate) use handlers::EVERY;
use keys::KeyRef;
pub(crate) use reader::Mistakes;
use reader::{PREFIX, Reader};
pub(crate) use retry::Retry;
pub(crate) use secrets::{Opened, Route};
use secrets::{SecretRef, ValueSource};
pub(crate) use sections::{NAME_RULE, is_name};
use tls::{Tls, Trust};
use tree::{At, Table};

use crate::admin::Token;
use crate::database::Database;
use crate::duration;
use crate::problem::Problem;
use crate::up::backups::{Plan, folder_beside};

/// Every key with its default, and what it means.
pub(crate) const DEFAULT: &str = include_str!("config/default.toml");
/// Read from the current folder when no other file is named.
const FILE: &str = "postroom.toml";
/// Variables that are not keys of the configuration.
const NO_KEYS: [&str; 2] = ["POSTROOM_DB", "POSTROOM_CONFIG"];

/// The configuration of a node.
#[derive(Clone, PartialEq)]
pub(crate) struct Config {
    /// The file it was read from.
    pub(crate) file: Option<PathBuf>,
    pub(crate) name: String,
    pub(crate) store: Store,
    pub(crate) worker: Worker,
    pub(crate) retry: Retry,
    /// Topics with their own retry keys.
    topics: Vec<(String, Retry)>,
    pub(crate) retention: Retention,
    pub(crate) backup: Backup,
    pub(crate) receiver: Receiver,
    pub(crate) admin: Admin,
    pub(crate) tokens: Vec<Token>,
    pub(crate) sources: Vec<Source>,
    pub(crate) services: Vec<Service>,
    pub(crate) handlers: Vec<Handler>,
    /// Topics whose messages services fetch themselves.
    pub(crate) pulled: Vec<String>,
    /// The retry settings of `pulled`, in the same order.
    pulled_retry: Vec<Retry>,
    pub(crate) hooks: Vec<Hook>,
}

#[derive(Clone, PartialEq)]
pub(crate) struct Store {
    url: Option<(ValueSource, At)>,
    pub(crate) deploy_schema: Option<bool>,
    pub(crate) dead_letter_topic: Option<String>,
    /// Whether a pooler may give every transaction a different connection.
    pub(crate) pooler: bool,
}

#[derive(Clone, PartialEq)]
pub(crate) struct Admin {
    pub(crate) listen: Option<SocketAddr>,
    /// The names it is reached by, besides those of this machine.
    pub(crate) hosts: Vec<String>,
    tls: Option<Tls>,
}

#[derive(Clone, PartialEq)]
pub(crate) struct Worker {
    pub(crate) batch: usize,
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    pub(crate) poll_max: Duration,
    pub(crate) concurrency: usize,
    /// `None`: a quarter of them, or an equal share.
    pub(crate) per_place: Option<usize>,
    pub(crate) memory_mib: u64,
    pub(crate) grace: Duration,
}

#[derive(Clone, PartialEq)]
pub(crate) struct Retention {
    pub(crate) outbox: Duration,
    pub(crate) inbox: Duration,
    /// `None`: forever.
    pub(crate) dead: Option<Duration>,
    /// `None`: forever.
    pub(crate) expired: Option<Duration>,
    pub(crate) dismissed: Duration,
    /// `None`: as long as done messages of the inbox.
    pub(crate) seen: Option<Duration>,
    pub(crate) payloads: Duration,
    pub(crate) every: Duration,
}

impl Retention {
    /// The same as the library's type.
    pub(crate) fn kept(&self) -> postroom::worker::Retention {
        let kept = postroom::worker::Retention::default().outbox_done(self.outbox).inbox_done(self.inbox);
        let kept = kept.dead(self.dead).expired(self.expired).dismissed(Some(self.dismissed));
        let kept = kept.inbox_payloads(Some(self.payloads));
        self.seen.into_iter().fold(kept, postroom::worker::Retention::seen)
    }
}

#[derive(Clone, PartialEq)]
pub(crate) struct Backup {
    /// `None`: no backups.
    every: Option<(Duration, At)>,
    keep: Duration,
    folder: Option<PathBuf>,
}

#[derive(Clone, PartialEq)]
pub(crate) struct Receiver {
    /// `None` if the key is not set: then the default address, if it is free.
    pub(crate) listen: Option<Vec<String>>,
    pub(crate) queued: bool,
    pub(crate) window: Duration,
    pub(crate) body_max: usize,
    pub(crate) unverified_max: usize,
    pub(crate) in_flight: usize,
    pub(crate) connections_per_address: usize,
    tls: Option<Tls>,
    pub(crate) allow_unencrypted: bool,
}

impl Receiver {
    /// Whether both are the same except for the certificate. A reload can replace a certificate but not switch TLS on
    /// or off.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let without = |receiver: &Self| Self { tls: None, ..receiver.clone() };
        self.tls.is_some() == other.tls.is_some() && without(self) == without(other)
    }
}

impl Admin {
    /// As `Receiver::is_like`.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let without = |admin: &Self| Self { tls: None, ..admin.clone() };
        self.tls.is_some() == other.tls.is_some() && without(self) == without(other)
    }
}

#[derive(Clone, PartialEq)]
pub(crate) struct Source {
    pub(crate) name: String,
    keys: Vec<KeyRef>,
    pub(crate) window: Option<Duration>,
    pub(crate) allow_v1: bool,
    /// `None`: any.
    pub(crate) topics: Option<Vec<String>>,
}

#[derive(Clone, PartialEq)]
pub(crate) struct Service {
    pub(crate) name: String,
    at: At,
    pub(crate) url: String,
    keys: Vec<KeyRef>,
    timeout: Duration,
    concurrency: usize,
    allow_unencrypted: bool,
    tls: Trust,
    retry: Retry,
}

#[derive(Clone, PartialEq)]
pub(crate) struct Handler {
    pub(crate) topic: String,
    at: At,
    pub(crate) url: String,
    secrets: Vec<SecretRef>,
    timeout: Duration,
    concurrency: usize,
    tls: Trust,
    retry: Retry,
}

#[derive(Clone, PartialEq)]
pub(crate) struct Hook {
    pub(crate) name: String,
    at: At,
    scheme: Scheme,
    secrets: Vec<SecretRef>,
    /// `None`: any.
    topics: Option<Vec<String>>,
    cloud_events: bool,
}

/// How a provider of webhooks signs.
#[derive(Clone, Copy, PartialEq)]
enum Scheme {
    StandardWebhooks,
    Stripe,
    GitHub,
}

/// Reads the named file, or the one in the current folder. Without a file the defaults apply.
pub(crate) fn load(named: Option<&Path>) -> Result<Config> {
    let file = named.map(Path::to_owned).or_else(|| Some(PathBuf::from(FILE)).filter(|path| path.exists()));
    let Some(path) = file else { return Ok(Config::read(None, "", environment())?) };
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let what = format!("there is no configuration at {}", path.display());
            let advice = format!("`postroom config print > {}`, which creates it", path.display());
            return Err(Problem::new(what, advice).into());
        }
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    };
    Ok(Config::read(Some(path), &text, environment())?)
}

fn environment() -> BTreeMap<String, String> {
    let ours = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let ours = ours.filter(|(name, _)| name.starts_with(PREFIX) && !NO_KEYS.contains(&name.as_str()));
    ours.map(|(name, value)| (name, value.to_string_lossy().into_owned())).collect()
}

impl Config {
    fn read(file: Option<PathBuf>, text: &str, environment: BTreeMap<String, String>) -> Result<Self, Mistakes> {
        let shown = file.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
        let root: Table = tree::parse(text).map_err(|told| Mistakes::new(told, &shown))?;
        let reader = Reader::new(environment);
        let config = sections::read(&reader, root, file);
        reader.finish(&shown)?;
        Ok(config)
    }

    /// The file's name as the user wrote it.
    fn shown(&self) -> String {
        self.file.as_deref().map(|path| path.display().to_string()).unwrap_or_default()
    }

    /// The longest window of any source.
    fn longest(&self, window: Duration) -> Duration {
        self.sources.iter().filter_map(|source| source.window).fold(window, Duration::max)
    }

    /// How long the inbox must remember a message: the longest window and a little more.
    pub(crate) fn taken_for(&self) -> Duration {
        self.longest(self.receiver.window) + sections::RETENTION_MARGIN
    }

    /// The error if `kept` is too short for `window`, or for the window of a source.
    pub(crate) fn forgets_early(&self, kept: &Retention, window: Duration) -> Option<String> {
        let (window, known_for) = (self.longest(window), kept.kept().known_for());
        let (kept, taken) = (duration::short(known_for), duration::short(window));
        let why = "a duplicate could be handled again; keep messages for at least ten minutes longer than the window";
        let what = format!("[retention] keeps inbox messages for {kept}, but the dedupe window is {taken}: {why}");
        (known_for < window + sections::RETENTION_MARGIN).then_some(what)
    }

    /// The folder that relative paths start at.
    pub(crate) fn folder(&self) -> &Path {
        self.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""))
    }

    /// The backup plan for that database, if there is one.
    pub(crate) fn backups(&self, database: &Database) -> Result<Option<Plan>> {
        let Some((every, at)) = &self.backup.every else { return Ok(None) };
        let Database::Sqlite(file) = database else {
            let what = format!(
                "`every` in [backup]: only a SQLite file is backed up, and this database is {}; remove [backup] and \
                 use the server's own tools",
                database.kind()
            );
            return Err(Mistakes::new(vec![(at.clone(), what)], &self.shown()).into());
        };
        let folder = self.backup.folder.as_ref().map(|folder| self.folder().join(folder));
        let folder = folder.unwrap_or_else(|| folder_beside(file));
        Ok(Some(Plan { every: *every, keep: self.backup.keep, folder }))
    }

    /// The database, unless the command line names another.
    pub(crate) fn database(&self) -> Result<Database> {
        let Some((place, at)) = &self.store.url else { return Database::parse(Path::new("postroom.db")) };
        let wrong = |what: String| Mistakes::new(vec![(at.clone(), what)], &self.shown());
        let text = match place {
            ValueSource::Here(text) => text.clone(),
            ValueSource::Variable(name) => std::env::var(name)
                .map_err(|_| wrong(format!("`url` in [store]: the environment variable {name} is not set")))?,
            ValueSource::File(path) => secrets::read_private(&self.folder().join(path))
                .map_err(|error| wrong(format!("`url` in [store]: {}: {error}", path.display())))?,
        };
        match Database::parse(Path::new(text.trim()))? {
            Database::Sqlite(path) => Ok(Database::Sqlite(self.folder().join(path))),
            server => Ok(server),
        }
    }
}

#[cfg(test)]
mod tests;

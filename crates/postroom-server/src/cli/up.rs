//! `postroom up`: runs a node.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use postroom::mssql::Mssql;
use postroom::mysql::MySql;
use postroom::postgres::Postgres;
use postroom::queue::{BATCH_MAX, LEASE_MAX};
use postroom::sqlite::Sqlite;

use super::Global;
use crate::config::{self, Config};
use crate::database::{Database, absolute};
use crate::open::Opened;
use crate::up::backups::Backups;
use crate::up::greeting::quoted;
use crate::up::signals::{HangUps, Signals};
use crate::up::{Command, Node, run};
use crate::{duration, open};

/// Run a node: handle the messages of both queues, send to other services and receive from them
///
/// The node reads postroom.toml; `postroom config print` explains every key. Command-line options override the file. On
/// SIGTERM, the node finishes the messages in progress and stops; a second SIGTERM stops it at once. On SIGHUP, it
/// reloads secrets, tokens, certificates, sources, services and handlers.
///
/// The node creates a missing SQLite file and its tables. It creates the tables of a server only if the configuration
/// says so (`deploy_schema`); otherwise run `postroom migrate` once.
///
/// The node posts each message to its handler in the configuration. Messages without a handler wait. Without a
/// configuration file, or with --print, the node prints each message as a line of JSON and marks it done.
///
/// With --exec, the node runs a command for each message. The command gets the payload on stdin and the variables
/// POSTROOM_QUEUE, POSTROOM_MESSAGE_ID, POSTROOM_TOPIC and POSTROOM_ATTEMPT, and POSTROOM_SOURCE, POSTROOM_DESTINATION
/// and POSTROOM_CORRELATION_ID if the message has them. Exit code 0 means done, and its stdout (up to 64 KiB) is stored
/// as the response. Exit code 65 means that the message is dead, without a retry. Any other exit code means a retry,
/// with the end of stderr as the error. Delivery is at least once: the command may see a message twice.
#[derive(Args)]
pub(crate) struct Up {
    /// Run this command for each message, through `sh -c`
    #[arg(long, value_name = "CMD")]
    exec: Option<String>,

    /// With --exec: kill a command that takes longer than this, and retry the message later
    #[arg(long, value_name = "DUR", requires = "exec", value_parser = duration::parse_positive)]
    timeout: Option<Duration>,

    /// Print each message and mark it done, in place of the handlers. This is the default without a configuration file
    #[arg(long, conflicts_with = "exec")]
    print: bool,

    /// When messages are printed, print the payload too. It may contain secrets
    #[arg(long, conflicts_with = "exec")]
    show_payload: bool,

    /// Claim at most this many messages at once [default: 50]
    #[arg(long, value_name = "N", value_parser = rows())]
    batch: Option<usize>,

    /// How long a claimed message stays reserved if this process dies. The lease is renewed while the message is in
    /// progress [default: 30s]
    #[arg(long, value_name = "DUR", value_parser = parse_lease)]
    lease: Option<Duration>,

    /// Handle at most this many messages of each queue at once [default: 16]
    #[arg(long, value_name = "N", value_parser = rows())]
    concurrency: Option<usize>,

    /// How often to poll for messages when nothing announces them [default: 500ms]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    poll: Option<Duration>,

    /// How long messages in progress may take to finish when the node stops [default: 30s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    grace: Option<Duration>,
}

impl Up {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let signals = (Signals::new()?, HangUps::new()?);
        let read = config::load(global.config())?;
        let (config, secrets) = (self.over(read.clone()), read.open()?);
        let database = global.named_database().unwrap_or_else(|| config.database())?;
        let plan = config.backups(&database)?;
        let opened = open::for_node(&database, &config.store).await?;
        let exec = self.exec.map(|text| (text.clone(), Command::new(text, self.timeout, read.secret_variables())));
        let (named, show_payload) = (global.config().map(Into::into), self.show_payload);
        let option = option(global, &config, &database);
        let backups = match (&opened, plan) {
            (Opened::Sqlite(store), Some(plan)) => Some(Backups::new(store.clone(), plan)?),
            _ => None,
        };
        let prints = exec.is_none() && (self.print || config.file.is_none());
        let node = Node { config, read, secrets, named, database, option, exec, prints, show_payload, backups };
        match opened {
            Opened::Sqlite(store) => Box::pin(run::<Sqlite>(node, store, signals)).await,
            Opened::Postgres(store) => Box::pin(run::<Postgres>(node, store, signals)).await,
            Opened::MySql(store) => Box::pin(run::<MySql>(node, store, signals)).await,
            Opened::Mssql(store) => Box::pin(run::<Mssql>(node, store, signals)).await,
        }
    }

    /// The configuration with the command-line options applied.
    fn over(&self, mut config: Config) -> Config {
        let worker = &mut config.worker;
        worker.batch = self.batch.unwrap_or(worker.batch);
        worker.lease = self.lease.unwrap_or(worker.lease);
        worker.concurrency = self.concurrency.unwrap_or(worker.concurrency);
        worker.poll = self.poll.unwrap_or(worker.poll);
        worker.poll_max = worker.poll_max.max(worker.poll);
        worker.grace = self.grace.unwrap_or(worker.grace);
        config
    }
}

/// The option with which another command finds the same database. It never contains a password.
fn option(global: &Global, config: &Config, database: &Database) -> String {
    match &config.file {
        _ if database.is_public() => format!("--db {}", quoted(&database.shown())),
        Some(file) if global.named_database().is_none() && std::env::var_os("POSTROOM_STORE_URL").is_none() => {
            format!("--config {}", quoted(&absolute(file).to_string_lossy()))
        }
        _ if global.named_database().is_none() => "--db \"$POSTROOM_STORE_URL\"".into(),
        _ => "--db \"$POSTROOM_DB\"".into(),
    }
}

fn rows() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=BATCH_MAX as u64)
}

fn parse_lease(text: &str) -> Result<Duration, String> {
    match duration::parse_positive(text)? {
        lease if lease > LEASE_MAX => Err(format!("it must be at most {}", duration::short(LEASE_MAX))),
        lease => Ok(lease),
    }
}

//! `postroom up`: a node on a database.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use postroom::{BATCH_MAX, LEASE_MAX, Mssql, MySql, Postgres, Sqlite};

use super::Global;
use crate::config::{self, Config};
use crate::database::{Database, absolute};
use crate::open::Opened;
use crate::up::backups::Backups;
use crate::up::greeting::quoted;
use crate::up::signals::{HangUps, Signals};
use crate::up::{Command, Node, run};
use crate::{duration, open};

/// Work on both queues of the database, receive from other services and send to them; a file that is missing is created
///
/// What it does stands in postroom.toml: `postroom config print` explains every key. Options go before it. SIGTERM ends
/// it once what is in hand is finished, a second one at once; on SIGHUP it reads secrets,
/// sources, services and handlers again.
///
/// A server's tables are not created by this, unless the configuration says so: `postroom migrate` does it once.
///
/// Without --exec messages are posted to the handlers of the configuration; without those, each is printed as a line of
/// JSON and done. With --exec each message goes to a command instead: payload on stdin, and in the environment
/// POSTROOM_QUEUE, POSTROOM_MESSAGE_ID, POSTROOM_TOPIC, POSTROOM_ATTEMPT and, where there is one, POSTROOM_SOURCE,
/// POSTROOM_DESTINATION and POSTROOM_CORRELATION_ID. Exit status 0 means done, and what it printed (up to 64 KiB) is
/// stored as the response; 65 means never try again; any other means try again later, with the end of stderr as the
/// reason. Messages are delivered at least once: the command may see one twice.
#[derive(Args)]
pub(crate) struct Up {
    /// Run this command for each message, through `sh -c`
    #[arg(long, value_name = "CMD")]
    exec: Option<String>,

    /// With --exec: kill a command that takes longer, and try again later
    #[arg(long, value_name = "DUR", requires = "exec", value_parser = duration::parse_positive)]
    timeout: Option<Duration>,

    /// Print the payload too; it may hold secrets
    #[arg(long, conflicts_with = "exec")]
    show_payload: bool,

    /// Claim at most so many messages at once [default: 50]
    #[arg(long, value_name = "N", value_parser = rows())]
    batch: Option<usize>,

    /// How long a message stays ours when this process vanishes; renewed while a command runs [default: 30s]
    #[arg(long, value_name = "DUR", value_parser = parse_lease)]
    lease: Option<Duration>,

    /// Work on at most so many messages of each queue at once [default: 16]
    #[arg(long, value_name = "N", value_parser = rows())]
    concurrency: Option<usize>,

    /// How often to look for messages when nothing announces them [default: 500ms]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_positive)]
    poll: Option<Duration>,

    /// How long to finish what is in hand when told to stop [default: 30s]
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
        let node = Node { config, read, secrets, named, database, option, exec, show_payload, backups };
        match opened {
            Opened::Sqlite(store) => Box::pin(run::<Sqlite>(node, store, signals)).await,
            Opened::Postgres(store) => Box::pin(run::<Postgres>(node, store, signals)).await,
            Opened::MySql(store) => Box::pin(run::<MySql>(node, store, signals)).await,
            Opened::Mssql(store) => Box::pin(run::<Mssql>(node, store, signals)).await,
        }
    }

    /// The configuration with what the command line says.
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

/// How another command finds the same database. A password stays where it is: in the environment, or where the file
/// says.
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

//! `postroom up`: a worker on both queues of a database.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use postroom::{BATCH_MAX, Backend, Handlers, LEASE_MAX, MySql, Postgres, Sqlite, Worker, WorkerOptions};

use super::Global;
use crate::open::Opened;
use crate::problem::Problem;
use crate::up::{exec, greeting, print, signals};
use crate::{duration, open};

/// Work on both queues of the database; a file that is missing is created
///
/// A server's tables are not created by this: `postroom migrate` does it once.
///
/// Without --exec each message is printed as a line of JSON and done. With it each message goes to a command: payload
/// on stdin, and in the environment POSTROOM_QUEUE, POSTROOM_MESSAGE_ID, POSTROOM_TOPIC, POSTROOM_ATTEMPT and, where
/// there is one, POSTROOM_SOURCE, POSTROOM_DESTINATION and POSTROOM_CORRELATION_ID. Exit status 0 means done, and what
/// it printed (up to 64 KiB) is stored as the response; 65 means never try again; any other means try again later, with
/// the end of stderr as the reason. Messages are delivered at least once: the command may see one twice.
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

    /// Claim at most so many messages at once
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = rows())]
    batch: usize,

    /// How long a message stays ours when this process vanishes; renewed while a command runs
    #[arg(long, value_name = "DUR", default_value = "30s", value_parser = parse_lease)]
    lease: Duration,

    /// Work on at most so many messages of each queue at once
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = rows())]
    concurrency: usize,

    /// How often to look for messages when nothing announces them
    #[arg(long, value_name = "DUR", default_value = "500ms", value_parser = duration::parse_positive)]
    poll: Duration,

    /// How long to finish what is in hand when told to stop
    #[arg(long, value_name = "DUR", default_value = "30s", value_parser = duration::parse)]
    grace: Duration,
}

impl Up {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let signals = signals::Signals::new()?;
        let database = global.database()?;
        let opened = open::or_create(&database).await?;
        greeting::greet(&database, self.exec.as_deref());
        match opened {
            Opened::Sqlite(store) => self.work::<Sqlite>(store, signals).await,
            Opened::Postgres(store) => self.work::<Postgres>(store, signals).await,
            Opened::MySql(store) => self.work::<MySql>(store, signals).await,
        }
    }

    /// Works on both queues until it is told to stop.
    async fn work<B: Backend>(self, store: B::Store, mut signals: signals::Signals) -> Result<()> {
        let (stop, stopped) = signals::stop();
        let outbox = Worker::<B>::outbox(store.clone(), self.handlers(&stop)).options(self.options());
        let outbox = match self.command() {
            Some(command) => outbox.transport(command),
            None => outbox,
        };
        let inbox = Worker::<B>::inbox(store, self.handlers(&stop)).options(self.options());
        let (outbox, inbox) = (outbox.run(stopped.clone().wait()), inbox.run(stopped.clone().wait()));
        let mut working = Box::pin(async { tokio::try_join!(outbox, inbox) });
        loop {
            tokio::select! {
                ended = &mut working => {
                    ended?;
                    break;
                }
                name = signals.next() => {
                    if stop.is_asked() {
                        bail!(Problem::new(
                            "ended at once by a second signal",
                            "`postroom up` again: what was in hand is taken over when its lease is over"
                        ));
                    }
                    let grace = duration::short(self.grace);
                    eprintln!("{name}: finishing what is in hand, at most {grace}; again to end at once");
                    stop.ask();
                }
            }
        }
        if stop.lost_stdout() {
            bail!(Problem::new("stdout was closed", "again with stdout open: what could not be printed is not done"));
        }
        Ok(())
    }

    fn command(&self) -> Option<exec::Command> {
        self.exec.clone().map(|command| exec::Command::new(command, self.timeout))
    }

    fn handlers<B: Backend>(&self, stop: &signals::Stop) -> Handlers<B> {
        match self.command() {
            Some(command) => Handlers::new().state(command).fallback(exec::handle::<B>),
            None => {
                let printer = print::Printer::new(self.show_payload, stop.clone());
                Handlers::new().state(printer).fallback(print::handle::<B>)
            }
        }
    }

    fn options(&self) -> WorkerOptions {
        WorkerOptions::default()
            .batch(self.batch)
            .lease(self.lease)
            .concurrency(self.concurrency)
            .poll(self.poll)
            .grace(self.grace)
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

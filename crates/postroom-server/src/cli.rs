//! The command line: the list of commands and their common options.

mod audit;
mod backup;
mod bench;
mod cancel;
mod completions;
mod config;
mod confirm;
mod demo;
mod dismiss;
mod doctor;
mod explain;
mod failed;
mod lanes;
mod lookup;
mod migrate;
mod purge;
mod redrive;
mod restore;
mod retry;
mod revive;
mod rules;
mod send;
mod show;
mod signed;
mod stats;
mod tail;
mod token;
mod top;
mod up;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use postroom::queue::Queue;

use crate::database::Database;
use crate::problem::Problem;

const AFTER_HELP: &str = "\
Results go to stdout; everything else goes to stderr.

Exit codes: 0 success, 1 error, 2 wrong usage, 3 no message has this id, 4 `doctor` found a problem,
5 the tables are missing or have another version (`migrate --check`, `explain`).
Write durations as 250ms, 10s, 5m, 2h or 7d.
RUST_LOG sets the log level, for example RUST_LOG=postroom=debug.";

const HEADING: &str = "Options of every command";

/// Reliable messaging on the database you already have: a transactional outbox and inbox on SQLite, PostgreSQL, MySQL,
/// MariaDB and SQL Server.
#[derive(Parser)]
#[command(name = "postroom", version, after_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    command: Command,
}

/// The options of every command.
#[derive(Args)]
pub(crate) struct Global {
    /// The database: a SQLite file, or the URL of a server: postgres://, mysql:// or mssql://USER@HOST/DATABASE. Put a
    /// URL with a password in POSTROOM_DB instead, so that other users of this machine cannot see it. The default is
    /// the database in the configuration, or else postroom.db
    #[arg(long, visible_alias = "database", global = true, help_heading = HEADING, env = "POSTROOM_DB",
          hide_env_values = true, default_value = "",
          hide_default_value = true, value_parser = OsStringValueParser::new().map(PathBuf::from),
          value_name = "PATH or URL")]
    db: PathBuf,

    /// The configuration file. The default is postroom.toml in the current folder, if it exists
    #[arg(long, global = true, help_heading = HEADING, env = "POSTROOM_CONFIG", value_name = "PATH")]
    config: Option<PathBuf>,

    /// Print JSON
    #[arg(long, global = true, help_heading = HEADING)]
    pub(crate) json: bool,

    /// Log more: -v logs what happens to each message, -vv logs everything
    #[arg(long, short, global = true, help_heading = HEADING, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

impl Global {
    /// The database from the command line, or else from the configuration.
    pub(crate) fn database(&self) -> Result<Database> {
        self.named_database().unwrap_or_else(|| crate::config::load(self.config())?.database())
    }

    /// The database, if the command line or POSTROOM_DB names one.
    pub(crate) fn named_database(&self) -> Option<Result<Database>> {
        (!self.db.as_os_str().is_empty()).then(|| Database::parse(&self.db))
    }

    /// The configuration file from the command line or POSTROOM_CONFIG, if any.
    pub(crate) fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }
}

#[derive(Subcommand)]
enum Command {
    Up(up::Up),
    Send(send::Send),
    Stats(stats::Stats),
    Top(top::Top),
    Tail(tail::Tail),
    Failed(failed::Failed),
    Show(show::Show),
    Explain(explain::Explain),
    Retry(retry::Retry),
    Revive(revive::Revive),
    Dismiss(dismiss::Dismiss),
    Cancel(cancel::Cancel),
    Redrive(redrive::Redrive),
    Pause(rules::Pause),
    Resume(rules::Resume),
    Limit(rules::SetLimit),
    Rules(rules::Rules),
    Lanes(lanes::Lanes),
    Purge(purge::Purge),
    Audit(audit::Audit),
    Migrate(migrate::Migrate),
    Doctor(doctor::Doctor),
    Bench(bench::Bench),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Config(config::Config),
    Token(token::Token),
    Demo(demo::Demo),
    Completions(completions::Completions),
    Man(completions::Man),
    #[command(hide = true)]
    DemoProducer(demo::Producer),
    #[command(hide = true)]
    DemoWorker(demo::Worker),
}

impl Cli {
    pub(crate) async fn run(self) -> Result<()> {
        let global = &self.global;
        match self.command {
            Command::Up(up) => up.run(global).await,
            Command::Send(send) => send.run(global).await,
            Command::Stats(stats) => stats.run(global).await,
            Command::Top(top) => top.run(global).await,
            Command::Tail(tail) => tail.run(global).await,
            Command::Failed(failed) => failed.run(global).await,
            Command::Show(show) => show.run(global).await,
            Command::Explain(explain) => explain.run(global).await,
            Command::Retry(retry) => retry.run(global).await,
            Command::Revive(revive) => revive.run(global).await,
            Command::Dismiss(dismiss) => dismiss.run(global).await,
            Command::Cancel(cancel) => cancel.run(global).await,
            Command::Redrive(redrive) => redrive.run(global).await,
            Command::Pause(pause) => pause.run(global).await,
            Command::Resume(resume) => resume.run(global).await,
            Command::Limit(limit) => limit.run(global).await,
            Command::Rules(rules) => rules.run(global).await,
            Command::Lanes(lanes) => lanes.run(global).await,
            Command::Purge(purge) => purge.run(global).await,
            Command::Audit(audit) => audit.run(global).await,
            Command::Migrate(migrate) => migrate.run(global).await,
            Command::Doctor(doctor) => doctor.run(global).await,
            Command::Bench(bench) => bench.run(global).await,
            Command::Backup(backup) => backup.run(global).await,
            Command::Restore(restore) => restore.run(global).await,
            Command::Config(config) => config.run(global),
            Command::Token(token) => token.run(global),
            Command::Demo(demo) => demo.run(global).await,
            Command::Completions(completions) => completions.run(global),
            Command::Man(man) => man.run(global),
            Command::DemoProducer(producer) => producer.run(global).await,
            Command::DemoWorker(worker) => worker.run(global).await,
        }
    }
}

/// One of the two queues, as a command-line option.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum QueueArg {
    /// Messages that were enqueued here
    Outbox,
    /// Messages that arrived from other services
    Inbox,
}

impl QueueArg {
    /// The given queue, or both.
    fn or_both(named: Option<Self>) -> Vec<Queue> {
        match named {
            None => vec![Queue::Outbox, Queue::Inbox],
            Some(Self::Outbox) => vec![Queue::Outbox],
            Some(Self::Inbox) => vec![Queue::Inbox],
        }
    }

    /// The queues that can hold messages to that destination or from that source.
    fn with_parties(named: Option<Self>, destination: Option<&str>, source: Option<&str>) -> Result<Vec<Queue>> {
        let mut queues = Self::or_both(named);
        queues.retain(|queue| match queue {
            Queue::Outbox => source.is_none(),
            Queue::Inbox => destination.is_none(),
        });
        if queues.is_empty() {
            let what = "only the outbox has destinations, and only the inbox has sources";
            let advice = "--destination with the outbox, --source with the inbox, or no --queue";
            return Err(Problem::new(what, advice).into());
        }
        Ok(queues)
    }
}

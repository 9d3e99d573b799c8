//! `postroom-torture`: kills and pauses real processes, and looks for lost or doubled messages.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use postroom::testing::Sabotage;
use postroom_conformance::torture::{self, ChildOptions, Database, Options, Role, Scenario};
use tracing_subscriber::filter::LevelFilter;

/// Kills and pauses real processes while messages go through them, and looks for lost or doubled ones
#[derive(Debug, Parser)]
#[command(name = "postroom-torture")]
struct Cli {
    /// Where the messages are
    #[arg(long, value_enum, default_value_t = Database::Sqlite)]
    backend: Database,
    /// How many processes to kill
    #[arg(long, default_value_t = 50)]
    kills: u32,
    /// How many orders to place
    #[arg(long, default_value_t = 5000)]
    messages: u64,
    /// Put the orders into this many lanes in turn, and look for effects that are out of order; without lanes at 0
    #[arg(long, default_value_t = 0, default_missing_value = "50", num_args = 0..=1)]
    lanes: u64,
    /// How many workers to pause beyond their lease; two for every five kills by default
    #[arg(long)]
    pauses: Option<u32>,
    /// Two services with a faulty wire between them
    #[arg(long)]
    services: bool,
    /// Only this failure between the two services
    #[arg(long, value_enum, requires = "services")]
    scenario: Option<Scenario>,
    /// How often to kill the server; one for every five kills by default, never one that is not ours
    #[arg(long)]
    server_kills: Option<u32>,
    /// How often to end all connections to the server; one for every five kills by default
    #[arg(long)]
    storms: Option<u32>,
    /// How often to cut connections between a COMMIT and its answer; one for every five kills by default
    #[arg(long)]
    cuts: Option<u32>,
    /// Where everything random comes from; a random one by default
    #[arg(long)]
    seed: Option<u64>,
    /// Also write the outcome to this file, as JSON
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// Take a guard away; then the run must fail: fencing or ack-outside
    #[arg(long, value_name = "GUARD")]
    sabotage: Option<Sabotage>,
    /// The folder to work in; one that is thrown away by default
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Keep the folder
    #[arg(long)]
    keep: bool,
    /// Play a child's part
    #[arg(long, hide = true, requires = "dir", requires = "seed")]
    role: Option<Role>,
    /// How a child reaches the server
    #[arg(long, hide = true)]
    server: Option<String>,
    /// Where a sender finds the receiver
    #[arg(long, hide = true)]
    peer: Option<String>,
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    // Under fire there is an error with every strike: they are shown only on request.
    let silent = tracing_subscriber::EnvFilter::builder().with_default_directive(LevelFilter::OFF.into());
    let filter = silent.from_env_lossy();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let seed = cli.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    if let (Some(role), Some(dir)) = (cli.role, cli.dir.clone()) {
        let (database, messages, sabotage) = (cli.backend, cli.messages, cli.sabotage);
        torture::child(ChildOptions {
            role,
            database,
            server: cli.server,
            dir,
            seed,
            messages,
            lanes: cli.lanes,
            sabotage,
            peer: cli.peer,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let server_kills = match (cli.backend, cli.server_kills) {
        // The one that the environment names is somebody else's.
        (Database::Mssql, Some(1..)) => anyhow::bail!("--server-kills: that server is not ours to kill"),
        (Database::Mssql, _) => 0,
        (_, asked) => asked.unwrap_or(cli.kills / 5),
    };
    let report = torture::run(&Options {
        executable: std::env::current_exe().context("this program does not know where it is")?,
        database: cli.backend,
        kills: cli.kills,
        messages: cli.messages,
        lanes: cli.lanes,
        // A pause is about two workers that take over from each other.
        pauses: if cli.services { 0 } else { cli.pauses.unwrap_or(cli.kills * 2 / 5) },
        services: cli.services,
        scenario: cli.scenario,
        server_kills,
        storms: cli.storms.unwrap_or(cli.kills / 5),
        cuts: cli.cuts.unwrap_or(cli.kills / 5),
        seed,
        sabotage: cli.sabotage,
        dir: cli.dir,
        keep: cli.keep,
    })?;
    println!("{report}");
    if let Some(path) = &cli.json {
        let json = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, json + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(if report.failures().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! `cargo xtask bench`: Postroom beside plain SQL through the same driver, in one run, at the same durability. Figures
//! are ratios: above 1 is better than raw.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures the machine's own time")]

mod beside;
mod lanes;
mod measure;
mod report;
mod server;
mod services;
mod sqlite;
mod tenants;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use report::Report;

/// Measures Postroom against the best plain SQL for the job.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask bench")]
struct Args {
    /// Finish within a minute: smaller tables, shorter runs.
    #[arg(long)]
    quick: bool,
    /// Only on these databases. Servers are started for the run, with every commit waiting for the disk.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Database::ALL)]
    backend: Vec<Database>,
    /// Only these cases, by their letters: `--only a,c`.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Write the figures as a list of {backend, case, unit, postroom, baseline, ratio}.
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// Where the databases go: a disk whose fsync is the one you care about.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Drain this file and print the memory it took.
    #[arg(long, hide = true, requires = "rows")]
    drain: Option<PathBuf>,
    /// Work on this many stores in this folder or server, measure what that costs, and print it.
    #[arg(long, hide = true, requires_all = ["rows", "seconds"])]
    idle: Option<String>,
    /// Play another process's part.
    #[arg(long, hide = true)]
    play: Option<String>,
    #[arg(long, hide = true)]
    rows: Option<usize>,
    #[arg(long, hide = true)]
    seconds: Option<f64>,
}

/// Where to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Database {
    Sqlite,
    Postgres,
    Mariadb,
}

impl Database {
    const ALL: [Self; 3] = [Self::Sqlite, Self::Postgres, Self::Mariadb];
}

/// How large the cases are.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    messages: usize,
    seconds: f64,
    rounds: usize,
    done_rows: usize,
    pending_rows: usize,
    memory_rows: usize,
    passing: usize,
    idle_stores: usize,
    idle_databases: usize,
    idle_seconds: f64,
}

const FULL: Sizes = Sizes {
    messages: 100_000,
    seconds: 4.0,
    rounds: 1_000,
    done_rows: 5_000_000,
    pending_rows: 1_000_000,
    memory_rows: 1_000_000,
    passing: 200_000,
    idle_stores: 500,
    idle_databases: 50,
    idle_seconds: 20.0,
};
const QUICK: Sizes = Sizes {
    messages: 40_000,
    seconds: 1.5,
    rounds: 200,
    done_rows: 200_000,
    pending_rows: 100_000,
    memory_rows: 100_000,
    passing: 30_000,
    idle_stores: 100,
    idle_databases: 10,
    idle_seconds: 5.0,
};

/// A task beside the measurement.
fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    tokio::spawn(work)
}

/// 256 bytes, as in every case.
const PAYLOAD_BYTES: usize = 256;

fn payload() -> String {
    "x".repeat(PAYLOAD_BYTES)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let (Some(path), Some(rows)) = (&args.drain, args.rows) {
        return sqlite::memory::drain(path, rows).await;
    }
    if let (Some(place), Some(stores), Some(seconds)) = (&args.idle, args.rows, args.seconds) {
        return tenants::idle(place, stores, seconds).await;
    }
    if let Some(part) = &args.play {
        return services::play(part, args.dir.as_deref()).await;
    }
    let sizes = if args.quick { QUICK } else { FULL };
    let wants = |case: &str| args.only.is_empty() || args.only.iter().any(|only| only == case);
    let mut report = Report::default();
    for database in &args.backend {
        match database {
            Database::Sqlite => sqlite::run(args.dir.as_deref(), sizes, &wants, &mut report).await?,
            Database::Postgres => {
                Box::pin(server::run::<postroom::postgres::Postgres>(sizes, &wants, &mut report)).await?;
            }
            Database::Mariadb => Box::pin(server::run::<postroom::mysql::MySql>(sizes, &wants, &mut report)).await?,
        }
    }
    report.print();
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_string_pretty(&report.rows)?)?;
    }
    Ok(())
}

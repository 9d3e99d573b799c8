//! The `postroom` binary: a worker for services in any language, and the command line for operators.

mod admin;
mod bench;
mod cli;
mod config;
mod database;
mod demo;
mod duration;
mod lane;
mod open;
mod operator;
mod output;
mod problem;
mod up;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use tracing_subscriber::EnvFilter;

use cli::Cli;

/// At exit, the program waits at most this long for tasks that do not stop.
const LEAVE_TIME: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr(cli.global.verbose);
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => problem::report(&error),
    }
}

fn run(cli: Cli) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the threads of the program")?;
    let result = runtime.block_on(async {
        let result = cli.run().await;
        open::close_all().await;
        result
    });
    runtime.shutdown_timeout(LEAVE_TIME);
    result
}

fn log_to_stderr(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    // The SQL Server driver logs the text of its errors, which may contain user data.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(format!("{level},tiberius=off")));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}

//! Case w: from service to service. One sender, one receiver in its own process, both on SQLite at FULL; the
//! handler writes one row, exactly once.
//!
//! The limit is what is left when the same HTTP exchange without a database and the raw work of both databases have to
//! share the time: 1 / (1/i + 1/ii). Case p is the same without a wire, measured against the raw work alone.

mod databases;
mod exchange;
mod postroom_pair;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::{Report, Sizes};

/// How many messages are on their way at once, in every part of the case.
pub(crate) const IN_FLIGHT: usize = 64;
const ROUNDS: usize = 3;

pub(crate) async fn run(dir: &Path, sizes: Sizes, wants: &impl Fn(&str) -> bool, report: &mut Report) -> Result<()> {
    let messages = sizes.messages / 2;
    let (mut raw, mut exchanged, mut signed, mut sent, mut handed) = (0f64, 0f64, 0f64, 0f64, 0f64);
    if !wants("w") && !wants("p") {
        return Ok(());
    }
    databases::print_statements();
    // In turns, so that what else the machine does hits all of them; the best of each counts.
    for _ in 0..ROUNDS {
        raw = raw.max(databases::both(dir, messages)?);
        if wants("w") {
            exchanged = exchanged.max(exchange::rate(messages).await?);
            signed = signed.max(postroom_pair::signed_only(dir, messages).await?);
            sent = sent.max(postroom_pair::over_http(dir, messages).await?);
        }
        if wants("p") {
            handed = handed.max(postroom_pair::in_process(dir, messages).await?);
        }
    }
    if wants("w") {
        let limit = 1.0 / (1.0 / exchanged + 1.0 / raw);
        report.rate("w: exchanges without a database, beside the limit", "msg/s", exchanged, limit);
        report.rate("w: raw work of both databases, beside the limit", "msg/s", raw, limit);
        report.rate("w: service to service over HTTP, exactly once", "msg/s", sent, limit);
        where_the_rest_goes(exchanged, raw, signed, sent);
    }
    if wants("p") {
        report.rate("p: service to service in process, exactly once", "msg/s", handed, raw);
    }
    Ok(())
}

/// What a message takes beyond both baselines, and what for.
fn where_the_rest_goes(exchanged: f64, raw: f64, signed: f64, sent: f64) {
    let micros = |rate: f64| 1e6 / rate;
    let wire = micros(signed) - micros(exchanged);
    let rows = micros(sent) - micros(signed) - micros(raw);
    println!("w: {:.1} µs a message, of which", micros(sent));
    println!("    {:>6.1} µs  the exchange alone", micros(exchanged));
    println!("    {:>6.1} µs  the raw work of both databases", micros(raw));
    println!("    {wire:>6.1} µs  envelopes, signatures and receipts, verified on both sides");
    println!("    {rows:>6.1} µs  rows with a whole life (leases, indexes, answers) and the worker");
}

/// Plays the other process's part.
pub(crate) async fn play(part: &str, dir: Option<&Path>) -> Result<()> {
    match (part, dir) {
        ("exchange", _) => exchange::serve().await,
        ("receiver", Some(dir)) => postroom_pair::receive(dir).await,
        ("hold", Some(dir)) => crate::sqlite::crashed::hold(dir).await,
        _ => anyhow::bail!("no such part: {part}"),
    }
}

/// Another process of this program; it ends with its handle.
pub(crate) struct Other {
    child: Child,
    pub(crate) port: u16,
}

impl Other {
    pub(crate) fn start(part: &str, dir: Option<&Path>) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--play", part]).stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(dir) = dir {
            command.arg("--dir").arg(dir);
        }
        let mut child = command.spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut line)?;
        let port = line.trim().parse().context("the other process did not say its port")?;
        Ok(Self { child, port })
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

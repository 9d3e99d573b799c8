//! `postroom bench`: measures the throughput and latency of this database on this machine.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use indicatif::ProgressBar;
use postroom::mssql::Mssql;
use postroom::mysql::MySql;
use postroom::postgres::Postgres;
use postroom::sqlite::Sqlite;

use super::Global;
use crate::bench::{Measured, Plan, Scratch, measure};
use crate::open::Opened;
use crate::problem::Problem;
use crate::up::signals::Signals;
use crate::{duration, output};

/// The time is split into this many parts.
const PARTS: u32 = 4;

/// Measure how fast the database enqueues, claims and acks messages
///
/// The benchmark uses its own tables and removes them afterwards: a new file next to a SQLite file, a new schema on
/// PostgreSQL and SQL Server, and new table names on MySQL and MariaDB. It does not touch your messages, but it slows
/// down everything else on the same disk or server. All results include the cost of commits; `postroom doctor` shows
/// whether a commit waits for the disk.
#[derive(Args)]
pub(crate) struct Bench {
    /// The total time
    #[arg(long, value_name = "DUR", default_value = "8s", value_parser = parse_span)]
    duration: Duration,

    /// How many callers enqueue at once
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = RangedU64ValueParser::<usize>::new().range(2..=1000))]
    callers: usize,

    /// The size of a payload in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 200,
          value_parser = RangedU64ValueParser::<usize>::new().range(2..=1 << 20))]
    payload: usize,
}

impl Bench {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let mut signals = Signals::new()?;
        let database = global.database()?;
        let scratch = Scratch::new(&database).await?;
        let plan = Plan { part: self.duration / PARTS, callers: self.callers, payload: self.payload };
        // Drawn on stderr, and only when that is a terminal.
        let spinner = ProgressBar::new_spinner();
        spinner.enable_steady_tick(Duration::from_millis(100));
        let told = |what: &str| spinner.set_message(what.to_owned());
        let measuring = async {
            match scratch.opened.clone() {
                Opened::Sqlite(store) => measure::<Sqlite>(store, plan, told).await,
                Opened::Postgres(store) => measure::<Postgres>(store, plan, told).await,
                Opened::MySql(store) => measure::<MySql>(store, plan, told).await,
                Opened::Mssql(store) => measure::<Mssql>(store, plan, told).await,
            }
        };
        let measured = tokio::select! {
            measured = measuring => measured.map(Some),
            _ = signals.next() => Ok(None),
        };
        spinner.finish_and_clear();
        // Always clean up.
        let removed = scratch.remove().await;
        let Some(measured) = measured? else {
            bail!(Problem::new("the benchmark was stopped before the end", "run it again and let it finish"))
        };
        removed?;
        self.print(&database.shown(), &measured, global.json)
    }

    fn print(&self, database: &str, measured: &[Measured], json: bool) -> Result<()> {
        if json {
            return output::json(&serde_json::json!({
                "database": database, "callers": self.callers, "payload_bytes": self.payload, "measured": measured,
            }));
        }
        let payload = output::thousands(self.payload as u64);
        output::line(format!("{database}, payloads of {payload} bytes, in separate tables"))?;
        output::line(format!("  {:<28} {:>12} {:>10} {:>10}", "", "per second", "p50", "p99"))?;
        let unit = measured.first().and_then(|first| first.per_second);
        for (index, row) in measured.iter().enumerate() {
            let rate = row.per_second.map_or_else(|| "-".into(), whole);
            let milliseconds = |took: Option<f64>| took.map_or_else(|| "-".into(), |took| format!("{took:.2} ms"));
            let times = row.per_second.zip(unit).filter(|_| index > 0);
            let times = times.map(|(rate, unit)| format!("   {:.1} × one caller", rate / unit)).unwrap_or_default();
            let (p50, p99) = (milliseconds(row.p50_ms), milliseconds(row.p99_ms));
            output::line(format!("  {:<28} {rate:>12} {p50:>10} {p99:>10}{times}", row.what))?;
        }
        Ok(())
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is neither negative nor that large")]
fn whole(rate: f64) -> String {
    output::thousands(rate.round() as u64)
}

fn parse_span(text: &str) -> Result<Duration, String> {
    let span = duration::parse_positive(text)?;
    if (Duration::from_millis(100)..=Duration::from_secs(600)).contains(&span) {
        return Ok(span);
    }
    Err("it must be from 100ms to 10m".into())
}

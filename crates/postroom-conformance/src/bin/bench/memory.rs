//! (m) how much memory draining a large backlog takes.

use std::path::Path;

use postroom::WorkerOptions;

use crate::drain::{drain_store, fill};
use crate::{Report, Sizes, open};

const LIMIT_MIB: f64 = 150.0;

pub(crate) async fn run(dir: &Path, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let store = open(dir, "m.db").await?;
    fill(&store, sizes.memory_rows).await?;
    let before = resident_mib("VmRSS:")?;
    std::fs::write("/proc/self/clear_refs", "5").ok();
    drain_store(store, sizes.memory_rows, WorkerOptions::default()).await?;
    let peak = resident_mib("VmHWM:")?;
    eprintln!("resident before the drain {before:.0} MiB, at its peak {peak:.0} MiB");
    report.cost(&format!("m: peak while draining {}, against 150 MiB", sizes.memory_rows), "MiB", peak, LIMIT_MIB);
    Ok(())
}

fn resident_mib(field: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with(field));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|kib| kib.parse::<f64>().ok());
    Ok(kib.ok_or_else(|| anyhow::anyhow!("no {field} in /proc/self/status"))? / 1024.0)
}

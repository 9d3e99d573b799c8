//! (m) how much memory draining a large backlog takes: in a process that does nothing else.

use std::path::Path;
use std::process::Command;

use postroom::WorkerOptions;
use postroom::sqlite::SqliteOptions;

use super::drain::{Payload, drain_store, fill};
use super::open;
use crate::{Report, Sizes};

const LIMIT_MIB: f64 = 150.0;

pub(crate) async fn run(dir: &Path, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let store = open(dir, "m.db").await?;
    fill(&store, sizes.memory_rows, Payload::default()).await?;
    let path = store.path().to_path_buf();
    store.close().await;
    let child = Command::new(std::env::current_exe()?)
        .arg("--drain")
        .arg(&path)
        .args(["--rows", &sizes.memory_rows.to_string()])
        .output()?;
    let said = String::from_utf8_lossy(&child.stdout);
    anyhow::ensure!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
    let case = format!("m: peak while draining {}, against 150 MiB", sizes.memory_rows);
    report.cost(&case, "MiB", said.trim().parse()?, LIMIT_MIB);
    Ok(())
}

/// The child's part: drains the file and prints its own largest resident size in MiB.
pub(crate) async fn drain(path: &Path, rows: usize) -> anyhow::Result<()> {
    let store = SqliteOptions::new(path).open().await?;
    drain_store(store, rows, WorkerOptions::default()).await?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.split_whitespace().next()).and_then(|kib| kib.parse::<f64>().ok());
    println!("{}", kib.ok_or_else(|| anyhow::anyhow!("no VmHWM in /proc/self/status"))? / 1024.0);
    Ok(())
}

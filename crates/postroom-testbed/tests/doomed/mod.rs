//! A process that starts something and is killed: what it started ends with it, and leaves nothing behind.

use std::{
    env,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, test_kill_process};

/// Names, in the process that shall be killed, what it starts.
const DOOMED: &str = "POSTROOM_TESTBED_DOOMED";

/// Whether this process is the one that shall start it and be killed.
pub(crate) fn is_here_for(name: &str) -> bool {
    env::var(DOOMED).is_ok_and(|doomed| doomed == name)
}

/// Says what was started, and waits to be killed.
pub(crate) fn wait_with(log: &Path, started: &[Pid]) -> Result<()> {
    let started: Vec<_> = started.iter().map(ToString::to_string).collect();
    println!("{} {}", log.display(), started.join(" "));
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Kills a process that has started it.
pub(crate) fn ends_with_its_parent(name: &str) -> Result<()> {
    let mut doomed = Command::new(env::current_exe()?);
    doomed.env(DOOMED, name);
    doomed.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut doomed = doomed.spawn()?;
    let mut line = String::new();
    BufReader::new(doomed.stdout.take().context("no output")?).read_line(&mut line)?;
    let (log, pids) = line.trim().split_once(' ').context("it started nothing")?;
    let pids: Vec<_> = pids.split(' ').filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect();
    ensure!(!pids.is_empty() && !pids.iter().any(|&pid| is_gone(pid)), "it does not run");

    doomed.kill()?;
    // The keepers are the last to hold it.
    doomed.stderr.take().context("no output")?.read_to_end(&mut Vec::new())?;
    ensure!(pids.into_iter().all(is_gone), "it outlived its parent");
    ensure!(!Path::new(log).exists(), "{log} is still there");
    doomed.wait()?;
    Ok(())
}

pub(crate) fn is_gone(process: Pid) -> bool {
    test_kill_process(process).is_err()
}

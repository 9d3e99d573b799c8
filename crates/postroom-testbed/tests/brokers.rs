//! The brokers themselves: that they come back behind the same port, and leave nothing behind.

use std::{
    env,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Completion, Trial};
use postroom_testbed::{Broker, BrokerKind};
use rustix::process::{Pid, test_kill_process};

/// Names, in the process that shall start a broker and be killed, the broker.
const DOOMED: &str = "POSTROOM_TESTBED_DOOMED";

fn main() -> Result<()> {
    for kind in BrokerKind::ALL {
        if env::var(DOOMED).is_ok_and(|name| name == kind.to_string()) {
            return be_killed_with(kind);
        }
    }
    let trials = BrokerKind::ALL.into_iter().flat_map(|kind| {
        [
            trial(kind, "comes_back_after_a_kill_and_a_stop", comes_back),
            trial(kind, "runs_beside_another_one", runs_beside_another_one),
            trial(kind, "ends_with_its_parent", ends_with_its_parent),
        ]
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit()
}

/// A broker that cannot be had on this machine cannot be tested either.
fn trial(kind: BrokerKind, promise: &str, test: fn(BrokerKind) -> Result<()>) -> Trial {
    Trial::ignorable_test(format!("{kind}::{promise}"), move || {
        if let Err(refusal) = kind.check_installed() {
            return Ok(Completion::ignored_with(format!("skipped: {refusal:#}")));
        }
        test(kind).map(|()| Completion::Completed).map_err(|error| format!("{error:#}").into())
    })
}

fn comes_back(kind: BrokerKind) -> Result<()> {
    let mut broker = Broker::start(kind)?;
    let (url, first) = (broker.url(), broker.pids()[0]);
    broker.kill()?;
    ensure!(is_gone(first), "it outlived its kill");
    broker.restart()?;
    broker.stop()?;
    broker.restart()?;
    ensure!(broker.url() == url, "it moved");
    let (log, last) = (broker.log(), broker.pids());
    drop(broker);
    ensure!(last.into_iter().all(is_gone), "it outlived its owner");
    ensure!(!log.exists(), "{} is still there", log.display());
    Ok(())
}

fn runs_beside_another_one(kind: BrokerKind) -> Result<()> {
    let (one, other) = (Broker::start(kind)?, Broker::start(kind)?);
    ensure!(one.url() != other.url(), "both are behind {}", one.url());
    Ok(())
}

fn ends_with_its_parent(kind: BrokerKind) -> Result<()> {
    let mut doomed = Command::new(env::current_exe()?);
    doomed.env(DOOMED, kind.to_string());
    doomed.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut doomed = doomed.spawn()?;
    let mut line = String::new();
    BufReader::new(doomed.stdout.take().context("no output")?).read_line(&mut line)?;
    let (log, pids) = line.trim().split_once(' ').context("it started no broker")?;
    let pids: Vec<_> = pids.split(' ').filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect();
    ensure!(!pids.is_empty() && !pids.iter().any(|&pid| is_gone(pid)), "it does not run");

    doomed.kill()?;
    // The broker's keepers are the last to hold it.
    doomed.stderr.take().context("no output")?.read_to_end(&mut Vec::new())?;
    ensure!(pids.into_iter().all(is_gone), "it outlived its parent");
    ensure!(!Path::new(log).exists(), "{log} is still there");
    doomed.wait()?;
    Ok(())
}

/// The other side of `ends_with_its_parent`.
fn be_killed_with(kind: BrokerKind) -> Result<()> {
    let broker = Broker::start(kind)?;
    let pids: Vec<_> = broker.pids().iter().map(ToString::to_string).collect();
    println!("{} {}", broker.log().display(), pids.join(" "));
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn is_gone(process: Pid) -> bool {
    test_kill_process(process).is_err()
}

//! The brokers themselves: that they come back behind the same port, and leave nothing behind.

mod doomed;

use anyhow::{Result, ensure};
use libtest_mimic::{Arguments, Completion, Trial};
use postroom_testbed::{Broker, BrokerKind};

fn main() -> Result<()> {
    for kind in BrokerKind::ALL {
        if doomed::is_here_for(&kind.to_string()) {
            return be_killed_with(kind);
        }
    }
    let trials = BrokerKind::ALL.into_iter().flat_map(|kind| {
        [
            trial(kind, "comes_back_after_a_kill_and_a_stop", comes_back),
            trial(kind, "runs_beside_another_one", runs_beside_another_one),
            trial(kind, "ends_with_its_parent", |kind| doomed::ends_with_its_parent(&kind.to_string())),
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
    ensure!(doomed::is_gone(first), "it outlived its kill");
    broker.restart()?;
    broker.stop()?;
    broker.restart()?;
    ensure!(broker.url() == url, "it moved");
    let (log, last) = (broker.log(), broker.pids());
    drop(broker);
    ensure!(last.into_iter().all(doomed::is_gone), "it outlived its owner");
    ensure!(!log.exists(), "{} is still there", log.display());
    Ok(())
}

fn runs_beside_another_one(kind: BrokerKind) -> Result<()> {
    let (one, other) = (Broker::start(kind)?, Broker::start(kind)?);
    ensure!(one.url() != other.url(), "both are behind {}", one.url());
    Ok(())
}

/// The other side of `ends_with_its_parent`.
fn be_killed_with(kind: BrokerKind) -> Result<()> {
    let broker = Broker::start(kind)?;
    doomed::wait_with(&broker.log(), &broker.pids())
}

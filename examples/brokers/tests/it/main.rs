//! The recipes against real brokers: those that the environment names, and for an outage some of our own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod nats;
mod outage;
mod promises;
mod rabbitmq;
mod rig;
mod shop;

use std::time::Duration;

use anyhow::Context;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use postroom_testbed::BrokerKind;

use crate::rig::Rig;

/// No test may take longer: something never came.
const PATIENCE: Duration = Duration::from_secs(180);

fn main() {
    let mut trials = rabbitmq::trials();
    trials.extend(nats::trials());
    trials.extend(promises::trials::<rabbitmq::RabbitMq>());
    trials.extend(promises::trials::<nats::Nats>());
    trials.extend(outage::trials::<rabbitmq::RabbitMq>());
    trials.extend(outage::trials::<nats::Nats>());
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// A test on the broker that the environment names, with queues of its own.
fn trial<R: Rig>(name: &'static str, test: impl AsyncFnOnce(R) -> anyhow::Result<()> + Send + 'static) -> Trial {
    Trial::ignorable_test(format!("{}::{name}", R::KIND), move || {
        let Ok(url) = std::env::var(R::KIND.url_variable()) else {
            return Ok(Completion::ignored_with(format!("skipped: {} names no broker", R::KIND.url_variable())));
        };
        finish(async { test(R::set_up(&url).await?).await })
    })
}

/// A test that starts its own broker, because it ends it.
fn trial_alone(
    kind: BrokerKind,
    name: &'static str,
    test: impl AsyncFnOnce() -> anyhow::Result<()> + Send + 'static,
) -> Trial {
    Trial::ignorable_test(format!("{kind}::{name}"), move || match kind.check_installed() {
        Ok(()) => finish(test()),
        Err(refusal) => Ok(Completion::ignored_with(format!("skipped: {refusal:#}"))),
    })
}

fn finish(test: impl Future<Output = anyhow::Result<()>>) -> Result<Completion, Failed> {
    let runtime = tokio::runtime::Runtime::new()?;
    let verdict = runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.context("in vain")? });
    verdict.map(|()| Completion::Completed).map_err(|error| format!("{error:#}").into())
}

//! The wire between two services, which burns: requests are lost, answers are lost, connections break.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use postroom_testbed::{Fault, FaultProxy};
use tokio::runtime::Runtime;

use super::place::Place;
use super::scenario::Scenario;

/// The share of requests that get through unharmed, and the share of each fault.
const MIX: [(u32, Fault); 9] = [
    (72, Fault::Pass),
    (4, Fault::Delay(Duration::from_millis(20))),
    (4, Fault::DropRequest),
    (5, Fault::DropResponse),
    (4, Fault::Reset),
    (1, Fault::HalfOpen),
    (4, Fault::Truncate),
    (4, Fault::Duplicate),
    (2, Fault::AnswerOk),
];

/// A proxy before the receiver's socket.
pub(crate) struct Fire {
    proxy: FaultProxy,
    mix: &'static [(u32, Fault)],
    _runtime: Runtime,
}

impl Fire {
    /// Stands before the receiver of a run in this folder, and burns.
    pub(crate) fn open(dir: &Path, seed: u64, scenario: Option<Scenario>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let proxy = {
            let _inside = runtime.enter();
            FaultProxy::start(Place::socket_path(dir))?
        };
        let mix = scenario.map_or(&MIX[..], Scenario::mix);
        proxy.at_random(seed, mix);
        Ok(Self { proxy, mix, _runtime: runtime })
    }

    pub(crate) fn url(&self) -> String {
        self.proxy.url()
    }

    /// Whether each fault has struck.
    pub(crate) fn has_struck(&self) -> bool {
        self.counts().values().all(|count| *count > 0)
    }

    /// From now on everything gets through.
    pub(crate) fn put_out(&self) {
        self.proxy.pass();
        self.proxy.let_go();
    }

    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let counts = self.proxy.counts();
        self.mix.iter().map(|(_, fault)| (name(*fault), counts.of(*fault))).collect()
    }
}

fn name(fault: Fault) -> &'static str {
    match fault {
        Fault::Pass => "passed",
        Fault::Delay(_) => "delayed",
        Fault::DropRequest => "request-lost",
        Fault::DropResponse => "answer-lost",
        Fault::Reset => "reset",
        Fault::HalfOpen => "half-open",
        Fault::Truncate => "truncated",
        Fault::Duplicate => "duplicated",
        Fault::AnswerOk => "fake-200",
        _ => "other",
    }
}

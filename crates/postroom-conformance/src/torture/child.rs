//! A child process: it does its part until its stdin ends, and dies with its parent.

use std::io::BufRead;
use std::sync::Arc;

use anyhow::Result;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::gate::Gate;
use super::ground::{Ground, on_ground};
use super::place::Place;
use super::wire::{Order, Word, say};
use super::{ChildOptions, Role, counts, producer, services, worker};

/// Enough threads that one can be stopped at each place.
const THREADS: usize = 4;

pub(crate) fn run(options: ChildOptions) -> Result<()> {
    die_with_parent()?;
    let ChildOptions { role, database, server, dir, seed, messages, lanes, sabotage, peer } = options;
    let place = Place { dir, database, server, seed, messages, lanes, sabotage, peer };
    counts::report();
    let gate = Arc::new(Gate::default());
    let (grant, granted) = watch::channel(Some(0));
    let listening = gate.clone();
    std::thread::spawn(move || listen(&listening, &grant));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    on_ground!(database, play(role, &runtime, &place, &gate, granted))
}

fn play<G: Ground>(
    role: Role,
    runtime: &Runtime,
    place: &Place,
    gate: &Arc<Gate>,
    granted: watch::Receiver<Option<u64>>,
) -> Result<()> {
    match role {
        Role::Producer => runtime.block_on(producer::run::<G>(place, gate, granted)),
        Role::Worker => runtime.block_on(worker::run::<G>(place, gate, granted)),
        Role::Sender => runtime.block_on(services::send::<G>(place, gate, granted)),
        Role::Receiver => runtime.block_on(services::receive::<G>(place, gate, granted)),
    }
}

/// Takes the parent's orders until there is no parent any more.
fn listen(gate: &Gate, grant: &watch::Sender<Option<u64>>) {
    for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
        match Order::parse(&line) {
            Ok(Order::Grant(below)) => drop(grant.send_replace(Some(below))),
            Ok(order) => gate.take(order),
            Err(error) => say(&Word::Trouble(error.to_string())),
        }
    }
    gate.open();
    grant.send_replace(None);
}

/// A stopped process does not see that its stdin ended; the kernel ends it with its parent.
#[cfg(target_os = "linux")]
fn die_with_parent() -> Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent() -> Result<()> {
    Ok(())
}

//! Large payloads: a queue full of them does not fill the memory of the process that works on it.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, ensure};
use postroom::sqlite::{Sqlite, SqliteOptions};
use postroom::{Ctx, HandlerResult, Handlers, Message, NewMessage, Outbox, Worker, WorkerOptions};
use tokio::sync::Semaphore;

use crate::case::{Verdict, cases};
use crate::harness::{Stage, eventually};
use crate::script::Running;
use crate::suite::databases::disk::child;

cases! { large:
    sqlite two_hundred_payloads_of_four_mebibytes_take_64_mebibytes [];
}

/// The part that a child plays here.
pub(super) const ROLE: &str = "large-payloads";

const MIB: usize = 1 << 20;
const MESSAGES: usize = 200;
const AT_ONCE: usize = 4;
/// How many fit in the worker's memory.
const HELD: usize = 8;

async fn two_hundred_payloads_of_four_mebibytes_take_64_mebibytes(stage: &Stage<Sqlite>) -> Verdict {
    for _ in 0..MESSAGES {
        stage.outbox.enqueue(NewMessage::new("large", "x".repeat(4 * MIB))).await?;
    }
    stage.store.clone().close().await;
    child(Command::new(std::env::current_exe()?), ROLE, &stage.place.path("store.db")).await
}

fn memory() -> anyhow::Result<usize> {
    memory_of(std::process::id())
}

/// The memory of a process, in bytes, without its program.
fn memory_of(process: u32) -> anyhow::Result<usize> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no memory is told")?;
    let kib: usize = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

struct Gate {
    begun: AtomicUsize,
    most: AtomicUsize,
    open: Semaphore,
}

impl Default for Gate {
    fn default() -> Self {
        Self { begun: AtomicUsize::new(0), most: AtomicUsize::new(0), open: Semaphore::new(0) }
    }
}

async fn hold(ctx: &mut Ctx<Sqlite>, _: Arc<Message>) -> HandlerResult<Option<String>> {
    let gate = ctx.state::<Arc<Gate>>()?;
    gate.begun.fetch_add(1, Ordering::SeqCst);
    gate.most.fetch_max(memory().map_err(std::io::Error::other)?, Ordering::SeqCst);
    gate.open.acquire().await?.forget();
    Ok(None)
}

/// Works on all of it, in a separate process, because the memory is measured by process.
pub(super) async fn play_part(path: &Path) -> Verdict {
    let store = SqliteOptions::new(path).open().await?;
    let outbox = Outbox::new(store.clone());
    let (before, gate) = (memory()?, Arc::new(Gate::default()));
    let handlers = Handlers::new().state(gate.clone()).on_topic("large", hold);
    let options = WorkerOptions::default().per_place(16);
    let worker = Running::start(Worker::<Sqlite>::outbox(store, handlers).options(options));
    for done in (0..MESSAGES).step_by(AT_ONCE) {
        let wanted = (done + HELD).min(MESSAGES);
        let are_held = || async { Ok(gate.begun.load(Ordering::SeqCst) >= wanted) };
        eventually("as many are held as there is room for", are_held).await?;
        gate.open.add_permits(AT_ONCE);
    }
    eventually("all are done", || async { Ok(outbox.queue().stats().await?.done == MESSAGES as u64) }).await?;
    worker.stop().await?;
    let grown = gate.most.load(Ordering::SeqCst).saturating_sub(before);
    ensure!(grown <= 64 * MIB, "the process grew by {} MiB", grown / MIB);
    ensure!(grown >= HELD * 4 * MIB, "it grew by {} MiB only: nothing was measured", grown / MIB);
    Ok(())
}

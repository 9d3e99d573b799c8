//! A SQLite file on a disk that is full or read-only, in a process with too many files open. Each case runs in a
//! separate process, because these limits apply to a whole process.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use postroom::clock::{Clock, ManualClock, Timestamp};
use postroom::message::OwnerToken;
use postroom::operator::Filter;
use postroom::queue::{Settle, State};
use postroom::sqlite::{BlockingCtx, Sqlite, SqliteOptions, SqliteStore};
use postroom::{Ctx, ErrorKind, HandlerResult, Handlers, Message, NewMessage, Outbox, Worker, WorkerOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::case::{Verdict, cases};
use crate::harness::{Stage, eventually, refused};
use crate::script::{Running, Script};
use crate::suite::databases::processes;

cases! { disk:
    sqlite a_full_disk_spends_no_attempt [];
    sqlite too_many_open_files_are_an_outage [];
    sqlite a_file_that_became_read_only_is_an_outage ["OBX-104", "IBX-126", "API-9.2"];
}

/// The parts that children play here.
pub(super) const ROLES: &[&str] = &["full-disk", "few-files", "read-only"];

pub(super) async fn play_part(role: &str, path: &Path) -> Verdict {
    match role {
        "full-disk" => full_disk(path).await,
        "few-files" => few_files(path).await,
        _ => read_only(path).await,
    }
}

pub(super) async fn child(mut command: Command, role: &str, path: &Path) -> Verdict {
    processes::as_child(&mut command, role, path);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let told = [output.stdout, output.stderr].map(|told| String::from_utf8_lossy(&told).into_owned()).concat();
    ensure!(output.status.success(), "{:?}: {told}", output.status);
    Ok(())
}

fn limit(resource: Resource, soft: Option<u64>) -> std::io::Result<()> {
    let hard = getrlimit(resource).maximum;
    Ok(setrlimit(resource, Rlimit { current: soft.or(hard), maximum: hard })?)
}

/// Files may not grow: as on a full disk, every write fails. The signal that comes with it is ignored.
async fn a_full_disk_spends_no_attempt(stage: &Stage<Sqlite>) -> Verdict {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\""]).arg(std::env::current_exe()?);
    child(command, "full-disk", &stage.place.path("small.db")).await
}

const EACH: u32 = 100;
/// Six attempts last a little more than a minute.
const ROUND: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Calls {
    blocking: AtomicU32,
    waiting: AtomicU32,
}

const EFFECT: &str = "INSERT INTO effects (id, filler) VALUES (?1, zeroblob(?2))";

/// The first one fills the disk, and writes more than fits into the cache: that fails in the middle of the statement.
/// What the others write fails at the commit.
fn blocking(ctx: &mut BlockingCtx<'_>) -> HandlerResult<Option<String>> {
    let is_first = ctx.state::<Arc<Calls>>()?.blocking.fetch_add(1, Ordering::SeqCst) == 0;
    let filler = if is_first { 20 << 20 } else { 0 };
    if is_first {
        limit(Resource::Fsize, Some(4096))?;
    }
    ctx.tx().execute(EFFECT, (ctx.message().payload.as_str(), filler))?;
    Ok(None)
}

/// It begins while there is room.
async fn waiting(ctx: &mut Ctx<Sqlite>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let calls = ctx.state::<Arc<Calls>>()?;
    calls.waiting.fetch_add(1, Ordering::SeqCst);
    let payload = message.payload.to_string();
    ctx.tx().await?.run(move |conn| conn.execute(EFFECT, (payload, 0))).await?;
    Ok(None)
}

async fn full_disk(path: &Path) -> Verdict {
    let clock = ManualClock::new(Timestamp::from_micros(1_800_000_000_000_000));
    let store = SqliteOptions::new(path).clock(Clock::Manual(clock.clone())).deploy_schema(true).open().await?;
    let outbox = Outbox::new(store.clone());
    store.write(|tx| Ok(tx.execute_batch("CREATE TABLE effects (id TEXT, filler BLOB)")?)).await?;
    for n in 0..EACH {
        for topic in ["blocking", "waiting"] {
            outbox.enqueue(NewMessage::new(topic, format!("{topic}-{n}")).max_attempts(1)).await?;
        }
    }
    let calls = Arc::new(Calls::default());
    let handlers = Handlers::<Sqlite>::new().state(calls.clone());
    let handlers = handlers.on_topic_blocking("blocking", blocking).on_topic("waiting", waiting);
    let options = WorkerOptions::default().poll(Duration::from_millis(20));
    let worker = Running::start(Worker::<Sqlite>::outbox(store.clone(), handlers).options(options));
    eventually("the disk is full", || async { Ok(calls.blocking.load(Ordering::SeqCst) > 0) }).await?;
    for _ in 0..20 {
        clock.advance(ROUND);
        refused(outbox.enqueue(NewMessage::new("no room", "")).await, ErrorKind::Unavailable, "a full disk")?;
    }
    limit(Resource::Fsize, None)?;
    all_are_done(&outbox, worker, &clock, 2 * EACH).await?;
    ensure!(effects(&store).await? == i64::from(2 * EACH), "each has one effect");
    Ok(())
}

async fn all_are_done(outbox: &Outbox, worker: Running, clock: &ManualClock, messages: u32) -> Verdict {
    let ended = eventually("all are done", || async {
        clock.advance(Duration::from_secs(1));
        Ok(outbox.queue().stats().await?.done == u64::from(messages))
    })
    .await;
    worker.stop().await?;
    for record in outbox.queue().list(Filter::all()).await? {
        let found = (record.state(), record.attempts(), record.crashes());
        ensure!(found == (State::Done, 0, 0), "{found:?}: {:?}", record.last_error());
    }
    ended
}

async fn effects(store: &SqliteStore) -> anyhow::Result<i64> {
    let count = "SELECT count(DISTINCT id) + (count(*) - count(DISTINCT id)) * 1000 FROM effects";
    Ok(store.read(move |conn| Ok(conn.query_row(count, [], |row| row.get(0))?)).await?)
}

async fn too_many_open_files_are_an_outage(stage: &Stage<Sqlite>) -> Verdict {
    child(Command::new(std::env::current_exe()?), "few-files", &stage.place.path("files.db")).await
}

async fn few_files(path: &Path) -> Verdict {
    let options = SqliteOptions::new(path).deploy_schema(true).watch(false);
    let store = options.clone().open().await?;
    let outbox = Outbox::new(store.clone());
    outbox.enqueue(NewMessage::new("before", "")).await?;
    store.clone().close().await;
    limit(Resource::Nofile, Some(100))?;
    let mut taken = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        taken.push(file);
    }
    refused(outbox.enqueue(NewMessage::new("a", "")).await, ErrorKind::Unavailable, "a write")?;
    refused(outbox.queue().stats().await, ErrorKind::Unavailable, "a question")?;
    refused(options.clone().open().await, ErrorKind::Unavailable, "another store")?;
    let missing = SqliteOptions::new(path.with_extension("missing")).open().await;
    refused(missing, ErrorKind::Unsupported, "a file that is not there")?;
    // With a few files more it comes further: it opens the database, but not its log, or not the index of that.
    let mut stored = 1;
    while taken.pop().is_some() {
        match outbox.enqueue(NewMessage::new("a", "")).await {
            Ok(_) => stored += 1,
            Err(error) => ensure!(error.kind() == ErrorKind::Unavailable, "{error}"),
        }
        store.clone().close().await;
    }
    ensure!(stored > 10, "with enough of them it works");
    ensure!(outbox.queue().stats().await?.ready == stored, "what was acknowledged is there");
    Ok(())
}

/// File modes do not bind the superuser: a child without those rights tries it.
async fn a_file_that_became_read_only_is_an_outage(stage: &Stage<Sqlite>) -> Verdict {
    let folder = stage.place.path("own");
    std::fs::create_dir(&folder)?;
    let program = folder.join("matrix");
    std::fs::copy(std::env::current_exe()?, &program)?;
    for (path, mode) in [(&program, 0o755), (&folder, 0o755), (&stage.place.path(""), 0o755)] {
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    let mut command = Command::new(&program);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&folder, Some(65_534), None)?;
        std::os::unix::process::CommandExt::uid(&mut command, 65_534);
    }
    child(command, "read-only", &folder.join("store.db")).await
}

async fn read_only(path: &Path) -> Verdict {
    let clock = ManualClock::new(Timestamp::from_micros(1_800_000_000_000_000));
    let store = SqliteOptions::new(path).clock(Clock::Manual(clock.clone())).deploy_schema(true).open().await?;
    let outbox = Outbox::new(store.clone());
    outbox.enqueue(NewMessage::new("before", "")).await?;
    let claimed = outbox.queue().claim(OwnerToken::new(), Duration::from_secs(30), 1).await?.claimed;
    let lease = claimed.into_iter().next().context("nothing to claim")?.lease;
    store.clone().close().await;
    let folder = path.parent().context("no folder")?;
    let modes = |file, of_folder| {
        std::fs::set_permissions(path, Permissions::from_mode(file))?;
        std::fs::set_permissions(folder, Permissions::from_mode(of_folder))
    };
    modes(0o444, 0o555)?;
    let ack = || vec![Settle::ack(lease.clone())];
    refused(outbox.queue().settle(ack()).await, ErrorKind::Unavailable, "an ack")?;
    refused(outbox.enqueue(NewMessage::new("a", "")).await, ErrorKind::Unavailable, "a write")?;
    modes(0o600, 0o755)?;
    ensure!(outbox.queue().settle(ack()).await?.applied == 1, "the ack is not lost");
    outbox.enqueue_many((0..2 * EACH).map(|_| NewMessage::new("a", "").max_attempts(1))).await?;
    store.clone().close().await;
    modes(0o444, 0o555)?;
    let script = Script::succeed();
    let options = WorkerOptions::default().poll(Duration::from_millis(20)).poll_max(Duration::from_millis(20));
    let worker = Worker::<Sqlite>::outbox(store.clone(), script.handlers()).options(options);
    let worker = Running::start(worker);
    for _ in 0..20 {
        clock.advance(ROUND);
        refused(outbox.enqueue(NewMessage::new("a", "")).await, ErrorKind::Unavailable, "a write")?;
    }
    ensure!(script.count() == 0, "nothing is handled that cannot be acknowledged");
    modes(0o600, 0o755)?;
    all_are_done(&outbox, worker, &clock, 2 * EACH + 1).await
}

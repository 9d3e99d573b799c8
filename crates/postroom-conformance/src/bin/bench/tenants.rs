//! (t) many stores that have nothing to do: what they cost, and how soon a message in any of them is handled.
//!
//! A separate process works on the stores and measures itself; this one writes to them from outside.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use postroom::handler::Backend;
use postroom::tenancy::{Fleet, Router, Stores};
use postroom::{Ctx, HandlerResult, Handlers, InboxKey, Incoming, Message, NewMessage};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::{Report, Sizes, server, sqlite};

const CPU_LIMIT_PERCENT: f64 = 5.0;
const HANDLE_LIMIT_MS: f64 = 1000.0;
/// Writer threads end after 10 s without work.
const WARM_UP_MAX: Duration = Duration::from_secs(60);
const WARM_UP_THREADS: usize = 24;
const PATIENCE: Duration = Duration::from_secs(20);
/// How many stores are written to, one after the other.
const SAMPLE: usize = 50;

/// Where idle stores are, and how a program that knows nothing of Postroom writes to one of them.
pub(crate) trait Tenants {
    /// What the crew needs to open the same stores.
    fn place(&self) -> String;

    /// Enqueues a message that contains the time it was written.
    fn write(&mut self, store: usize, now: i64) -> anyhow::Result<()>;

    /// What the databases spend on it outside the crew's process, so far.
    fn cpu_seconds(&self) -> f64 {
        0.0
    }
}

pub(crate) fn run(tenants: &mut impl Tenants, stores: usize, sizes: Sizes, report: &mut Report) -> anyhow::Result<()> {
    let mut crew = Crew::start(&tenants.place(), stores, sizes)?;
    crew.figures("warm")?;
    let before = tenants.cpu_seconds();
    let mut idle = crew.figures("idle")?;
    if let Some(cpu) = idle.first_mut() {
        *cpu += (tenants.cpu_seconds() - before) / sizes.idle_seconds * 100.0;
    }
    let inside = crew.figures("inside")?;
    let outside = crew.worst_from_outside(tenants, stores)?;
    crew.stop()?;
    let [cpu, threads, files, mib] = idle[..] else { anyhow::bail!("four figures were expected: {idle:?}") };
    eprintln!("t: {stores} idle stores: {threads} threads, {files} open files, {mib:.0} MiB");
    report.cost(&format!("t: {stores} idle stores, against 5 % of a core"), "%", cpu, CPU_LIMIT_PERCENT);
    for (whose, worst) in [("this process", inside[0]), ("another process", outside)] {
        let case = format!("t: worst time to handle, {whose}, against 1 s");
        report.cost(&case, "ms", worst, HANDLE_LIMIT_MS);
    }
    Ok(())
}

/// Which stores are written to: some from everywhere.
fn sample(stores: usize) -> impl Iterator<Item = usize> {
    let step = stores.div_ceil(SAMPLE).max(1);
    (0..stores).rev().step_by(step)
}

fn now_micros() -> anyhow::Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?)
}

/// The other process, as this one sees it.
struct Crew {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Crew {
    fn start(place: &str, stores: usize, sizes: Sizes) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--idle", place, "--rows", &stores.to_string(), "--seconds", &sizes.idle_seconds.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let said = BufReader::new(child.stdout.take().context("no output")?).lines();
        Ok(Self { child, said })
    }

    /// The numbers of the next line, which must begin with `what`.
    fn figures(&mut self, what: &str) -> anyhow::Result<Vec<f64>> {
        let line = self.said.next().context("the workers are gone")??;
        let figures = line.strip_prefix(what).with_context(|| format!("not {what}: {line}"))?;
        figures.split_whitespace().map(|figure| Ok(figure.parse()?)).collect()
    }

    fn worst_from_outside(&mut self, tenants: &mut impl Tenants, stores: usize) -> anyhow::Result<f64> {
        let mut worst = 0.0_f64;
        for index in sample(stores) {
            tenants.write(index, i64::try_from(now_micros()?)?)?;
            worst = worst.max(self.figures("handled")?[0]);
        }
        Ok(worst)
    }

    fn stop(mut self) -> anyhow::Result<()> {
        drop(self.child.stdin.take());
        anyhow::ensure!(self.child.wait()?.success(), "the workers did not end well");
        Ok(())
    }
}

/// The other process, on whatever is at that place.
pub(crate) async fn idle(place: &str, count: usize, seconds: f64) -> anyhow::Result<()> {
    if place.starts_with("postgres:") {
        return work_on::<postroom::postgres::Postgres>(server::tenants::open(place, count).await?, seconds).await;
    }
    work_on::<postroom::sqlite::Sqlite>(sqlite::tenants::open(Path::new(place), count).await?, seconds).await
}

/// Works on any kind of store, until nobody listens any more.
async fn work_on<B: Backend>(stores: Vec<B::Store>, seconds: f64) -> anyhow::Result<()> {
    let stores = Stores::fixed(stores)?;
    let (tell, mut handled) = unbounded_channel();
    let handlers = || Handlers::<B>::new().state(Handled(tell.clone())).on_topic("bench", note::<B>);
    let fleet = Fleet::new(&stores).outbox(handlers()).inbox(handlers());
    let (stop, stopped) = oneshot::channel::<()>();
    let mut running = JoinSet::new();
    running.spawn(fleet.run(async { drop(stopped.await) }));
    warm_up().await?;
    println!("warm");
    let before = cpu_seconds()?;
    let begun = Instant::now();
    tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_secs_f64(seconds)).await;
    let percent = (cpu_seconds()? - before) / begun.elapsed().as_secs_f64() * 100.0;
    println!("idle {percent} {} {} {}", count_in("/proc/self/task")?, count_in("/proc/self/fd")?, resident_mib()?);
    println!("inside {}", worst_inside(&stores, &mut handled).await?);
    let left = std::thread::spawn(|| std::io::stdin().lines().for_each(drop));
    while !left.is_finished() {
        if let Ok(Some(ms)) = tokio::time::timeout(Duration::from_millis(100), handled.recv()).await {
            println!("handled {ms}");
            std::io::stdout().flush()?;
        }
    }
    let _ = stop.send(());
    running.join_next().await.transpose()?.transpose()?;
    Ok(())
}

struct Handled(UnboundedSender<f64>);

/// Tells how long ago the message was written: it says when.
async fn note<B: Backend>(ctx: &mut Ctx<B>, message: Arc<Message>) -> HandlerResult<Option<String>> {
    let written: u64 = message.payload.parse()?;
    let now = now_micros().map_err(postroom::Error::callback)?;
    let handled = ctx.state::<Handled>()?;
    #[expect(clippy::cast_precision_loss, reason = "a latency in microseconds")]
    let _ = handled.0.send(now.saturating_sub(written) as f64 / 1000.0);
    Ok(None)
}

async fn worst_inside<S: postroom::store::Store + Clone>(
    stores: &Stores<S>,
    handled: &mut UnboundedReceiver<f64>,
) -> anyhow::Result<f64> {
    let (router, keys) = (Router::new(stores), stores.keys());
    let mut worst = 0.0_f64;
    for index in sample(keys.len()) {
        let key = &keys[index];
        router.outbox(key)?.enqueue(NewMessage::new("bench", now_micros()?.to_string())).await?;
        worst = worst.max(next(handled).await?);
        let incoming = InboxKey::new("bench", uuid::Uuid::now_v7().to_string())?;
        router.inbox(key)?.enqueue(Incoming::new(incoming, "bench", now_micros()?.to_string())).await?;
        worst = worst.max(next(handled).await?);
    }
    Ok(worst)
}

async fn next(handled: &mut UnboundedReceiver<f64>) -> anyhow::Result<f64> {
    let ms = tokio::time::timeout(PATIENCE, handled.recv()).await.context("a message was not handled")?;
    ms.context("the workers are gone")
}

/// Until the threads that opened the files have ended.
async fn warm_up() -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut look = tokio::time::interval(Duration::from_secs(1));
    loop {
        look.tick().await;
        let quiet = begun.elapsed() > Duration::from_secs(5) && count_in("/proc/self/task")? <= WARM_UP_THREADS;
        if quiet || begun.elapsed() > WARM_UP_MAX {
            return Ok(());
        }
    }
}

/// User and system time of this process, in hundredths of a second.
fn cpu_seconds() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').context("no name in /proc/self/stat")?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
    Ok((ticks(11).context("no user time")? + ticks(12).context("no system time")?) / 100.0)
}

fn count_in(folder: &str) -> anyhow::Result<usize> {
    Ok(std::fs::read_dir(folder)?.count())
}

fn resident_mib() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.and_then(|kib| kib.split_whitespace().next()).and_then(|kib| kib.parse::<f64>().ok());
    Ok(kib.context("no VmRSS in /proc/self/status")? / 1024.0)
}

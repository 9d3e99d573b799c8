//! The crash test: real processes that are killed and paused while messages go through them, and a checker that knows
//! only what was promised.
//!
//! One producer places orders (business row and message in one transaction) in one database; two workers take the
//! messages to the inbox of another database and apply them there. The parent kills and pauses them; where the
//! databases have a server, it kills that too, ends its connections and loses its answers. Nothing acknowledged may be
//! lost, nothing applied twice, nothing applied without its order; and a run counts only if duplicates were suppressed
//! and stale acks refused in it.

mod book;
mod check;
mod child;
mod counts;
mod crew;
mod fire;
mod gate;
mod ground;
mod nemesis;
mod pace;
mod pause;
mod place;
mod producer;
mod report;
mod rows;
mod scenario;
mod services;
mod site;
mod tally;
mod wire;
mod worker;

pub use ground::Database;
pub use report::Report;
pub use scenario::Scenario;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use postroom::testing::Sabotage;

use check::Findings;
use crew::Crew;
use fire::Fire;
use ground::{Base, Ground, on_ground};
use nemesis::Nemesis;
use place::Place;
use rows::Rows;
use site::Site;

/// How long the backlog may take to empty when the killing is over.
const DRAIN_MAX: Duration = Duration::from_secs(60);
const TROUBLES_SHOWN: usize = 5;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program that plays the children: `postroom-torture`.
    pub executable: PathBuf,
    /// Where the messages are.
    pub database: Database,
    /// How many processes to kill.
    pub kills: u32,
    /// How many orders to place.
    pub messages: u64,
    /// How many lanes the orders take in turn; none at zero.
    pub lanes: u64,
    /// How many workers to pause beyond their lease.
    pub pauses: u32,
    /// Two services and a faulty wire between them, instead of workers that see both databases.
    pub services: bool,
    /// One row of the failure table alone.
    pub scenario: Option<Scenario>,
    /// How often to kill the server.
    pub server_kills: u32,
    /// How often to end all its connections, again and again for a while.
    pub storms: u32,
    /// How often to cut a few connections between a COMMIT and its answer.
    pub cuts: u32,
    /// Where everything random comes from.
    pub seed: u64,
    /// The guard to take away: then the run must fail.
    pub sabotage: Option<Sabotage>,
    /// The folder to work in; one that is thrown away when it is none.
    pub dir: Option<PathBuf>,
    /// Keep that folder in any case. It is also kept when a run fails that should not.
    pub keep: bool,
}

/// What a child process plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Role {
    /// Places orders.
    Producer,
    /// Sends and handles messages.
    Worker,
    /// Sends messages over the wire.
    Sender,
    /// Receives them.
    Receiver,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Worker => "worker",
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        }
    }
}

/// The arguments of a child process.
#[derive(Clone, Debug)]
pub struct ChildOptions {
    /// What it plays.
    pub role: Role,
    /// Where the messages are.
    pub database: Database,
    /// How it reaches the server, if there is one.
    pub server: Option<String>,
    /// The folder of the run.
    pub dir: PathBuf,
    /// The seed of the run.
    pub seed: u64,
    /// How many orders there are in all.
    pub messages: u64,
    /// How many lanes they take in turn; none at zero.
    pub lanes: u64,
    /// The guard to take away.
    pub sabotage: Option<Sabotage>,
    /// Where the sender finds the receiver.
    pub peer: Option<String>,
}

/// Plays a child's part until the parent ends it.
pub fn child(options: ChildOptions) -> Result<()> {
    child::run(options)
}

/// Runs the crash test.
pub fn run(options: &Options) -> Result<Report> {
    on_ground!(options.database, run_on(options))
}

fn run_on<G: Ground>(options: &Options) -> Result<Report> {
    let started = pace::now();
    let (dir, thrown_away) = folder(options.dir.as_deref())?;
    let site = match options.database {
        Database::Mssql => Some(Site::named(crate::servers::url(crate::servers::MSSQL))?),
        other => other.engine().map(Site::open).transpose()?,
    };
    let server = site.as_ref().map(Site::url);
    let Options { database, seed, messages, lanes, sabotage, .. } = *options;
    let fire = options.services.then(|| Fire::open(&dir, seed, options.scenario)).transpose()?;
    let peer = fire.as_ref().map(Fire::url);
    let place = Place { dir, database, server, seed, messages, lanes, sabotage, peer };
    ensure!(!place.path(Base::Orders).exists(), "{} holds an earlier run; name another folder", place.dir.display());
    let rows = Rows::open::<G>(&place)?;
    let proxied = site.as_ref().map(Site::proxied_url);
    let crew = Crew::start(options.executable.clone(), place.clone(), proxied)?;
    let mut nemesis = Nemesis::new(options, crew, rows, site);
    nemesis.rage()?;
    // A scenario is about the wire itself: there it burns to the end.
    let brief = fire.as_ref().filter(|_| options.scenario.is_none());
    let backlog_left = drain(&mut nemesis, options.messages, brief)?;
    fire.iter().for_each(Fire::put_out);
    nemesis.crew.dismiss()?;
    let findings = check::check(&place, &mut nemesis.rows)?;
    let mut report = report(options, &nemesis, &findings, backlog_left, started);
    report.faults_by_kind = fire.as_ref().map(Fire::counts).unwrap_or_default();
    let is_surprise = !report.failures().is_empty() && options.sabotage.is_none();
    report.kept = (options.dir.is_some() || options.keep || is_surprise).then(|| place.dir.clone());
    if let (Some(thrown_away), Some(_)) = (thrown_away, &report.kept) {
        let _ = thrown_away.keep();
    }
    Ok(report)
}

fn folder(asked: Option<&Path>) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    if let Some(dir) = asked {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        return Ok((dir.to_path_buf(), None));
    }
    let dir = tempfile::Builder::new().prefix("postroom-torture-").tempdir()?;
    Ok((dir.path().to_path_buf(), Some(dir)))
}

/// The killing is over: the rest of the orders, and then nothing may be left. The wire burns until each of its faults
/// has struck. Returns what is left after all.
fn drain(nemesis: &mut Nemesis, messages: u64, fire: Option<&Fire>) -> Result<u64> {
    let until = pace::now() + DRAIN_MAX;
    nemesis.crew.grant(messages);
    loop {
        nemesis.crew.linger(Duration::from_millis(50));
        fire.iter().filter(|fire| fire.has_struck()).for_each(|fire| fire.put_out());
        let backlog = nemesis.rows.backlog()?;
        let is_over = nemesis.crew.tally.is_done && backlog == 0;
        if is_over || pace::now() >= until {
            return Ok(backlog);
        }
    }
}

fn report(options: &Options, nemesis: &Nemesis, found: &Findings, backlog_left: u64, started: Instant) -> Report {
    let tally = &nemesis.crew.tally;
    let millis = |percent| u64::try_from(tally.recovery(percent).as_millis()).unwrap_or(u64::MAX);
    Report {
        backend: options.database.name(),
        seed: options.seed,
        kills: nemesis.kills_by_point.values().sum(),
        messages: options.messages,
        lost: found.lost,
        doubled: found.doubled,
        ghosts: found.ghosts,
        suppressed_duplicates: tally.duplicates,
        wants_duplicates: options.scenario.is_none_or(Scenario::makes_duplicates),
        stale_acks_refused: tally.refused,
        recovery_ms_p99: millis(99),
        recovery_ms_p50: millis(50),
        pauses: nemesis.pauses_by_kind.values().sum(),
        acknowledged: found.acknowledged,
        unknown: tally.unknown,
        effects: found.effects,
        backlog_left,
        dead: found.dead,
        misplaced: found.misplaced,
        torn: found.torn,
        inverted: found.inverted,
        deaths: tally.deaths.clone(),
        stale_settles_applied: found.stale_applied,
        kills_by_point: nemesis.kills_by_point.clone(),
        pauses_by_kind: nemesis.pauses_by_kind.clone(),
        blows_by_kind: nemesis.blows_by_kind.clone(),
        faults_by_kind: std::collections::BTreeMap::new(),
        terminations: nemesis.site.as_ref().map_or(0, |site| site.terminations),
        commits_cut: nemesis.site.as_ref().map_or(0, Site::cuts),
        commits_in_doubt: tally.in_doubt,
        sabotage: options.sabotage.map(sabotage_name),
        troubles: found.causes.iter().chain(&tally.troubles).take(TROUBLES_SHOWN).cloned().collect(),
        seconds: (pace::now() - started).as_secs_f64(),
        kept: None,
    }
}

fn sabotage_name(sabotage: Sabotage) -> &'static str {
    match sabotage {
        Sabotage::Fencing => "fencing",
        Sabotage::AckOutside => "ack-outside",
    }
}

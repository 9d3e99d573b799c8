//! The nemesis: kills at random moments and at named places, one strike after the other, all from one seed.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::Options;
use super::crew::{Crew, Event, PRODUCER, WORKERS};
use super::pace::now;
use super::pause::Pause;
use super::rows::Rows;
use super::scenario::Scenario;
use super::site::{Blow, Site};
use super::wire::{Order, Stop, Word};

/// How long a child may take to get to the place where it is to be killed or paused.
const REACH_MAX: Duration = Duration::from_millis(1200);
const REACH_TRIES: u32 = 8;
/// How long after the last strike a random kill comes, in milliseconds.
const BETWEEN_MS: std::ops::Range<u64> = 50..400;
/// How long before it new orders come, in milliseconds, so that there is work in progress.
const LEAD_MS: std::ops::Range<u64> = 2..45;
/// How long a killed server stays away, in milliseconds, not counting the time it takes to start.
const OUTAGE_MS: std::ops::Range<u64> = 0..300;
/// How long after a blow against the server the next strike comes at the earliest, in milliseconds.
const AFTER_BLOW_MS: std::ops::Range<u64> = 50..900;

/// What is still to come, and what has been done.
pub(crate) struct Nemesis {
    pub(crate) crew: Crew,
    pub(crate) rows: Rows,
    pub(crate) site: Option<Site>,
    pub(crate) random: fastrand::Rng,
    pub(crate) lease: Duration,
    /// At a named place, or at any moment.
    kills: VecDeque<Option<Stop>>,
    pauses: VecDeque<Pause>,
    blows: VecDeque<Blow>,
    /// Each kill strikes both services.
    both: bool,
    /// How many shares of the orders were granted, and how many there are.
    shares: u64,
    shares_max: u64,
    messages: u64,
    started: Instant,
    pub(crate) kills_by_point: BTreeMap<&'static str, u32>,
    pub(crate) pauses_by_kind: BTreeMap<&'static str, u32>,
    pub(crate) blows_by_kind: BTreeMap<&'static str, u32>,
}

impl Nemesis {
    pub(crate) fn new(options: &Options, crew: Crew, rows: Rows, site: Option<Site>) -> Self {
        let kills = kills(options);
        let pauses = Pause::ALL.into_iter().cycle().take(usize::try_from(options.pauses).unwrap_or(usize::MAX));
        let mut random = fastrand::Rng::with_seed(options.seed);
        let blows = if site.is_some() { blows(options, &mut random) } else { VecDeque::new() };
        let strikes = u64::from(options.kills) + u64::from(options.pauses) + blows.len() as u64;
        Self {
            crew,
            rows,
            site,
            random,
            lease: options.database.lease(),
            kills,
            pauses: pauses.collect(),
            blows,
            both: options.scenario.is_some_and(|scenario| scenario.kills_both()),
            shares: 0,
            shares_max: 2 * strikes,
            messages: options.messages,
            started: now(),
            kills_by_point: BTreeMap::new(),
            pauses_by_kind: BTreeMap::new(),
            blows_by_kind: BTreeMap::new(),
        }
    }

    /// Strikes until nothing is left.
    pub(crate) fn rage(&mut self) -> Result<()> {
        loop {
            let (pauses, blows) = (self.pauses.len(), self.blows.len());
            let left = self.kills.len() + pauses + blows;
            if left == 0 {
                return Ok(());
            }
            match self.random.usize(0..left) {
                lot if lot < pauses => {
                    let Some(pause) = self.pauses.pop_front() else { continue };
                    let kind = self.pause(pause)?;
                    *self.pauses_by_kind.entry(kind).or_default() += 1;
                }
                lot if lot < pauses + blows => self.strike_server()?,
                _ => drop(self.kill_next(None)?),
            }
        }
    }

    /// The next blow against the server, with work in progress.
    fn strike_server(&mut self) -> Result<()> {
        let Some(blow) = self.blows.pop_front() else { return Ok(()) };
        self.grant();
        let (lead, outage) = (self.millis(LEAD_MS), self.millis(OUTAGE_MS));
        self.crew.linger(lead);
        if let Some(site) = &mut self.site {
            site.strike(blow, outage)?;
        }
        self.crew.tally.hit(now());
        *self.blows_by_kind.entry(blow.name()).or_default() += 1;
        self.grant();
        let after = self.millis(AFTER_BLOW_MS);
        self.crew.linger(after);
        Ok(())
    }

    /// The next kill, of anybody but the spared one. False when none is left.
    pub(crate) fn kill_next(&mut self, spared: Option<usize>) -> Result<bool> {
        let Some(stop) = self.kills.pop_front() else { return Ok(false) };
        let point = match stop {
            Some(stop) => {
                let who = self.crew.only_at(stop).unwrap_or_else(|| self.worker(spared));
                let reached = self.reach(who, stop).is_some();
                self.crew.kill(who)?;
                if self.both {
                    self.crew.kill(self.crew.other(who))?;
                }
                if reached { stop.name() } else { "missed" }
            }
            None => {
                let who = if self.random.u8(0..4) == 0 { PRODUCER } else { self.worker(spared) };
                let lead = self.millis(LEAD_MS);
                let wait = self.millis(BETWEEN_MS).saturating_sub(lead);
                self.crew.linger(wait);
                self.grant();
                self.crew.linger(lead);
                self.crew.kill(who)?;
                "random"
            }
        };
        *self.kills_by_point.entry(point).or_default() += 1;
        self.grant();
        Ok(true)
    }

    /// Sends a child to a place; the message it is there with, if it gets there. New orders come little by little, or
    /// the other worker might take them all.
    pub(crate) fn reach(&mut self, who: usize, stop: Stop) -> Option<String> {
        self.crew.tell(who, &Order::Arm(stop, None));
        let share = self.share();
        for part in 1..=REACH_TRIES {
            self.crew.grant(share.start + (share.end - share.start) * u64::from(part) / u64::from(REACH_TRIES));
            let event = self.crew.wait_for(REACH_MAX / REACH_TRIES, |event| event.is_at(who, stop));
            if let Some(Event { word: Word::At(_, message), .. }) = event {
                self.crew.grant(share.end);
                return Some(message);
            }
        }
        None
    }

    pub(crate) fn worker(&mut self, spared: Option<usize>) -> usize {
        let [first, second] = WORKERS;
        match spared {
            Some(spared) if spared == first => second,
            Some(_) => first,
            None => WORKERS[self.random.usize(0..WORKERS.len())],
        }
    }

    pub(crate) fn millis(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.random.u64(range))
    }

    /// Orders to be hit, and orders to recover with: each strike has two shares of them.
    pub(crate) fn grant(&mut self) {
        let share = self.share();
        self.crew.grant(share.end);
    }

    fn share(&mut self) -> std::ops::Range<u64> {
        let share_of = |shares: u64| (self.messages * shares / self.shares_max.max(1)).min(self.messages);
        let share = share_of(self.shares)..share_of(self.shares + 1);
        self.shares += 1;
        if self.shares.is_multiple_of(20) {
            let seconds = (now() - self.started).as_secs_f64();
            eprintln!("torture: {} of {} strikes, {seconds:.1} s", self.shares / 2, self.shares_max / 2);
        }
        share
    }
}

/// At the places of a scenario; otherwise every other one at any moment.
fn kills(options: &Options) -> VecDeque<Option<Stop>> {
    let is_reached = |stop: &Stop| !options.services || !matches!(stop, Stop::ClaimedInbox | Stop::Committed);
    let only = options.scenario.map(Scenario::stops);
    let mut stops =
        Stop::ALL.into_iter().filter(|stop| only.map_or(is_reached(stop), |only| only.contains(stop))).cycle();
    (0..options.kills).map(|kill| if kill % 2 == 0 || only.is_some() { stops.next() } else { None }).collect()
}

fn blows(options: &Options, random: &mut fastrand::Rng) -> VecDeque<Blow> {
    let kinds = [(Blow::Kill, options.server_kills), (Blow::Storm, options.storms), (Blow::Cut, options.cuts)];
    let mut blows: Vec<Blow> = kinds.iter().flat_map(|(blow, times)| (0..*times).map(|_| *blow)).collect();
    random.shuffle(&mut blows);
    blows.into()
}

//! What a worker claims next: from the line as a whole, more of a place that has its share, one message to see whether
//! a place is back, or one that a worker crashed with.

use std::time::{Duration, Instant};

use crate::queue::{Budget, ClaimRequest, Claims, Place, Queue, Topics};
use crate::store::Fingerprint;
use crate::support::clock::monotonic;
use crate::support::error::Result;
use crate::telemetry;
use crate::work::worker::gate::Turn;
use crate::work::worker::run_loop::Loop;
use crate::work::worker::unchanged::Quiet;

/// So many claims from the line, or of one place, are under way while they come back full.
const CLAIMS_AT_ONCE: usize = 3;
/// So many claims are under way in all.
const CLAIMS_MAX: usize = 8;
/// So many messages are held at most, however many places there are.
const IN_HAND_MAX: usize = 1000;
/// How often to look for what another process's worker crashed with.
pub(super) const SUSPECTS_EVERY: Duration = Duration::from_secs(30);
/// A look along a line that passes over much and finds nothing comes again after so many times as long as it took.
const TIMES: u32 = 1;
/// At once when it took no longer than this.
const CHEAP: Duration = Duration::from_millis(2);
const PASSING_MAX: Duration = Duration::from_secs(1);

/// What a claim is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// From the line as a whole, without places that are held or have their share.
    Line,
    /// So many more of a place that has its share.
    More(Place, usize),
    /// One message, to see whether a place is back.
    Probe(Place),
    /// One message that a worker crashed with.
    Suspect,
}

/// What became of a claim.
pub(super) struct Answer {
    pub(super) asked: Instant,
    pub(super) target: Target,
    pub(super) budget: Budget,
    pub(super) turn: Turn,
    /// What it was asked for; none: whatever is in line.
    topics: Option<Topics>,
    /// As the store was before.
    fingerprint: Option<Fingerprint>,
    pub(super) claims: Result<Claims>,
}

impl Loop {
    /// Claims what it may; true when it has to wait for its turn.
    pub(super) fn start_claims(&mut self, stopping: bool) -> bool {
        let now = monotonic();
        while let Some(target) = self.next_target(now).filter(|_| !stopping) {
            let Some(turn) = Turn::take(self.gate.as_ref()) else { return true };
            self.start_claim(target, turn, now);
        }
        if let Some(gate) = &self.gate {
            gate.decline();
        }
        false
    }

    fn next_target(&self, now: Instant) -> Option<Target> {
        // Where workers take turns, each has one.
        let limit = if self.gate.is_some() { 1 } else { CLAIMS_MAX };
        if self.under_way.len() >= limit || !self.has_memory() {
            return None;
        }
        let suspect = || self.suspect_due(now).then_some(Target::Suspect);
        let probe = || self.probe_due(now).map(Target::Probe);
        let more = || self.more(now).map(|(place, wanted)| Target::More(place, wanted));
        let line = || self.line_due(now).then_some(Target::Line);
        let special = || suspect().or_else(probe);
        // Neither the line nor its busiest places wait for each other.
        let usual = || if self.line_was_last { more().or_else(line) } else { line().or_else(more) };
        // A turn that finds nothing special would be taken for an empty line: with others, it comes last, or when it
        // has waited for long.
        let comes_last = self.gate.is_some() && self.suspect_at + SUSPECTS_EVERY > now;
        if comes_last { usual().or_else(special) } else { special().or_else(usual) }
    }

    fn suspect_due(&self, now: Instant) -> bool {
        self.suspects < self.options.suspects_at_once
            && self.suspect_at <= now
            && !self.under_way.contains(&Target::Suspect)
    }

    fn probe_due(&self, now: Instant) -> Option<Place> {
        let (at, place) = self.next_probe()?;
        (at <= now).then_some(place)
    }

    /// The next place that is to be tried, unless it is already.
    fn next_probe(&self) -> Option<(Instant, Place)> {
        let (at, place) = self.places.next_probe()?;
        let is_ours = self.queue.kind() == Queue::Outbox || matches!(place, Place::Topic(_));
        (is_ours && !self.under_way.contains(&Target::Probe(place.clone()))).then_some((at, place))
    }

    fn more(&self, now: Instant) -> Option<(Place, usize)> {
        let (place, wanted) = self.shares.next(now)?;
        let is_held = self.places.get(&place).is_some_and(|known| known.holds());
        let of_it = self.under_way.iter().filter(|target| matches!(target, Target::More(of, _) if *of == place));
        (!is_held && of_it.count() < CLAIMS_AT_ONCE && self.has_space()).then_some((place, wanted))
    }

    fn line_due(&self, now: Instant) -> bool {
        let at_once = if self.full { CLAIMS_AT_ONCE } else { 1 };
        let under_way = self.lines_under_way();
        self.look_at <= now && under_way < at_once && self.has_room()
    }

    fn lines_under_way(&self) -> usize {
        self.under_way.iter().filter(|target| **target == Target::Line).count()
    }

    /// Whether the line as a whole is looked at only when something rings or the time has come.
    pub(super) fn is_waiting(&self) -> bool {
        self.lines_under_way() == 0 && self.has_room() && self.has_memory()
    }

    /// When something else than the line is to be looked at.
    pub(super) fn other_at(&self) -> Option<Instant> {
        let is_free = self.suspects < self.options.suspects_at_once && !self.under_way.contains(&Target::Suspect);
        let suspect = is_free.then_some(self.suspect_at);
        let limit = if self.gate.is_some() { 1 } else { CLAIMS_MAX };
        let times = [suspect, self.next_probe().map(|(at, _)| at)];
        times.into_iter().flatten().min().filter(|_| self.under_way.len() < limit && self.has_memory())
    }

    /// Some batches are worked on while the next are fetched.
    fn has_room(&self) -> bool {
        if self.gate.is_some() {
            // What is in hand is bounded there, for all workers together.
            return true;
        }
        let batch = self.options.batch;
        let held = self.shares.held_within_shares(monotonic()) + self.lines_under_way() * batch;
        held + batch <= self.options.in_hand() && self.has_space()
    }

    fn has_space(&self) -> bool {
        self.gate.is_some() || self.flights.len() + self.options.batch <= self.options.batch + IN_HAND_MAX
    }

    /// Whether there is room for more payloads.
    fn has_memory(&self) -> bool {
        let (taken, memory) = (self.flights.bytes() + self.bytes_asked, self.options.memory);
        taken < memory
    }

    /// A part of what is left, so that several claims fit; one message when nothing is in hand, however large.
    fn budget(&self) -> Budget {
        let taken = self.flights.bytes() + self.bytes_asked;
        let left = self.options.memory.saturating_sub(taken);
        Budget { bytes: left.min((self.options.memory / 4).max(1)), least: usize::from(taken == 0) }
    }

    fn start_claim(&mut self, target: Target, turn: Turn, asked: Instant) {
        let (is_line, budget) = (target == Target::Line, self.budget());
        let fingerprint = if is_line && !self.full { self.queue.fingerprint() } else { None };
        // Before the claim, so that what commits right after it is heard.
        if is_line && !self.full {
            self.listener.arm();
        }
        let (topics, wanted) = self.wanted(&target);
        let request = ClaimRequest::new(self.owner, self.options.lease, wanted).map(|request| {
            let request = request.budget(budget);
            let request = topics.clone().into_iter().fold(request, ClaimRequest::topics);
            if target == Target::Suspect { request.suspects() } else { request }
        });
        if let Target::More(place, wanted) = &target {
            self.shares.ask(place, *wanted);
        }
        self.bytes_asked += budget.bytes;
        self.line_was_last = is_line;
        self.under_way.push(target.clone());
        let (queue, lease) = (self.queue.clone(), self.options.lease);
        self.claiming.push(Box::pin(async move {
            let claims = match request {
                Ok(request) => turn.claim(&queue, lease, request).await,
                Err(error) => Err(error),
            };
            Answer { asked, target, budget, turn, topics, fingerprint, claims }
        }));
    }

    /// Which messages a claim takes, and how many.
    pub(super) fn wanted(&self, target: &Target) -> (Option<Topics>, usize) {
        let without = |places: Vec<Place>| match (&self.options.topics, places) {
            (topics, places) if places.is_empty() => topics.clone(),
            (topics, places) => Some(topics.clone().unwrap_or_else(Topics::all).without(&places)),
        };
        match target {
            Target::Line => {
                let mut left_out = self.places.held();
                left_out.extend(self.shares.crowded());
                (without(left_out), self.options.batch)
            }
            Target::Suspect => (without(self.places.held()), 1),
            Target::Probe(place) => (Topics::of(place), 1),
            Target::More(place, wanted) => (Topics::of(place), *wanted),
        }
    }

    pub(super) fn claimed(&mut self, answer: Answer) {
        let Answer { asked, target, budget, mut turn, topics, fingerprint, claims } = answer;
        if let Some(at) = self.under_way.iter().position(|one| *one == target) {
            self.under_way.swap_remove(at);
        }
        self.bytes_asked = self.bytes_asked.saturating_sub(budget.bytes);
        let found = claims.as_ref().ok().map(|claims| claims.claimed.len());
        turn.found = found;
        if claims.as_ref().is_ok_and(|claims| claims.reaped.freed > 0) {
            self.suspect_at = asked;
        }
        let claims = match claims {
            Ok(claims) => claims,
            Err(error) => {
                telemetry::claim_failed(self.queue.named(), &error);
                return self.failed_to_claim(&target);
            }
        };
        let did_not_fit = self.did_not_fit(&claims, budget);
        match &target {
            Target::Line => self.line_claimed(claims, asked, turn, fingerprint, topics),
            _ => self.other_claimed(&target, claims, asked, turn),
        }
        match did_not_fit {
            // Some of what was in hand is done since: now it may fit.
            true if self.budget().exceeds(budget) => self.look_now(),
            true => self.is_short_of_memory = true,
            false => {}
        }
    }

    /// There is a message in line that is too large beside what was in hand.
    fn did_not_fit(&self, claims: &Claims, budget: Budget) -> bool {
        let now = self.queue.time_hint();
        budget.least == 0 && claims.claimed.is_empty() && claims.next_at.is_some_and(|next_at| next_at <= now)
    }

    fn other_claimed(&mut self, target: &Target, claims: Claims, asked: Instant, turn: Turn) {
        let found = turn.found;
        match target {
            Target::More(place, wanted) => {
                self.shares.answered(place, *wanted, found);
                self.look_now();
            }
            Target::Probe(place) if found == Some(0) => {
                self.places.rest(place);
                // From now on the line as a whole has what comes for it: when is that?
                self.quiet = None;
                self.look_now();
            }
            Target::Line | Target::Probe(_) => {}
            Target::Suspect => {
                let due = claims.next_at.map(|at| at.since(self.queue.time_hint()) + Duration::from_micros(200));
                self.suspect_at = monotonic() + due.unwrap_or(SUSPECTS_EVERY).min(SUSPECTS_EVERY);
            }
        }
        if !claims.claimed.is_empty() {
            self.take_up(claims.claimed, asked, turn);
        }
    }

    fn failed_to_claim(&mut self, target: &Target) {
        match target {
            Target::Line => {
                (self.quiet, self.full) = (None, false);
                self.wait(None);
            }
            // The line as a whole finds it again.
            Target::More(place, wanted) => self.shares.answered(place, *wanted, Some(0)),
            Target::Probe(place) => self.places.rest(place),
            Target::Suspect => self.suspect_at = monotonic() + self.options.poll_max,
        }
    }

    fn line_claimed(
        &mut self,
        claims: Claims,
        asked: Instant,
        turn: Turn,
        fingerprint: Option<Fingerprint>,
        topics: Option<Topics>,
    ) {
        if !std::mem::replace(&mut self.has_looked, true) {
            self.suspect_at = asked;
        }
        self.quiet = None;
        self.full = turn.found >= Some(self.options.batch);
        let took = asked.elapsed();
        // Places may have been left out.
        let is_passing = topics != self.options.topics;
        self.line_after = match is_passing && claims.claimed.is_empty() && took > CHEAP {
            true => asked + took.saturating_mul(TIMES + 1).min(PASSING_MAX),
            false => asked,
        };
        if !claims.claimed.is_empty() {
            self.idle_wait = self.options.poll;
            self.look_now();
            if self.full {
                self.listener.disarm();
            }
            return self.take_up(claims.claimed, asked, turn);
        }
        // What came in between the last full claim and this one made no sound: look once more, listening.
        if !self.listener.is_armed() {
            return self.listener.arm();
        }
        self.quiet = fingerprint.map(|fingerprint| Quiet { fingerprint, next_at: claims.next_at, topics });
        self.wait(claims.next_at);
    }
}

//! Decides what a worker claims next: from the whole queue, more for a place that has its share, one message to try a
//! held place, or a suspect.

use std::time::{Duration, Instant};

use crate::queue::{Budget, ClaimRequest, Claims, Place, Queue, Topics};
use crate::store::Fingerprint;
use crate::support::clock::monotonic;
use crate::support::error::Result;
use crate::telemetry;
use crate::work::worker::gate::Turn;
use crate::work::worker::options::IN_PROGRESS_MAX;
use crate::work::worker::run_loop::Loop;
use crate::work::worker::unchanged::Quiet;

/// At most this many claims from the whole queue, or of one place, are in progress while they come back full.
const CLAIMS_AT_ONCE: usize = 3;
/// At most this many claims are in progress in total.
const CLAIMS_MAX: usize = 8;
/// How often to look for suspects of other processes.
pub(super) const SUSPECTS_EVERY: Duration = Duration::from_secs(30);
/// A claim that skips many rows and finds nothing is repeated after this many times as long as it took.
const TIMES: u32 = 1;
/// If it took no longer than this, it is repeated at once.
const CHEAP: Duration = Duration::from_millis(2);
/// How often to look for messages of other places while one has as many as it can get.
const OTHERS_EVERY: Duration = Duration::from_millis(50);
const PASSING_MAX: Duration = Duration::from_secs(1);

/// What a claim is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// Messages of the whole queue, without places that are held or have their share.
    WholeQueue,
    /// This many more messages for a place that has its share.
    More(Place, usize),
    /// One message, to try whether a place works again.
    Probe(Place),
    /// One suspect.
    Suspect,
}

/// The result of a claim.
pub(super) struct Answer {
    pub(super) asked: Instant,
    pub(super) target: Target,
    pub(super) budget: Budget,
    pub(super) turn: Turn,
    /// The topics it asked for; `None` means every ready message.
    topics: Option<Topics>,
    /// The state of the store before the claim.
    fingerprint: Option<Fingerprint>,
    pub(super) claims: Result<Claims>,
}

impl Loop {
    /// Starts the claims that are allowed, and returns true if it must wait for its turn.
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
        // Where workers take turns, each makes one claim at a time.
        let limit = if self.gate.is_some() { 1 } else { CLAIMS_MAX };
        if self.under_way.len() >= limit || !self.has_memory() {
            return None;
        }
        let suspect = || self.suspect_due(now).then_some(Target::Suspect);
        let probe = || self.probe_due(now).map(Target::Probe);
        let more = || self.more(now).map(|(place, wanted)| Target::More(place, wanted));
        let queue = || self.queue_due(now).then_some(Target::WholeQueue);
        let special = || suspect().or_else(probe);
        // The claims of the whole queue and of its busiest places do not wait for each other.
        let usual = || if self.queue_was_last { more().or_else(queue) } else { queue().or_else(more) };
        // A turn that finds no special message would be taken for an empty queue. Among other stores, these claims come
        // last, or when they have waited for long.
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

    /// Returns the next place to try, unless a claim for it is in progress.
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

    fn queue_due(&self, now: Instant) -> bool {
        let at_once = if self.full { CLAIMS_AT_ONCE } else { 1 };
        let under_way = self.queue_claims();
        self.look_at <= now && under_way < at_once && self.has_room()
    }

    fn queue_claims(&self) -> usize {
        self.under_way.iter().filter(|target| **target == Target::WholeQueue).count()
    }

    /// Returns whether the whole queue is claimed only when a wake-up comes or the time has come.
    pub(super) fn is_waiting(&self) -> bool {
        self.queue_claims() == 0 && self.has_room() && self.has_memory()
    }

    /// Returns when to look for something other than the whole queue.
    pub(super) fn other_at(&self) -> Option<Instant> {
        let is_free = self.suspects < self.options.suspects_at_once && !self.under_way.contains(&Target::Suspect);
        let suspect = is_free.then_some(self.suspect_at);
        let limit = if self.gate.is_some() { 1 } else { CLAIMS_MAX };
        let times = [suspect, self.next_probe().map(|(at, _)| at)];
        times.into_iter().flatten().min().filter(|_| self.under_way.len() < limit && self.has_memory())
    }

    /// Returns whether there is room for another batch: several batches are in progress while the next are fetched.
    fn has_room(&self) -> bool {
        if self.gate.is_some() {
            // The gate limits the messages in progress, for all workers together.
            return true;
        }
        let batch = self.options.batch;
        let held = self.shares.held_within_shares(monotonic()) + self.queue_claims() * batch;
        held + batch <= self.options.in_progress_max() && self.has_space()
    }

    fn has_space(&self) -> bool {
        self.gate.is_some() || self.flights.len() + self.options.batch <= self.options.batch + IN_PROGRESS_MAX
    }

    /// Returns whether there is room for more payloads.
    fn has_memory(&self) -> bool {
        let (taken, memory) = (self.flights.bytes() + self.bytes_asked, self.options.memory);
        taken < memory
    }

    /// Returns a part of the free memory, so that several claims fit; or one message of any size if nothing is in
    /// progress.
    fn budget(&self) -> Budget {
        let taken = self.flights.bytes() + self.bytes_asked;
        let left = self.options.memory.saturating_sub(taken);
        Budget { bytes: left.min((self.options.memory / 4).max(1)), least: usize::from(taken == 0) }
    }

    fn start_claim(&mut self, target: Target, turn: Turn, asked: Instant) {
        let (is_whole_queue, budget) = (target == Target::WholeQueue, self.budget());
        let fingerprint = if is_whole_queue && !self.full { self.queue.fingerprint() } else { None };
        // This comes before the claim, so that a commit right after the claim is noticed.
        if is_whole_queue && !self.full {
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
        self.queue_was_last = is_whole_queue;
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

    /// Returns which messages a claim takes, and how many.
    pub(super) fn wanted(&self, target: &Target) -> (Option<Topics>, usize) {
        let without = |places: Vec<Place>| match (&self.options.topics, places) {
            (topics, places) if places.is_empty() => topics.clone(),
            (topics, places) => Some(topics.clone().unwrap_or_else(Topics::all).without(&places)),
        };
        match target {
            Target::WholeQueue => {
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
            Target::WholeQueue => self.queue_claimed(claims, asked, turn, fingerprint, topics),
            _ => self.other_claimed(&target, claims, asked, turn),
        }
        match did_not_fit {
            // Some messages have ended since, so it may fit now.
            true if self.budget().exceeds(budget) => self.look_now(),
            true => self.is_short_of_memory = true,
            false => {}
        }
    }

    /// Returns whether a ready message was too large beside those in progress.
    fn did_not_fit(&self, claims: &Claims, budget: Budget) -> bool {
        let now = self.queue.time_hint();
        budget.least == 0 && claims.claimed.is_empty() && claims.next_at.is_some_and(|next_at| next_at <= now)
    }

    fn other_claimed(&mut self, target: &Target, claims: Claims, asked: Instant, turn: Turn) {
        let found = turn.found;
        match target {
            Target::More(place, wanted) => {
                self.shares.answered(place, *wanted, found);
                match found < Some(*wanted) {
                    true => self.look_now(),
                    // The place stays left out, and the others were looked at a moment ago.
                    false => self.look_at = self.look_at.min(asked + OTHERS_EVERY).max(self.not_before),
                }
            }
            Target::Probe(place) if found == Some(0) => {
                self.places.rest(place);
                // From now on, its messages are claimed from the whole queue. Look when the next one is due.
                self.quiet = None;
                self.look_now();
            }
            Target::WholeQueue | Target::Probe(_) => {}
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
            Target::WholeQueue => {
                (self.quiet, self.full) = (None, false);
                self.listener.looked(true);
                self.wait(None);
            }
            // They are found again by a claim from the whole queue.
            Target::More(place, wanted) => self.shares.answered(place, *wanted, Some(0)),
            Target::Probe(place) => self.places.rest(place),
            Target::Suspect => self.suspect_at = monotonic() + self.options.poll_max,
        }
    }

    fn queue_claimed(
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
        // If it wanted everything and got less than it asked for, there is nothing left for others.
        self.listener.looked(self.full || topics.is_some());
        let took = asked.elapsed();
        // Places may have been left out.
        let is_passing = topics != self.options.topics;
        self.not_before = match is_passing && claims.claimed.is_empty() && took > CHEAP {
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
        // Messages between the last full claim and this one caused no wake-up, so look once more while listening.
        if !self.listener.is_armed() {
            return self.listener.arm();
        }
        self.quiet = fingerprint.map(|fingerprint| Quiet { fingerprint, next_at: claims.next_at, topics });
        self.wait(claims.next_at);
    }
}

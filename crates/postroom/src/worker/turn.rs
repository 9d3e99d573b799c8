//! The loop itself.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::OptionFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::{Timestamp, monotonic};
use crate::error::{Error, ErrorKind, Result};
use crate::maintenance;
use crate::message::OwnerToken;
use crate::queue::{Claimed, Claims, Lease, Settle, Verb};
use crate::store::{BoxFuture, Fingerprint, WakeListener};
use crate::telemetry;
use crate::worker::flight::Flights;
use crate::worker::gate::{Gate, Turn, few_at_once};
use crate::worker::probe::Point;
use crate::worker::quiet::Quiet;
use crate::worker::settling::settle;
use crate::worker::{Outcome, Process, Run, WorkerOptions};
use crate::workqueue::WorkQueue;

/// So many reports are taken up at once.
const REPORTS_MAX: usize = 1024;
/// So many settles are under way before reports wait for each other.
const SETTLES_AT_ONCE: usize = 2;
/// So many batches may be in hand, as long as that is not too much.
const BATCHES_IN_HAND: usize = 4;
const IN_HAND_MAX: usize = 1000;
const CLAIMS_AT_ONCE: usize = 3;
/// How long work that was broken off has to give its messages back.
const BREAK_OFF_TIME: Duration = Duration::from_secs(1);

type Claiming = BoxFuture<'static, Answer>;
type Renewing = BoxFuture<'static, (Vec<Lease>, Instant, Result<Vec<bool>>)>;

/// What became of a claim.
struct Answer {
    asked: Instant,
    turn: Turn,
    /// As the store was before.
    fingerprint: Option<Fingerprint>,
    claims: Result<Claims>,
}

pub(crate) struct Loop {
    queue: WorkQueue,
    process: Arc<dyn Process>,
    options: Arc<WorkerOptions>,
    owner: OwnerToken,
    flights: Flights,
    tasks: JoinSet<()>,
    reports: mpsc::UnboundedReceiver<(Lease, Outcome)>,
    reporter: mpsc::UnboundedSender<(Lease, Outcome)>,
    settling: FuturesUnordered<BoxFuture<'static, ()>>,
    claiming: FuturesUnordered<Claiming>,
    renewing: Option<Renewing>,
    maintaining: Option<BoxFuture<'static, ()>>,
    listener: WakeListener,
    /// A message that once outlived its worker, waiting until nothing else is in hand.
    suspect: Option<(Claimed, Instant)>,
    meters: Arc<telemetry::Meters>,
    alone: bool,
    /// The last claim came back full: there is more.
    full: bool,
    stop: CancellationToken,
    gate: Option<Arc<dyn Gate>>,
    quiet: Option<Quiet>,
    /// When to look again, if nothing rings before.
    look_at: Instant,
    idle_wait: Duration,
}

impl Loop {
    pub(crate) fn new(
        queue: WorkQueue,
        process: Arc<dyn Process>,
        options: Arc<WorkerOptions>,
        gate: Option<Arc<dyn Gate>>,
    ) -> Self {
        let (reporter, reports) = mpsc::unbounded_channel();
        Self {
            owner: OwnerToken::new(),
            flights: Flights::default(),
            tasks: JoinSet::new(),
            reports,
            reporter,
            settling: FuturesUnordered::new(),
            claiming: FuturesUnordered::new(),
            full: false,
            renewing: None,
            maintaining: None,
            listener: queue.wake().listen(),
            suspect: None,
            meters: Arc::new(telemetry::Meters::new(&queue)),
            alone: false,
            stop: CancellationToken::new(),
            look_at: monotonic(),
            idle_wait: options.poll,
            options,
            gate,
            quiet: None,
            process,
            queue,
        }
    }

    pub(crate) async fn run(mut self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        telemetry::worker_started(&self.queue, self.owner);
        let mut shutdown = pin!(shutdown);
        let mut renewal = tokio::time::interval((self.options.lease / 6).max(Duration::from_millis(1)));
        renewal.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut upkeep = tokio::time::interval(self.options.maintenance);
        let mut end_at: Option<Instant> = None;
        let mut broken_off = false;
        let mut reports = Vec::new();
        while !(end_at.is_some() && self.is_empty()) {
            self.start_suspect();
            let in_line = self.start_claims(end_at.is_some());
            // While some are being written the next gather: fewer and larger commits.
            let takes_reports = self.settling.len() < SETTLES_AT_ONCE;
            let waiting = end_at.is_none() && self.claiming.is_empty() && self.has_room() && !in_line;
            tokio::select! {
                received = self.reports.recv_many(&mut reports, REPORTS_MAX), if takes_reports => {
                    debug_assert!(received > 0, "the loop keeps a sender");
                    self.settle(reports.drain(..));
                }
                Some(answer) = self.claiming.next(), if !self.claiming.is_empty() => self.claimed(answer),
                Some(()) = OptionFuture::from(self.gate.as_ref().map(|gate| gate.bell().notified())) => {}
                Some(()) = self.settling.next(), if !self.settling.is_empty() => {}
                Some(renewed) = OptionFuture::from(self.renewing.as_mut()) => self.renewed(renewed),
                Some(()) = OptionFuture::from(self.maintaining.as_mut()) => self.maintaining = None,
                Some(ended) = self.tasks.join_next(), if !self.tasks.is_empty() => ended.map_err(broken)?,
                () = self.listener.heard(), if waiting => self.look_now(),
                () = tokio::time::sleep_until(self.look_at.into()), if waiting => self.look_if_changed(),
                _ = renewal.tick(), if self.suspect.is_some() || !self.flights.is_empty() => self.renew(),
                _ = upkeep.tick(), if end_at.is_none() => self.maintain(),
                () = &mut shutdown, if end_at.is_none() => end_at = Some(self.begin_stop()),
                () = tokio::time::sleep_until(end_at.unwrap_or_else(monotonic).into()), if end_at.is_some() => {
                    // Handlers that ignore even the cancellation are left to their leases.
                    if std::mem::replace(&mut broken_off, true) {
                        break;
                    }
                    self.flights.cancel_all();
                    end_at = Some(monotonic() + BREAK_OFF_TIME);
                }
            }
        }
        telemetry::worker_stopped(&self.queue, self.flights.len());
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.flights.is_empty() && self.settling.is_empty() && self.claiming.is_empty() && self.reports.is_empty()
    }

    fn has_room(&self) -> bool {
        self.suspect.is_none() && !self.alone && self.room() > 0
    }

    /// Some batches are worked on while the next are fetched.
    fn room(&self) -> usize {
        let batch = self.options.batch;
        if self.gate.is_some() {
            // What is in hand is bounded there, for all workers together.
            return batch;
        }
        let limit = (batch * BATCHES_IN_HAND).max(batch + self.options.concurrency).min(batch + IN_HAND_MAX);
        let free = limit.saturating_sub(self.flights.len() + self.claiming.len() * batch);
        if free >= batch { batch } else { 0 }
    }

    fn look_now(&mut self) {
        self.look_at = monotonic();
    }

    /// A store that has not changed since nothing was found in it is left in peace.
    fn look_if_changed(&mut self) {
        match self.quiet.as_ref().filter(|quiet| quiet.lasts(&self.queue)) {
            Some(quiet) => {
                telemetry::unchanged(&self.queue);
                self.wait(quiet.next_at);
            }
            None => self.look_now(),
        }
    }

    /// Claims what it may; true when it has to wait for its turn.
    fn start_claims(&mut self, stopping: bool) -> bool {
        let asked = monotonic();
        while self.wants_to_claim(stopping, asked) {
            let Some(turn) = Turn::take(self.gate.as_ref()) else { return true };
            let fingerprint = if self.full { None } else { self.queue.fingerprint() };
            // Before the claim, so that what commits right after it is heard.
            if !self.full {
                self.listener.arm();
            }
            let (queue, owner, options, batch) = (self.queue.clone(), self.owner, self.options.clone(), self.room());
            self.claiming.push(Box::pin(async move {
                let claims = turn.claim(&queue, owner, &options, batch).await;
                Answer { asked, turn, fingerprint, claims }
            }));
        }
        if let Some(gate) = &self.gate {
            gate.decline();
        }
        false
    }

    fn wants_to_claim(&self, stopping: bool, now: Instant) -> bool {
        // As long as claims come back full several are under way, so that they share commits with the handlers. Where
        // workers take turns, each has one.
        let at_once = if self.full && self.gate.is_none() { CLAIMS_AT_ONCE } else { 1 };
        !stopping && self.has_room() && self.look_at <= now && self.claiming.len() < at_once
    }

    fn claimed(&mut self, answer: Answer) {
        let Answer { asked, mut turn, fingerprint, claims } = answer;
        self.quiet = None;
        turn.found = claims.as_ref().ok().map(|claims| claims.claimed.len());
        self.full = turn.found >= Some(self.options.batch);
        match claims {
            // What came in between the last full claim and this one made no sound: look once more, listening.
            Ok(claims) if claims.claimed.is_empty() && !self.listener.is_armed() => self.listener.arm(),
            Ok(claims) if claims.claimed.is_empty() => {
                self.quiet = fingerprint.map(|fingerprint| Quiet { fingerprint, next_at: claims.next_at });
                self.wait(claims.next_at);
            }
            Ok(claims) => {
                self.idle_wait = self.options.poll;
                self.look_now();
                if self.full {
                    self.listener.disarm();
                }
                self.take_up(claims.claimed, asked, turn);
            }
            Err(error) => {
                telemetry::claim_failed(&self.queue, &error);
                self.wait(None);
            }
        }
    }

    /// Nothing to do: look again after a growing pause, or when the next message is due.
    fn wait(&mut self, next_at: Option<Timestamp>) {
        let until_due = next_at.map(|at| at.since(self.queue.time_hint()) + Duration::from_micros(200));
        self.look_at = monotonic() + until_due.unwrap_or(self.idle_wait).min(self.idle_wait);
        self.idle_wait = (self.idle_wait * 2).min(self.options.poll_max);
    }

    fn take_up(&mut self, mut batch: Vec<Claimed>, asked: Instant, turn: Turn) {
        self.options.reached(Point::AfterClaim);
        if self.alone || self.suspect.is_some() || self.stop.is_cancelled() {
            return self.give_back(batch);
        }
        let is_suspect = batch.first().is_some_and(|claimed| claimed.lease.crashes() > 0);
        if is_suspect && !self.flights.is_empty() {
            self.suspect = batch.pop().map(|claimed| (claimed, asked));
            return;
        }
        self.alone = is_suspect;
        let run = Run {
            reports: self.reporter.clone(),
            lost: Arc::new(batch.iter().map(|claimed| (claimed.lease.seq(), CancellationToken::new())).collect()),
            stop: self.stop.clone(),
            lease: self.options.lease,
            meters: self.meters.clone(),
            sends_max: self.options.retry_services.attempts_max(),
        };
        for claimed in &batch {
            let max_attempts = claimed.message.as_ref().ok().and_then(|message| message.max_attempts);
            self.flights.add(&claimed.lease, max_attempts, run.lost(&claimed.lease), asked + self.options.lease);
        }
        self.tell_gate();
        self.tasks.spawn(turn.until_in_line(self.process.clone().process(batch, run)));
    }

    fn give_back(&mut self, batch: Vec<Claimed>) {
        let release = batch.into_iter().map(|claimed| Settle::release(claimed.lease)).collect();
        self.settling.push(Box::pin(settle(self.queue.clone(), release, self.options.clone())));
    }

    fn start_suspect(&mut self) {
        if self.flights.is_empty()
            && let Some((claimed, asked)) = self.suspect.take()
        {
            self.take_up(vec![claimed], asked, Turn::over());
        }
    }

    fn settle(&mut self, reports: impl Iterator<Item = (Lease, Outcome)>) {
        let now = self.queue.time_hint();
        let mut settles = Vec::new();
        for (lease, outcome) in reports {
            let max_attempts = self.flights.remove(&lease);
            self.probe(&outcome);
            let settle = outcome.into_settle(lease, max_attempts, &self.options, now);
            if let Some(Verb::Abandon { delay, .. }) = settle.as_ref().map(|settle| &settle.verb) {
                self.look_at = self.look_at.min(monotonic() + *delay);
            }
            settles.extend(settle);
        }
        self.alone &= !self.flights.is_empty();
        self.tell_gate();
        if !settles.is_empty() {
            self.settling.push(Box::pin(settle(self.queue.clone(), settles, self.options.clone())));
        }
    }

    fn renew(&mut self) {
        let (now, lease) = (monotonic(), self.options.lease);
        let broken_off = self.flights.drop_overdue(lease / 5, now);
        if broken_off > 0 {
            telemetry::leases_overdue(&self.queue, broken_off);
        }
        let mut ending = self.flights.ending_within(lease * 2 / 3, now);
        ending.extend(self.suspect.iter().map(|(claimed, _)| claimed.lease.clone()));
        if ending.is_empty() || self.renewing.is_some() {
            return;
        }
        let queue = self.queue.clone();
        self.renewing = Some(Box::pin(async move {
            let held = queue.extend(&ending, lease).await;
            (ending, now + lease, held)
        }));
    }

    fn renewed(&mut self, (leases, until, held): (Vec<Lease>, Instant, Result<Vec<bool>>)) {
        self.renewing = None;
        match held {
            Ok(held) => {
                self.flights.renewed(&leases, &held, until);
                self.suspect_renewed(&leases, &held, until);
            }
            Err(error) => telemetry::renewal_failed(&self.queue, &error),
        }
    }

    fn suspect_renewed(&mut self, leases: &[Lease], held: &[bool], until: Instant) {
        let Some((claimed, asked)) = &mut self.suspect else { return };
        match leases.iter().zip(held).find(|(lease, _)| **lease == claimed.lease) {
            Some((_, true)) => *asked = until - self.options.lease,
            Some((_, false)) => self.suspect = None,
            None => {}
        }
    }

    fn maintain(&mut self) {
        if self.maintaining.is_none() {
            let upkeep = maintenance::run(self.queue.clone(), self.options.clone());
            self.maintaining = Some(match self.gate.clone() {
                Some(gate) => Box::pin(few_at_once(gate, upkeep)),
                None => Box::pin(upkeep),
            });
        }
    }

    fn begin_stop(&mut self) -> Instant {
        telemetry::worker_stopping(&self.queue, self.flights.len());
        self.stop.cancel();
        if let Some((claimed, _)) = self.suspect.take() {
            self.give_back(vec![claimed]);
        }
        monotonic() + self.options.grace
    }

    fn tell_gate(&self) {
        if let Some(gate) = &self.gate {
            gate.holds(self.flights.len());
        }
    }

    fn probe(&self, outcome: &Outcome) {
        match outcome {
            Outcome::Settled => self.options.reached(Point::AfterCommit),
            Outcome::Lost => self.options.reached(Point::LeaseLost),
            _ => {}
        }
    }
}

/// Handlers' panics are caught where they happen; this one is ours, and the worker no longer knows what it holds.
fn broken(source: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Callback, "the worker broke down; its messages are taken over when their leases are over")
        .caused_by(source)
}

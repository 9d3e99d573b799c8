//! The worker's loop.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::OptionFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::mailbox::work_queue::WorkQueue;
use crate::message::OwnerToken;
use crate::queue::Terms;
use crate::queue::{Claimed, Lease, Outcome, Settle, Verb};
use crate::store::{BoxFuture, Stop, WakeListener};
use crate::support::by_number::ByNumber;
use crate::support::clock::monotonic;
use crate::support::error::{Error, ErrorKind, Result};
use crate::telemetry;
use crate::work::batch::{BatchRun, Lost, Process};
use crate::work::places::Places;
use crate::work::worker::WorkerOptions;
use crate::work::worker::claims::{Answer, SUSPECTS_EVERY, Target};
use crate::work::worker::flight::{Facts, Flights};
use crate::work::worker::gate::{Gate, Turn, few_at_once};
use crate::work::worker::holds::Holds;
use crate::work::worker::maintenance;
use crate::work::worker::probe::Point;
use crate::work::worker::settling::settle;
use crate::work::worker::shares::Shares;
use crate::work::worker::unchanged::Quiet;

/// At most this many reports are processed at once.
const REPORTS_MAX: usize = 1024;
/// While this many settles are in progress, further reports are collected.
const SETTLES_AT_ONCE: usize = 2;
/// How long interrupted work has to release its messages.
const BREAK_OFF_TIME: Duration = Duration::from_secs(1);

/// How often a worker asks whether messages that it has in progress are to stop.
const STOPS_EVERY: Duration = Duration::from_millis(750);

/// When maintenance begins: what waits comes first.
const FIRST_UPKEEP: Duration = Duration::from_secs(1);

type Renewing = BoxFuture<'static, (Vec<Lease>, Instant, Result<Vec<bool>>)>;

pub(crate) struct Loop {
    pub(super) queue: WorkQueue,
    process: Arc<dyn Process>,
    pub(super) options: Arc<WorkerOptions>,
    pub(super) owner: OwnerToken,
    pub(super) flights: Flights,
    /// The messages in progress, by place.
    pub(super) shares: Shares,
    /// The state of the places, for all workers of this process.
    pub(super) places: Places,
    holds: Holds,
    tasks: JoinSet<()>,
    reports: mpsc::UnboundedReceiver<(Lease, Outcome)>,
    reporter: mpsc::UnboundedSender<(Lease, Outcome)>,
    settling: FuturesUnordered<BoxFuture<'static, ()>>,
    pub(super) claiming: FuturesUnordered<BoxFuture<'static, Answer>>,
    /// What the claims in progress are for.
    pub(super) under_way: Vec<Target>,
    /// How many bytes of payload these claims may return.
    pub(super) bytes_asked: u64,
    pub(super) is_short_of_memory: bool,
    renewing: Option<Renewing>,
    maintaining: Option<BoxFuture<'static, ()>>,
    /// The question which messages are to stop.
    asking: Option<BoxFuture<'static, Result<Vec<Stop>>>>,
    ask_at: Instant,
    pub(super) listener: WakeListener,
    /// The number of suspects in progress.
    pub(super) suspects: usize,
    /// When to look for more suspects.
    pub(super) suspect_at: Instant,
    pub(super) has_looked: bool,
    meters: Arc<telemetry::Meters>,
    /// The last claim from the whole queue came back full, so there is more.
    pub(super) full: bool,
    pub(super) queue_was_last: bool,
    stop: CancellationToken,
    pub(super) gate: Option<Arc<dyn Gate>>,
    pub(super) quiet: Option<Quiet>,
    /// When to look at the queue again, unless a wake-up comes first.
    pub(super) look_at: Instant,
    /// The queue is not looked at before this time.
    pub(super) not_before: Instant,
    pub(super) idle_wait: Duration,
}

impl Loop {
    pub(crate) fn new(
        queue: WorkQueue,
        process: Arc<dyn Process>,
        options: Arc<WorkerOptions>,
        places: Places,
        gate: Option<Arc<dyn Gate>>,
    ) -> Self {
        let (reporter, reports) = mpsc::unbounded_channel();
        let now = monotonic();
        Self {
            owner: OwnerToken::new(),
            flights: Flights::new(queue.holding()),
            shares: match &gate {
                Some(_) => Shares::new(options.batch, options.in_progress_max()).taking_turns(),
                None => Shares::new(options.batch, options.in_progress_max()).growing(options.large_batch),
            },
            places,
            holds: Holds::default(),
            tasks: JoinSet::new(),
            reports,
            reporter,
            settling: FuturesUnordered::new(),
            claiming: FuturesUnordered::new(),
            under_way: Vec::new(),
            bytes_asked: 0,
            is_short_of_memory: false,
            full: false,
            queue_was_last: false,
            renewing: None,
            maintaining: None,
            asking: None,
            ask_at: now,
            listener: queue.wake().listen(),
            suspects: 0,
            // The whole queue comes first.
            suspect_at: now + SUSPECTS_EVERY,
            has_looked: false,
            meters: Arc::new(telemetry::Meters::new(queue.named())),
            stop: CancellationToken::new(),
            look_at: now,
            not_before: now,
            idle_wait: options.poll,
            options,
            gate,
            quiet: None,
            process,
            queue,
        }
    }

    pub(crate) async fn run(mut self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        telemetry::worker_started(self.queue.named(), self.owner);
        let mut shutdown = pin!(shutdown);
        let mut renewal = tokio::time::interval((self.options.lease / 6).max(Duration::from_millis(1)));
        renewal.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let first_upkeep = monotonic() + self.options.maintenance.min(FIRST_UPKEEP);
        let mut upkeep = tokio::time::interval_at(first_upkeep.into(), self.options.maintenance);
        let mut end_at: Option<Instant> = None;
        let mut broken_off = false;
        let mut reports = Vec::new();
        while !(end_at.is_some() && self.is_empty()) {
            let must_wait = self.start_claims(end_at.is_some());
            // While some are being written, the next are collected, for fewer and larger commits.
            let takes_reports = self.settling.len() < SETTLES_AT_ONCE;
            let waiting = end_at.is_none() && self.is_waiting() && !must_wait;
            let other_at = self.other_at().filter(|_| end_at.is_none() && !must_wait);
            let ask_at = Some(self.ask_at).filter(|_| self.asking.is_none() && !self.flights.is_empty());
            tokio::select! {
                received = self.reports.recv_many(&mut reports, REPORTS_MAX), if takes_reports => {
                    debug_assert!(received > 0, "the loop keeps a sender");
                    self.settle(reports.drain(..));
                }
                Some(answer) = self.claiming.next(), if !self.claiming.is_empty() => {
                    self.claimed(answer);
                    // The handlers start before the next claim.
                    tokio::task::yield_now().await;
                }
                Some(()) = OptionFuture::from(self.gate.as_ref().map(|gate| gate.bell().notified())) => {}
                Some(()) = self.settling.next(), if !self.settling.is_empty() => {}
                Some(renewed) = OptionFuture::from(self.renewing.as_mut()) => self.renewed(renewed),
                Some(()) = OptionFuture::from(self.maintaining.as_mut()) => self.maintaining = None,
                Some(ended) = self.tasks.join_next(), if !self.tasks.is_empty() => ended.map_err(broken)?,
                () = self.listener.heard_in_turn(), if waiting => self.woken(),
                () = tokio::time::sleep_until(self.look_at.into()), if waiting => self.look_if_changed(),
                Some(()) = OptionFuture::from(other_at.map(|at| tokio::time::sleep_until(at.into()))) => {}
                Some(stops) = OptionFuture::from(self.asking.as_mut()) => self.told(stops),
                Some(()) = OptionFuture::from(ask_at.map(|at| tokio::time::sleep_until(at.into()))) => {
                    self.ask_for_stops();
                }
                _ = renewal.tick(), if !self.flights.is_empty() => self.renew(),
                _ = upkeep.tick(), if end_at.is_none() => self.maintain(),
                () = &mut shutdown, if end_at.is_none() => end_at = Some(self.begin_stop()),
                () = tokio::time::sleep_until(end_at.unwrap_or_else(monotonic).into()), if end_at.is_some() => {
                    // Handlers that ignore the cancellation too are abandoned, and their leases run out.
                    if std::mem::replace(&mut broken_off, true) {
                        break;
                    }
                    self.flights.cancel_all();
                    end_at = Some(monotonic() + BREAK_OFF_TIME);
                }
            }
        }
        telemetry::worker_stopped(self.queue.named(), self.flights.len());
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.flights.is_empty() && self.settling.is_empty() && self.claiming.is_empty() && self.reports.is_empty()
    }

    pub(super) fn take_up(&mut self, batch: Vec<Claimed>, asked: Instant, turn: Turn) {
        self.options.reached(Point::AfterClaim);
        if self.stop.is_cancelled() {
            return self.give_back(batch);
        }
        let run = BatchRun {
            store: self.queue.store_name().into(),
            reports: self.reporter.clone(),
            lost: Arc::new(Lost::default()),
            stop: self.stop.clone(),
            lease: self.options.lease,
            meters: self.meters.clone(),
            policies: self.options.policies.clone(),
            entered: Arc::new(Mutex::new(ByNumber::default())),
        };
        let (now, facts) = (monotonic(), Facts::of(&batch));
        self.suspects += facts.iter().filter(|facts| facts.is_suspect).count();
        for of_place in facts.chunk_by(|one, next| Arc::ptr_eq(&one.place, &next.place)) {
            if let Some(Facts { place, .. }) = of_place.first() {
                self.shares.take(place, of_place.len(), || self.process.slots(place), now);
            }
        }
        if self.flights.is_empty() {
            self.ask_at = now + STOPS_EVERY;
        }
        self.flights.add(&batch, facts, &run.lost, asked + self.options.lease);
        self.tell_gate();
        self.tasks.spawn(turn.until_waiting(self.process.clone().process(batch, run)));
    }

    fn give_back(&mut self, batch: Vec<Claimed>) {
        let release = batch.into_iter().map(|claimed| Settle::release(claimed.lease)).collect();
        self.settling.push(Box::pin(settle(self.queue.clone(), release, self.options.clone())));
    }

    fn settle(&mut self, reports: impl Iterator<Item = (Lease, Outcome)>) {
        let (now, at) = (self.queue.time_hint(), monotonic());
        let (mut settles, mut ended, mut has_lane) = (Vec::new(), Vec::new(), false);
        for (lease, outcome) in reports {
            let facts = self.flights.remove(&lease);
            ended.extend(facts.as_ref().map(|_| lease.seq()));
            self.probe(&outcome);
            if let Some(facts) = &facts {
                self.shares.give(&facts.place, outcome.is_answered(), at);
                has_lane |= facts.has_lane();
                self.holds.note(&facts.place, &outcome);
                if facts.is_suspect {
                    (self.suspects, self.suspect_at) = (self.suspects.saturating_sub(1), at);
                }
            }
            let policies = &self.options.policies;
            let terms =
                || facts.as_ref().map_or_else(|| Terms::of(policies, None, now), |facts| facts.terms(policies, now));
            let settle = outcome.into_settle(lease, terms);
            if let Some(Verb::Abandon { delay, .. }) = settle.as_ref().map(|settle| &settle.verb) {
                self.look_at = self.look_at.min(at + *delay);
            }
            settles.extend(settle);
        }
        if std::mem::take(&mut self.is_short_of_memory) {
            self.look_now();
        }
        self.tell_gate();
        self.settling.extend(self.holds.write(&self.queue, &self.places, self.owner));
        let held = self.flights.released(ended);
        // When a message leaves its lane, the next one has its turn.
        let next_in_lane = has_lane.then(|| self.queue.clone());
        if !settles.is_empty() || has_lane {
            let settling = settle(self.queue.clone(), settles, self.options.clone());
            self.settling.push(Box::pin(async move {
                let _held = held;
                settling.await;
                next_in_lane.iter().for_each(WorkQueue::lanes_settled);
            }));
        }
    }

    fn renew(&mut self) {
        let (now, lease) = (monotonic(), self.options.lease);
        let broken_off = self.flights.drop_overdue(lease / 5, now);
        if broken_off > 0 {
            telemetry::leases_overdue(self.queue.named(), broken_off);
        }
        let ending = self.flights.ending_within(lease * 2 / 3, now);
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
            Ok(held) => self.flights.renewed(&leases, &held, until),
            Err(error) => telemetry::renewal_failed(self.queue.named(), &error),
        }
    }

    fn ask_for_stops(&mut self) {
        let queue = self.queue.clone();
        self.ask_at = monotonic() + STOPS_EVERY;
        self.asking = Some(Box::pin(async move { queue.stops().await }));
    }

    fn told(&mut self, stops: Result<Vec<Stop>>) {
        self.asking = None;
        match stops {
            Ok(stops) => self.flights.ask(&stops),
            Err(error) => telemetry::stops_unknown(self.queue.named(), &error),
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
        telemetry::worker_stopping(self.queue.named(), self.flights.len());
        self.stop.cancel();
        self.holds.lift_all();
        self.settling.extend(self.holds.write(&self.queue, &self.places, self.owner));
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

/// The panics of handlers are caught where they happen. This one is ours, and the worker no longer knows its state.
fn broken(source: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Callback, "the worker failed; its messages are claimed again when their leases run out")
        .caused_by(source)
}

//! A verb with its arguments, drawn by lot. Small pools make the same rows come up again and again.

use std::time::Duration;

use fastrand::Rng;
use postroom::clock::ManualClock;
use postroom::message::Unique;
use postroom::operator::{Limit, OnDead, Scope};
use postroom::queue::{Queue, State};

/// One verb.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Advance(Duration),
    Jump {
        by: Duration,
        ahead: bool,
    },
    Enqueue(Vec<New>),
    Claim {
        queue: Queue,
        owner: u128,
        lease: Duration,
        batch: usize,
    },
    /// A claim of some topics: only this one, or all but this one.
    ClaimSome {
        queue: Queue,
        owner: u128,
        lease: Duration,
        batch: usize,
        topic: &'static str,
        only: bool,
    },
    Settle {
        queue: Queue,
        settles: Vec<(usize, How)>,
    },
    Extend {
        queue: Queue,
        leases: Vec<usize>,
        lease: Duration,
    },
    Reap {
        queue: Queue,
        limit: usize,
    },
    Expire {
        queue: Queue,
        limit: usize,
    },
    ExpireDead {
        queue: Queue,
        limit: usize,
    },
    Purge {
        queue: Queue,
        state: State,
        retention: Duration,
        limit: usize,
    },
    Dismiss {
        queue: Queue,
        which: Which,
    },
    Cancel(New),
    CancelKey {
        key: &'static str,
    },
    SweepKeys,
    CancelArrived {
        key: u8,
    },
    CancelLane {
        queue: Queue,
        lane: &'static str,
    },
    Revive {
        queue: Queue,
        which: Which,
        dismissed: bool,
        ttl: Option<Duration>,
    },
    Redrive {
        which: Which,
        ttl: Option<Duration>,
    },
    See {
        key: u8,
        hash: Option<u8>,
    },
    Put {
        key: u8,
        arrived: Arrived,
        first_wins: bool,
    },
    Mark {
        key: u8,
        mark: u8,
    },
    Find {
        message: u128,
        key: u8,
    },
    Stats {
        queue: Queue,
    },
    Maintain {
        interval: Duration,
    },
    Correct {
        queue: Queue,
    },
    /// Something is set for a lane, or for the lanes of a topic.
    Rule {
        queue: Queue,
        scope: Scope,
        rule: Ruling,
    },
}

/// What is set.
#[derive(Clone, Debug)]
pub(super) enum Ruling {
    Pause,
    Resume,
    Limit(Limit),
}

/// A message for the outbox.
#[derive(Clone, Debug)]
pub(super) struct New {
    pub(super) id: u128,
    pub(super) topic: &'static str,
    pub(super) destination: Option<&'static str>,
    pub(super) due_after: Option<i64>,
    pub(super) ttl: Option<Duration>,
    pub(super) max_attempts: Option<u32>,
    pub(super) lane: Option<&'static str>,
    pub(super) unique: Option<Unique>,
}

/// A message for the inbox.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    pub(super) topic: &'static str,
    pub(super) payload: &'static str,
    pub(super) hash: Option<u8>,
    pub(super) due_after: Option<i64>,
    pub(super) ttl: Option<Duration>,
    pub(super) max_attempts: Option<u32>,
    pub(super) lane: Option<&'static str>,
}

/// How a lease ends.
#[derive(Clone, Debug)]
pub(super) enum How {
    Ack(Option<&'static str>),
    Abandon(Duration, &'static str),
    Postpone(Duration, &'static str),
    Fail(&'static str),
    Release,
}

/// Which rows are meant.
#[derive(Clone, Debug)]
pub(super) struct Which {
    pub(super) row: Option<usize>,
    pub(super) topic: Option<&'static str>,
    pub(super) party: Option<&'static str>,
    pub(super) limit: usize,
}

const TOPICS: [&str; 3] = ["a", "b", "c"];
const KEYS: [&str; 3] = ["x", "y", "z"];
const LANES: [&str; 2] = ["one", "two"];
const ERRORS: [&str; 3] = ["", "disk full", "no such order"];
/// Two leases, pauses and lives that end together are where the order of verbs matters.
const SECONDS: [u64; 5] = [1, 2, 10, 30, 60];

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

fn maybe<T>(rng: &mut Rng, value: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    rng.bool().then(|| value(rng))
}

fn seconds(rng: &mut Rng) -> Duration {
    Duration::from_secs(pick(rng, &SECONDS))
}

fn queue(rng: &mut Rng) -> Queue {
    if rng.bool() { Queue::Outbox } else { Queue::Inbox }
}

impl Op {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        match rng.u8(0..52) {
            0..=3 => Self::Advance(Self::span(rng)),
            4..=7 => Self::Enqueue((0..rng.usize(1..4)).map(|_| New::draw(rng)).collect()),
            8..=13 => Self::claim(rng),
            14..=19 => Self::settle(rng),
            20 => Self::extend(rng),
            21 => Self::Reap { queue: queue(rng), limit: rng.usize(1..5) },
            22 => Self::Expire { queue: queue(rng), limit: rng.usize(1..4) },
            23 | 35 => Self::purge(rng),
            24 => Self::revive(rng),
            25 => Self::Redrive { which: Which::draw(rng), ttl: maybe(rng, seconds) },
            26..=27 => Self::See { key: rng.u8(0..8), hash: maybe(rng, |rng| rng.u8(0..3)) },
            28..=30 => Self::Put { key: rng.u8(0..8), arrived: Arrived::draw(rng), first_wins: rng.u8(0..4) == 0 },
            31 => Self::Mark { key: rng.u8(0..8), mark: rng.u8(0..3) },
            32 => Self::Find { message: rng.u128(1..12), key: rng.u8(0..8) },
            33 => Self::Stats { queue: queue(rng) },
            34 => Self::ExpireDead { queue: queue(rng), limit: rng.usize(1..4) },
            36 => Self::Dismiss { queue: queue(rng), which: Which::draw(rng) },
            37 => Self::Jump { by: seconds(rng) * pick(rng, &[1, 10, 10_000]), ahead: rng.bool() },
            38 => Self::Correct { queue: queue(rng) },
            39 | 42 => Self::Cancel(New::draw(rng)),
            40..=41 => Self::claim_some(rng),
            43..=44 => Self::CancelArrived { key: rng.u8(0..8) },
            45 => Self::CancelLane { queue: queue(rng), lane: pick(rng, &LANES) },
            46..=48 => Self::rule(rng),
            49 => Self::CancelKey { key: pick(rng, &KEYS) },
            50 => Self::SweepKeys,
            _ => Self::Maintain { interval: seconds(rng) },
        }
    }

    /// Moves the clock, if it is that; false when it is a verb.
    pub(super) fn moves(&self, clock: &ManualClock) -> bool {
        match self {
            Self::Advance(span) => clock.advance(*span),
            Self::Jump { by, ahead: true } => clock.set(clock.now().plus(*by)),
            Self::Jump { by, ahead: false } => clock.set(clock.now().minus(*by)),
            _ => return false,
        }
        true
    }

    fn span(rng: &mut Rng) -> Duration {
        let span = seconds(rng);
        match rng.u8(0..4) {
            0 => span - Duration::from_micros(1),
            1 => Duration::from_micros(1),
            _ => span,
        }
    }

    fn purge(rng: &mut Rng) -> Self {
        let state = pick(rng, &[State::Done, State::Dead, State::Expired, State::Dismissed, State::Seen]);
        Self::Purge { queue: queue(rng), state, retention: seconds(rng), limit: rng.usize(1..4) }
    }

    fn revive(rng: &mut Rng) -> Self {
        Self::Revive { queue: queue(rng), which: Which::draw(rng), dismissed: rng.bool(), ttl: maybe(rng, seconds) }
    }

    fn claim_some(rng: &mut Rng) -> Self {
        let (queue, owner, lease, batch) = (queue(rng), rng.u128(1..4), seconds(rng), rng.usize(1..6));
        Self::ClaimSome { queue, owner, lease, batch, topic: pick(rng, &TOPICS), only: rng.bool() }
    }

    fn rule(rng: &mut Rng) -> Self {
        let scope = match rng.bool() {
            true => Scope::Lane(pick(rng, &LANES).to_owned()),
            false => Scope::Lanes(pick(rng, &TOPICS).to_owned()),
        };
        let rule = match rng.u8(0..8) {
            0 => Ruling::Pause,
            1..=2 => Ruling::Resume,
            3 => Ruling::Limit(Limit::none()),
            _ => {
                let limit = Limit::none().at_once(rng.u32(1..4));
                let policy = maybe(rng, |rng| pick(rng, &[OnDead::Block, OnDead::Skip, OnDead::Newest]));
                Ruling::Limit(policy.map_or(limit, |policy| limit.on_dead(policy)))
            }
        };
        Self::Rule { queue: queue(rng), scope, rule }
    }

    /// Whether it turns the clock back.
    pub(super) fn turns_back(&self) -> bool {
        matches!(self, Self::Jump { ahead: false, .. })
    }

    fn claim(rng: &mut Rng) -> Self {
        Self::Claim { queue: queue(rng), owner: rng.u128(1..4), lease: seconds(rng), batch: rng.usize(1..6) }
    }

    fn settle(rng: &mut Rng) -> Self {
        let queue = queue(rng);
        Self::Settle { queue, settles: (0..rng.usize(1..4)).map(|_| (rng.usize(0..6), How::draw(rng))).collect() }
    }

    fn extend(rng: &mut Rng) -> Self {
        let queue = queue(rng);
        Self::Extend { queue, leases: (0..rng.usize(1..4)).map(|_| rng.usize(0..6)).collect(), lease: seconds(rng) }
    }
}

fn due(rng: &mut Rng) -> Option<i64> {
    (rng.u8(0..4) == 0).then(|| i64::from(rng.i8(-5..40)))
}

impl New {
    fn draw(rng: &mut Rng) -> Self {
        Self {
            id: rng.u128(1..12),
            topic: pick(rng, &TOPICS),
            destination: pick(rng, &[None, None, Some("billing"), Some("shipping")]),
            due_after: due(rng),
            ttl: maybe(rng, seconds),
            max_attempts: maybe(rng, |rng| rng.u32(1..4)),
            lane: pick(rng, &[None, None, Some(LANES[0]), Some(LANES[1])]),
            unique: (rng.u8(0..3) == 0).then(|| unique(rng)),
        }
    }
}

fn unique(rng: &mut Rng) -> Unique {
    let key = pick(rng, &KEYS);
    let unique = match rng.u8(0..3) {
        0 => Unique::while_waiting(key),
        1 => Unique::until_done(key),
        _ => Unique::within(key, seconds(rng)),
    };
    match rng.u8(0..4) {
        0..=1 => unique.or_replace(),
        2 => unique.or_refuse(),
        _ => unique,
    }
}

impl Arrived {
    fn draw(rng: &mut Rng) -> Self {
        Self {
            topic: pick(rng, &TOPICS),
            payload: pick(rng, &["one", "two"]),
            hash: maybe(rng, |rng| rng.u8(0..3)),
            due_after: due(rng),
            ttl: maybe(rng, seconds),
            max_attempts: maybe(rng, |rng| rng.u32(1..4)),
            lane: pick(rng, &[None, None, Some(LANES[0]), Some(LANES[1])]),
        }
    }
}

impl How {
    fn draw(rng: &mut Rng) -> Self {
        match rng.u8(0..8) {
            0..=2 => Self::Ack(pick(rng, &[None, Some("answer")])),
            3..=4 => Self::Abandon(seconds(rng), pick(rng, &ERRORS)),
            5 => Self::Postpone(seconds(rng), pick(rng, &ERRORS)),
            6 => Self::Fail(pick(rng, &ERRORS)),
            _ => Self::Release,
        }
    }
}

impl Which {
    fn draw(rng: &mut Rng) -> Self {
        Self {
            row: (rng.u8(0..4) == 0).then(|| rng.usize(0..10)),
            topic: (rng.u8(0..4) == 0).then(|| pick(rng, &TOPICS)),
            party: (rng.u8(0..6) == 0).then(|| pick(rng, &["billing", "shop-0", "shop-1"])),
            limit: rng.usize(1..6),
        }
    }
}

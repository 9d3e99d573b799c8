//! The steps of the sketch.

use crate::config::{Config, Sabotage};
use crate::enqueue::holder_of;
use crate::message::{Lane, List, Message};
use crate::properties::{at_once, effect};
use crate::row::{End, Producer, Stands};
use crate::sketch_state::{Place, Rows, State, Worker};
use crate::steps::Steps;

pub(crate) fn enqueue(config: &Config, from: &State, steps: &mut Steps<State>) {
    for producer in 0..config.scripts.len() {
        let at = from.producers[producer];
        let alike = config.alike_before(producer);
        if at == Producer::FIRST && alike.is_some_and(|other| from.producers[other] == Producer::FIRST) {
            continue;
        }
        let message = config.messages_of(producer)[0];
        let mut next = *from;
        next.producers[producer] = at.next(config.scripts[producer]);
        match at {
            Producer::Locks(_) => {
                let holder = holder_of(config, &from.producers, Lane::A);
                if holder.is_none_or(|holder| holder == producer) {
                    steps.step(|| format!("P{producer}: takes the producers' lock of lane A"), next);
                }
            }
            Producer::Inserts(_) => {
                next.numbers.push(message);
                steps.step(|| format!("P{producer}: inserts {message}"), next);
            }
            Producer::Commits => {
                next.rows[message] = Some(Place::Arriving);
                next.commits.push(message);
                steps.step(|| format!("P{producer}: COMMIT of {message}"), next);
            }
            Producer::Committed | Producer::RolledBack => {}
        }
    }
}

pub(crate) fn work(config: &Config, from: &State, me: usize, steps: &mut Steps<State>) {
    let is_free = from.is_lock_free(config);
    match from.workers[me] {
        Worker::Idle => {
            look_begins(config, from, me, steps);
            claims(config, from, me, steps);
        }
        Worker::LookWaits { saw } if is_free => {
            let next = from.next(&saw, None);
            steps.step(
                || format!("W: look has the lock; its older snapshot says: promote {}", or_nobody(next)),
                from.goes_on(me, Worker::LookFound { next, arrived: arrived(config, &saw) }),
            );
        }
        Worker::LookLocked => {
            let next = from.next(&from.rows, None);
            steps.step(
                || format!("W: look: second statement: promote {}", or_nobody(next)),
                from.goes_on(me, Worker::LookFound { next, arrived: arrived(config, &from.rows) }),
            );
        }
        Worker::LookFound { next, arrived } => look_commits(config, from, me, (next, arrived), steps),
        Worker::Handling { message, saw, .. } if is_free => steps.step(
            || format!("W: handled {message}, ack takes the workers' lock"),
            from.goes_on(me, Worker::AckLocked { message, saw }),
        ),
        Worker::AckLocked { message, saw } => {
            let next = from.next(&saw.unwrap_or(from.rows), Some(message));
            steps.step(
                || format!("W: ack of {message} looks for the next: {}", or_nobody(next)),
                from.goes_on(me, Worker::AckFound { message, next }),
            );
        }
        Worker::AckFound { message, next } => ack_commits(config, from, me, (message, next), steps),
        Worker::LookWaits { .. } | Worker::Handling { .. } | Worker::Absent => {}
    }
}

fn look_begins(config: &Config, from: &State, me: usize, steps: &mut Steps<State>) {
    if arrived(config, &from.rows).is_empty() {
        return;
    }
    if config.is(Sabotage::LockAndLookAtOnce) {
        steps.step(
            || "W: look: one statement takes its snapshot and waits for the lock".to_owned(),
            from.goes_on(me, Worker::LookWaits { saw: from.rows }),
        );
    } else if from.is_lock_free(config) {
        steps.step(|| "W: look takes the workers' lock".to_owned(), from.goes_on(me, Worker::LookLocked));
    }
}

fn claims(config: &Config, from: &State, me: usize, steps: &mut Steps<State>) {
    let saw = config.is(Sabotage::HandlerInRepeatableRead).then_some(from.rows);
    for message in config.messages().filter(|message| from.line[*message].stands == Stands::Ready) {
        let claimed = from.line[message].claimed();
        let mut next = from.goes_on(me, Worker::Handling { message, claim: claimed.claims, saw });
        next.line[message] = claimed;
        let begins = if saw.is_some() { ", its REPEATABLE READ transaction begins" } else { "" };
        steps.step(|| format!("W: claims {message}{begins}"), next);
    }
}

fn look_commits(
    config: &Config,
    from: &State,
    me: usize,
    (promoted, arrived): (Option<Message>, List<Message>),
    steps: &mut Steps<State>,
) {
    let mut next = from.goes_on(me, Worker::Idle);
    for message in arrived.iter().filter(|message| from.rows[*message] == Some(Place::Arriving)) {
        next.rows[message] = Some(Place::Behind);
    }
    promote(from, &mut next, promoted);
    let verdict = at_once(config, &next.line).map(|()| next);
    steps.judged(|| "W: look COMMIT".to_owned(), verdict);
}

fn ack_commits(
    config: &Config,
    from: &State,
    me: usize,
    (message, promoted): (Message, Option<Message>),
    steps: &mut Steps<State>,
) {
    let mut next = from.goes_on(me, Worker::Idle);
    next.rows[message] = None;
    next.line[message].stands = Stands::Outside;
    next.ends[message] = End::Done;
    next.commits = from.commits.without(message);
    promote(from, &mut next, promoted);
    let verdict = effect(config, &from.commits, &from.ends, message).and_then(|()| at_once(config, &next.line));
    steps.judged(|| format!("W: COMMIT of {message}'s effect, ack and promotion"), verdict.map(|()| next));
}

fn promote(from: &State, next: &mut State, promoted: Option<Message>) {
    if let Some(message) = promoted.filter(|message| from.rows[*message].is_some_and(Place::waits)) {
        next.rows[message] = Some(Place::Holds);
        next.line[message].stands = Stands::Ready;
    }
}

fn arrived(config: &Config, rows: &Rows) -> List<Message> {
    config.messages().filter(|message| rows[*message] == Some(Place::Arriving)).collect()
}

fn or_nobody(message: Option<Message>) -> String {
    message.map_or_else(|| "nobody".to_owned(), |message| message.to_string())
}

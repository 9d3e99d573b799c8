//! Producers: transactions of several statements. Each locks a lane, draws a number, inserts, and commits at the end.

use crate::config::{Config, Sabotage};
use crate::fault::Fault;
use crate::message::{Lane, List, MOST_MESSAGES, Message};
use crate::notes::{Note, Why};
use crate::row::{Place, Producer};
use crate::state::State;
use crate::steps::Steps;

pub(crate) fn steps(config: &Config, from: &State, steps: &mut Steps<State>) {
    for producer in 0..config.scripts.len() {
        let at = from.producers[producer];
        if waits_for_its_like(config, from, producer) {
            continue;
        }
        match at {
            Producer::Locks(statement) => locks(config, from, producer, usize::from(statement), steps),
            Producer::Inserts(statement) => inserts(config, from, producer, usize::from(statement), steps),
            Producer::Commits => commits(config, from, producer, steps),
            Producer::Committed | Producer::RolledBack => continue,
        }
        if at != Producer::FIRST && from.faults.may(Fault::Rollback) {
            let rolled_back = State {
                faults: from.faults.spend(Fault::Rollback),
                ..starts_over(config, from, producer, Producer::RolledBack)
            };
            steps.fault(|| format!("P{producer}: ROLLBACK"), rolled_back);
        }
    }
}

fn waits_for_its_like(config: &Config, from: &State, producer: usize) -> bool {
    if from.producers[producer] != Producer::FIRST {
        return false;
    }
    config.alike_before(producer).is_some_and(|other| {
        from.producers[other] == Producer::FIRST && !from.numbers.contains(config.messages_of(other)[0])
    })
}

fn locks(config: &Config, from: &State, producer: usize, statement: usize, steps: &mut Steps<State>) {
    let (lane, message) = (config.scripts[producer][statement], config.messages_of(producer)[statement]);
    let holder = holder_of(config, &from.producers, lane).filter(|_| !config.is(Sabotage::NoProducerLock));
    if config.is(Sabotage::NumberBeforeLock) && !from.numbers.contains(message) {
        steps.step(
            || format!("P{producer}: {message} draws its number, then waits for the lane's lock"),
            State { numbers: from.numbers.with(message), ..*from },
        );
    } else if holder.is_none_or(|holder| holder == producer) {
        let at = from.producers[producer].next(config.scripts[producer]);
        steps.step(|| format!("P{producer}: takes the lock of lane {lane}"), moves(from, producer, at));
    } else if waits_for_itself(config, &from.producers, producer) {
        steps.step(
            || format!("P{producer}: deadlock, rolled back, starts again"),
            starts_over(config, from, producer, Producer::FIRST),
        );
    }
}

fn inserts(config: &Config, from: &State, producer: usize, statement: usize, steps: &mut Steps<State>) {
    let (lane, message) = (config.scripts[producer][statement], config.messages_of(producer)[statement]);
    let numbers = if from.numbers.contains(message) { from.numbers } else { from.numbers.with(message) };
    let is_early = config.is(Sabotage::NoteBeforeCommit);
    let notes = if is_early { from.noted(config, &[came(config, message)]) } else { from.notes };
    let at = from.producers[producer].next(config.scripts[producer]);
    steps.step(
        || {
            let number = 1 + numbers.iter().take_while(|other| *other != message).count();
            format!("P{producer}: inserts {message} with number {number} into lane {lane}, not committed")
        },
        State { numbers, notes, ..moves(from, producer, at) },
    );
}

fn commits(config: &Config, from: &State, producer: usize, steps: &mut Steps<State>) {
    let mine = config.messages_of(producer);
    let mut rows = from.rows;
    mine.iter().for_each(|message| rows[*message] = Some(Place::Waits));
    let new: Vec<_> = mine.iter().map(|message| came(config, *message)).collect();
    let notes = if config.is(Sabotage::NoteBeforeCommit) { from.notes } else { from.noted(config, &new) };
    let committed: List<_> = from.numbers.filter(|message| mine.contains(&message));
    let commits = from.commits.iter().chain(committed.iter()).collect();
    steps.step(
        || format!("P{producer}: COMMIT of {committed}"),
        State { rows, notes, commits, ..moves(from, producer, Producer::Committed) },
    );
}

fn came(config: &Config, message: Message) -> Note {
    Note { lane: config.lane_of(message), why: Why::Came, message, generation: 0 }
}

fn moves(from: &State, producer: usize, at: Producer) -> State {
    let mut producers = from.producers;
    producers[producer] = at;
    State { producers, ..*from }
}

/// Returns the state after a transaction was undone, and where its producer is then.
fn starts_over(config: &Config, from: &State, producer: usize, at: Producer) -> State {
    let mine = config.messages_of(producer);
    State { numbers: from.numbers.filter(|message| !mine.contains(&message)), ..moves(from, producer, at) }
}

/// Returns the producer that holds the lock of a lane.
pub(crate) fn holder_of(config: &Config, producers: &[Producer; MOST_MESSAGES], lane: Lane) -> Option<usize> {
    let has_lock = |at: Producer, statement: usize| match at {
        // It gives the lock back when its statement ends.
        _ if config.is(Sabotage::UnlockEarly) => at.inserts(statement),
        Producer::Locks(next) => usize::from(next) > statement,
        Producer::Inserts(next) => usize::from(next) >= statement,
        Producer::Commits => true,
        Producer::Committed | Producer::RolledBack => false,
    };
    let holds = |producer: usize| {
        let mut script = config.scripts[producer].iter().enumerate();
        script.any(|(statement, locked)| *locked == lane && has_lock(producers[producer], statement))
    };
    (0..config.scripts.len()).find(|producer| holds(*producer))
}

/// Returns whether a producer waits for itself, over others.
fn waits_for_itself(config: &Config, producers: &[Producer; MOST_MESSAGES], producer: usize) -> bool {
    let mut at = producer;
    // A cycle of others has no more members than there are producers.
    for _ in 0..config.scripts.len() {
        let Producer::Locks(statement) = producers[at] else { return false };
        match holder_of(config, producers, config.scripts[at][usize::from(statement)]) {
            Some(holder) if holder == producer => return at != producer,
            Some(holder) if holder != at => at = holder,
            _ => return false,
        }
    }
    false
}

//! Work: claim, handle, settle, commit. Upkeep that expires a message is the work of a worker too.

use crate::config::{Policy, Sabotage};
use crate::fault::Fault;
use crate::message::Message;
use crate::notes::Why;
use crate::properties::effect;
use crate::row::{End, Place, Stands};
use crate::state::State;
use crate::steps::{Steps, Turn};
use crate::worker::{Verb, Worker};

pub(crate) fn begins(turn: Turn<'_>, steps: &mut Steps<State>) {
    let Turn { config, from, .. } = turn;
    let locked = turn.locked_by_others().rows;
    for message in config.messages() {
        let (line, row) = (from.line[message], from.rows[message]);
        let is_ready = line.stands == Stands::Ready;
        if is_ready && !from.workers.contains(&Worker::Expiring { message }) {
            let claimed = line.claimed();
            let handling = turn.goes_on(Worker::Handling { message, claim: claimed.claims });
            steps.step(|| format!("W: claims {message}"), State { line: from.line.with(message, claimed), ..handling });
        }
        let waits = row == Some(Place::Waits) && from.ends[message] == End::Open;
        if from.faults.may(Fault::Expire) && !locked[message] && (waits || is_ready) {
            let place = row.map_or("", Place::name);
            steps.fault(
                || format!("W: upkeep locks {message}, whose time is over while it {place}"),
                State { faults: from.faults.spend(Fault::Expire), ..turn.goes_on(Worker::Expiring { message }) },
            );
        }
    }
}

pub(crate) fn expires(turn: Turn<'_>, message: Message, steps: &mut Steps<State>) {
    let Turn { config, from, .. } = turn;
    steps.step(
        || format!("W: upkeep COMMIT, {message} expired"),
        State {
            line: from.line.with(message, from.line[message].now(Stands::Outside)),
            rows: from.rows.with(message, None),
            ends: from.ends.with(message, End::Dropped),
            commits: from.commits.without(message),
            notes: from.noted(config, &[from.note(config, Why::Left, message)]),
            ..turn.goes_on(Worker::Idle)
        },
    );
}

pub(crate) fn handles(turn: Turn<'_>, message: Message, claim: u8, steps: &mut Steps<State>) {
    let Turn { config, from, .. } = turn;
    if !from.line[message].is_leased_as(claim) && !config.is(Sabotage::NoLeaseFence) {
        steps.step(
            || format!("W: its lease of {message} is gone, its transaction is rolled back"),
            turn.goes_on(Worker::Idle),
        );
        return;
    }
    if from.workers.iter().any(|worker| worker.is_settling(message)) {
        return;
    }
    let settling = |verb| turn.goes_on(Worker::Settling { message, verb });
    let is_early = config.is(Sabotage::NoteBeforeCommit);
    let left = from.note(config, Why::Left, message);
    let notes = if is_early { from.noted(config, &[left]) } else { from.notes };
    steps.step(|| format!("W: handled {message}, writes ack"), State { notes, ..settling(Verb::Ack) });
    if from.faults.may(Fault::Retry) {
        // It waits for its turn again, unless it would have it at once.
        let verb =
            if from.is_first(config, message) && !from.pause.stops_promotion() { Verb::Retry } else { Verb::Wait };
        steps.fault(
            || format!("W: {message} failed, writes {verb:?}"),
            State { faults: from.faults.spend(Fault::Retry), ..settling(verb) },
        );
    }
    if from.faults.may(Fault::Fail) {
        steps.fault(
            || format!("W: {message} failed for good, writes dead"),
            State { faults: from.faults.spend(Fault::Fail), ..settling(Verb::Dead) },
        );
    }
}

pub(crate) fn settles(turn: Turn<'_>, message: Message, verb: Verb, steps: &mut Steps<State>) {
    let Turn { config, from, .. } = turn;
    let why = if verb == Verb::Dead { Why::Died } else { Why::Left };
    let was_early = config.is(Sabotage::NoteBeforeCommit) && verb == Verb::Ack;
    let is_silent = config.is(Sabotage::SilentSettle) || was_early;
    let note = from.note(config, why, message);
    let notes = if is_silent { from.notes } else { from.noted(config, &[note]) };
    let lined = |stands| from.line.with(message, from.line[message].now(stands));
    let idle = turn.goes_on(Worker::Idle);
    match verb {
        Verb::Ack => {
            let acked = State {
                rows: from.rows.with(message, None),
                line: lined(Stands::Outside),
                ends: from.ends.with(message, End::Done),
                commits: from.commits.without(message),
                notes,
                ..idle
            };
            let verdict = effect(config, &from.commits, &from.ends, message).map(|()| acked);
            steps.judged(|| format!("W: COMMIT of {message}'s effect, ack and note"), verdict);
        }
        Verb::Retry => steps.step(
            || format!("W: COMMIT, {message} waits for its next try"),
            State { line: lined(Stands::Ready), ..idle },
        ),
        Verb::Wait => {
            let note = from.note(config, Why::Waits, message);
            let notes = if config.is(Sabotage::SilentRetry) { from.notes } else { from.noted(config, &[note]) };
            let rows = from.rows.with(message, Some(Place::Waits));
            let waits = State { rows, line: lined(Stands::Outside), notes, ..idle };
            steps.step(|| format!("W: COMMIT, {message} waits for its turn again"), waits);
        }
        Verb::Dead => {
            // If it blocks its lane, it stays unfinished: nobody may pass it.
            let stays = config.policy == Policy::Block;
            let commits = if stays { from.commits } else { from.commits.without(message) };
            let (rows, ends) = (from.rows.with(message, Some(Place::Died)), from.ends.with(message, End::Dead));
            let dead = State { rows, ends, line: lined(Stands::Outside), commits, notes, ..idle };
            steps.step(|| format!("W: COMMIT, {message} is dead"), dead);
        }
    }
}

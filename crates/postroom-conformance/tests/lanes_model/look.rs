//! The look: it takes notes, sees who is first in their lanes, locks those that wait, asks again, and writes.

use crate::config::{Look, Policy, Sabotage};
use crate::message::{Each, List, joined};
use crate::notes::Notes;
use crate::plan::{Aim, Planned, Write, decide};
use crate::properties::at_once;
use crate::row::{End, Place, Rows, Stands};
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::steps::{Steps, Turn};
use crate::worker::Worker;

const REFUSED: &str = "W: look: could not serialize, rolled back";

pub(crate) fn begins(turn: Turn<'_>, steps: &mut Steps<State>) {
    let Turn { config, from, .. } = turn;
    if config.look == Look::TwoStatements {
        let free = from.notes.without(turn.locked_by_others().notes);
        for mine in free.choices() {
            steps.step(|| format!("W: look takes notes: {mine}"), turn.goes_on(Worker::Noted { mine }));
        }
    } else if !from.notes.is_empty() || config.look == Look::NewerNotes {
        steps.step(
            || "W: look begins: it takes its only snapshot".to_owned(),
            turn.goes_on(Worker::Began(from.snapshot())),
        );
    }
}

/// The only statement of a look takes notes, some time after its snapshot.
pub(crate) fn takes_notes(turn: Turn<'_>, snapshot: Snapshot, steps: &mut Steps<State>) {
    let Turn { config, from, .. } = turn;
    if config.look == Look::Serial && !snapshot.notes.without(from.notes).is_empty() {
        steps.step(|| REFUSED.to_owned(), turn.goes_on(Worker::Idle));
        return;
    }
    // One statement finds notes by its snapshot. They never change, so what it locks is what it saw. A locking read of
    // MySQL finds those of now, however old the snapshot is.
    let there = if config.look == Look::NewerNotes { from.notes } else { from.notes.only(snapshot.notes) };
    let mine = there.without(turn.locked_by_others().notes);
    if mine.is_empty() {
        steps.step(|| "W: look finds nothing".to_owned(), turn.goes_on(Worker::Idle));
        return;
    }
    let plan = decide(config, &snapshot, mine, &Each::all(false));
    steps.step(
        || format!("W: look takes notes: {mine}; its older snapshot says: {plan}"),
        turn.goes_on(Worker::Decided { mine, plan, saw: Some(snapshot.rows) }),
    );
}

/// The second of two statements has a snapshot that is newer than the notes.
pub(crate) fn sees_lanes(turn: Turn<'_>, mine: Notes, steps: &mut Steps<State>) {
    let Turn { config, from, .. } = turn;
    let is_hiding = config.is(Sabotage::SkipLockedHeads);
    let hidden = if is_hiding { turn.locked_by_others().rows } else { Each::all(false) };
    let plan = decide(config, &from.snapshot(), mine, &hidden);
    let decided = turn.goes_on(Worker::Decided { mine, plan, saw: None });
    steps.step(|| format!("W: look's snapshot says: {plan}"), decided);
}

pub(crate) fn writes(turn: Turn<'_>, mine: Notes, plan: List<Planned>, saw: Option<Rows>, steps: &mut Steps<State>) {
    let Turn { config, from, .. } = turn;
    let locked = turn.locked_by_others().rows;
    if let Some(saw) = saw.filter(|_| config.look == Look::Serial) {
        let mut free = plan.iter().map(|planned| planned.message).filter(|message| !locked[*message]);
        if free.any(|message| from.rows[message] != saw[message]) {
            steps.step(|| REFUSED.to_owned(), turn.goes_on(Worker::Idle));
            return;
        }
    }
    let (mut writes, mut missed) = (Vec::new(), Vec::new());
    for Planned { message, generation, aim } in plan.iter() {
        let is_same = from.generations[message] == generation || config.is(Sabotage::ByMessage);
        let is_as_planned = match from.rows[message] {
            Some(Place::Waits) => aim != Aim::Stuck,
            Some(Place::Died) => aim != Aim::Holds,
            Some(Place::Holds | Place::Stuck) | None => false,
        };
        if config.is(Sabotage::NoFence) || (!locked[message] && is_same && is_as_planned) {
            writes.push(Write { message, aim });
        } else if !missed.contains(&config.lane_of(message)) {
            missed.push(config.lane_of(message));
        }
    }
    if config.policy == Policy::Newest {
        // All of a lane's plan or nothing: the newest holds only once the others are out of its way.
        writes.retain(|write| !missed.contains(&config.lane_of(write.message)));
    }
    writes.sort_unstable();
    let writes: List<_> = writes.into_iter().collect();
    let kept = missed.iter().filter(|_| !config.is(Sabotage::ForgetSkipped));
    let done = kept.fold(mine, |done, lane| done.without(mine.of_lane(*lane)));
    let written = turn.goes_on(Worker::Written { mine, writes, done });
    steps.step(
        || match missed.as_slice() {
            [] => format!("W: look writes {writes}"),
            lanes => format!("W: look writes {writes}; could not have all of lane {}", joined(lanes.iter())),
        },
        written,
    );
}

pub(crate) fn commits(turn: Turn<'_>, writes: List<Write>, done: Notes, steps: &mut Steps<State>) {
    let Turn { config, from, .. } = turn;
    let mut next = State { notes: from.notes.without(done), ..turn.goes_on(Worker::Idle) };
    for Write { message, aim } in writes.iter() {
        if aim == Aim::Holds {
            next.line[message].stands = Stands::Ready;
        } else if aim == Aim::Gone && from.rows[message] == Some(Place::Waits) {
            next.ends[message] = End::Dropped;
            next.commits = next.commits.without(message);
        }
        next.rows[message] = aim.place();
    }
    let verdict = at_once(config, &next.line).map(|()| next);
    steps.judged(|| "W: look COMMIT".to_owned(), verdict);
}

//! What happens beside producers and workers: leases run out, and operators revive, give up, pause and resume.

use crate::config::{Config, Policy, Sabotage};
use crate::enqueue::holder_of;
use crate::fault::Fault;
use crate::message::{Each, Lane, Message};
use crate::notes::{Note, Why};
use crate::row::{End, Pause, Place, Stands};
use crate::state::State;
use crate::steps::Steps;
use crate::worker::Worker;

pub(crate) fn steps(config: &Config, from: &State, steps: &mut Steps<State>) {
    let locked = from.locked_by_others(None).rows;
    for message in config.messages() {
        reaps(from, message, steps);
        if from.ends[message] == End::Dead && from.faults.may(Fault::Revive) {
            revives(config, from, message, &locked, steps);
        }
        if config.policy == Policy::Block && from.rows[message] == Some(Place::Stuck) && !locked[message] {
            let note = from.note(config, Why::GivenUp, message);
            steps.step(
                || format!("operator: gives up {message}, which blocks its lane"),
                State {
                    rows: from.rows.with(message, None),
                    commits: from.commits.without(message),
                    notes: from.noted(config, &[note]),
                    ..*from
                },
            );
        }
    }
    match from.pause {
        Pause::No if from.faults.may(Fault::Pause) => pauses(config, from, &locked, steps),
        Pause::No => {}
        Pause::Yes => resumes(config, from, steps),
        Pause::NotesFollow => steps.step(
            || "upkeep: after a resume, notes for all lanes that wait".to_owned(),
            resumed(config, from, config.lanes().filter(|lane| from.has_waiting(config, *lane))),
        ),
        Pause::Resuming { a, b } => {
            let lanes = [(a, Lane::A), (b, Lane::B)].into_iter().filter_map(|(waits, lane)| waits.then_some(lane));
            steps.step(|| "operator: COMMIT of the resume and its notes".to_owned(), resumed(config, from, lanes));
        }
    }
}

fn reaps(from: &State, message: Message, steps: &mut Steps<State>) {
    let line = from.line[message];
    let is_settling = from.workers.iter().any(|worker| worker.is_settling(message));
    if line.stands != Stands::Leased || is_settling {
        return;
    }
    let given_back = State { line: from.line.with(message, line.now(Stands::Ready)), ..*from };
    if !from.workers.contains(&Worker::Handling { message, claim: line.claims }) {
        steps.step(|| format!("reap: the lease of {message} ran out"), given_back);
    } else if from.faults.may(Fault::Zombie) {
        steps.fault(
            || format!("reap: the lease of {message} ran out while its worker sleeps"),
            State { faults: from.faults.spend(Fault::Zombie), ..given_back },
        );
    }
}

fn revives(config: &Config, from: &State, message: Message, locked: &Each<bool>, steps: &mut Steps<State>) {
    let is_lane_free = || holder_of(config, &from.producers, config.lane_of(message)).is_none();
    let revived = State { ends: from.ends.with(message, End::Open), faults: from.faults.spend(Fault::Revive), ..*from };
    match from.rows[message] {
        // It enters its lane again like a new one, under the lane's lock, with a new number.
        None if is_lane_free() => {
            let keeps_number = config.is(Sabotage::ReviveOldNumber);
            let generation = from.generations[message] + 1;
            let note = Note { generation, ..from.note(config, Why::Came, message) };
            steps.fault(
                || format!("operator: revives {message}"),
                State {
                    rows: from.rows.with(message, Some(Place::Waits)),
                    numbers: if keeps_number { from.numbers } else { from.numbers.without(message).with(message) },
                    commits: from.commits.with(message),
                    generations: from.generations.with(message, generation),
                    notes: from.noted(config, &[note]),
                    ..revived
                },
            );
        }
        Some(Place::Stuck) if !locked[message] => steps.fault(
            || format!("operator: revives {message}, which blocks its lane"),
            State {
                rows: from.rows.with(message, Some(Place::Holds)),
                line: from.line.with(message, from.line[message].now(Stands::Ready)),
                ..revived
            },
        ),
        _ => {}
    }
}

fn pauses(config: &Config, from: &State, locked: &Each<bool>, steps: &mut Steps<State>) {
    let mut paused = State { pause: Pause::Yes, faults: from.faults.spend(Fault::Pause), ..*from };
    for message in config.messages() {
        if from.line[message].stands == Stands::Ready && !locked[message] {
            paused.line[message].stands = Stands::Outside;
            paused.rows[message] = Some(Place::Waits);
        }
    }
    steps.fault(|| "operator: pauses; heads nobody claimed step back".to_owned(), paused);
}

fn resumes(config: &Config, from: &State, steps: &mut Steps<State>) {
    let (label, to) = if config.is(Sabotage::ResumeOfGroupAtOnce) {
        let [a, b] = Lane::ALL.map(|lane| from.has_waiting(config, lane));
        let found = State { pause: Pause::Resuming { a, b }, ..*from };
        ("operator: resumes: finds the lanes that wait, not committed", found)
    } else if config.policy == Policy::SkipInGroup {
        ("operator: resumes, COMMIT; notes follow", State { pause: Pause::NotesFollow, ..*from })
    } else if config.is(Sabotage::ResumeWithoutNote) {
        ("operator: resumes", State { pause: Pause::No, ..*from })
    } else {
        ("operator: resumes and leaves a note, COMMIT", resumed(config, from, config.lanes()))
    };
    steps.step(|| label.to_owned(), to);
}

/// Returns the state after a resume is over and left notes for these lanes.
fn resumed(config: &Config, from: &State, lanes: impl Iterator<Item = Lane>) -> State {
    let generation = from.faults.left(Fault::Pause);
    let notes: Vec<_> = lanes.map(|lane| Note { lane, why: Why::Rule, message: Message::M0, generation }).collect();
    State { pause: Pause::No, notes: from.noted(config, &notes), ..*from }
}

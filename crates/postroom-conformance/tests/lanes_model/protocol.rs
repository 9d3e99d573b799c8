//! The protocol of lanes with notes, as a model.

use crate::config::Config;
use crate::fault::Fault;
use crate::message::{List, Message};
use crate::state::State;
use crate::steps::{Model, Steps, Turn};
use crate::worker::Worker;
use crate::{enqueue, look, operator, work};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes(pub(crate) Config);

impl Model for Lanes {
    type State = State;

    fn initial(&self) -> State {
        State::initial(&self.0)
    }

    fn steps(&self, from: &State, steps: &mut Steps<State>) {
        let Self(config) = self;
        enqueue::steps(config, from, steps);
        for me in 0..config.workers {
            // Workers are in order, and those that are alike can do the same.
            if me == 0 || from.workers[me - 1] != from.workers[me] {
                worker_steps(Turn { config, from, me }, steps);
            }
        }
        operator::steps(config, from, steps);
    }

    fn is_complete(&self, state: &State) -> bool {
        state.is_complete()
    }

    fn unfinished(&self, state: &State) -> List<Message> {
        state.commits
    }

    fn describe(&self, state: &State) -> String {
        state.describe(&self.0)
    }
}

fn worker_steps(turn: Turn<'_>, steps: &mut Steps<State>) {
    let Turn { from, me, .. } = turn;
    let worker = from.workers[me];
    if worker != Worker::Idle && from.faults.may(Fault::Kill) {
        steps.fault(
            || format!("W: killed while {}", worker.name()),
            State { faults: from.faults.spend(Fault::Kill), ..turn.goes_on(Worker::Idle) },
        );
    }
    match worker {
        Worker::Idle => {
            look::begins(turn, steps);
            work::begins(turn, steps);
        }
        Worker::Began(snapshot) => look::takes_notes(turn, snapshot, steps),
        Worker::Noted { mine } => look::sees_lanes(turn, mine, steps),
        Worker::Decided { mine, plan, saw } => look::writes(turn, mine, plan, saw, steps),
        Worker::Written { writes, done, .. } => look::commits(turn, writes, done, steps),
        Worker::Expiring { message } => work::expires(turn, message, steps),
        Worker::Handling { message, claim } => work::handles(turn, message, claim, steps),
        Worker::Settling { message, verb } => work::settles(turn, message, verb, steps),
        Worker::Absent => {}
    }
}

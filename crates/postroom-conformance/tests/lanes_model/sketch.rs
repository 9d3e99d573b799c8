//! The first sketch of lanes: no notes for what left. The settle itself promotes the next message, under a second lock
//! that only workers take. It has one lane with one place. It shows why the protocol has notes: it holds only with two
//! statements in READ COMMITTED.

use crate::config::{Config, MOST_WORKERS};
use crate::message::{Each, List, Message};
use crate::row::{End, Line, describe_rows, producers};
use crate::sketch_state::{Place, State, Worker};
use crate::sketch_steps;
use crate::steps::{Model, Steps};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sketch(pub(crate) Config);

impl Model for Sketch {
    type State = State;

    fn initial(&self) -> State {
        let mut workers = [Worker::Absent; MOST_WORKERS];
        workers[..self.0.workers].fill(Worker::Idle);
        State {
            producers: producers(&self.0),
            numbers: List::EMPTY,
            commits: List::EMPTY,
            rows: Each::all(None),
            line: Each::all(Line::NEW),
            ends: Each::all(End::Open),
            workers,
        }
    }

    fn steps(&self, from: &State, steps: &mut Steps<State>) {
        sketch_steps::enqueue(&self.0, from, steps);
        for me in 0..self.0.workers {
            if me == 0 || from.workers[me - 1] != from.workers[me] {
                sketch_steps::work(&self.0, from, me, steps);
            }
        }
    }

    fn is_complete(&self, state: &State) -> bool {
        state.producers.iter().all(|producer| producer.has_ended())
            && state.commits.is_empty()
            && state.workers.iter().all(|worker| matches!(worker, Worker::Idle | Worker::Absent))
            && !state.line.0.iter().any(|line| line.is_in_line())
            && state.rows.0.iter().all(Option::is_none)
    }

    fn unfinished(&self, state: &State) -> List<Message> {
        state.commits
    }

    fn describe(&self, state: &State) -> String {
        describe_rows(&self.0, &Each(state.rows.0.map(|row| row.map(Place::name))), &state.line)
    }
}

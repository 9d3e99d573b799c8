//! What a model can do next, and whom a step belongs to.

use std::hash::Hash;

use crate::config::Config;
use crate::message::{List, Message};
use crate::properties::Violation;
use crate::state::{Locked, State};
use crate::worker::Worker;

/// A protocol whose states can be explored.
pub(crate) trait Model {
    type State: Copy + Eq + Hash;

    fn initial(&self) -> Self::State;
    fn steps(&self, from: &Self::State, steps: &mut Steps<Self::State>);
    /// Returns whether everybody is done and nothing is left to do.
    fn is_complete(&self, state: &Self::State) -> bool;
    fn unfinished(&self, state: &Self::State) -> List<Message>;
    fn describe(&self, state: &Self::State) -> String;
}

#[derive(Debug)]
pub(crate) struct Step<S> {
    /// Empty, unless labels are asked for.
    pub(crate) label: String,
    /// A fault never counts as help.
    pub(crate) is_fault: bool,
    pub(crate) to: Result<S, Violation>,
}

/// Collects the steps from one state.
#[derive(Debug)]
pub(crate) struct Steps<S> {
    pub(crate) found: Vec<Step<S>>,
    /// Labels cost more than all the rest, and only a trace shows them.
    with_labels: bool,
}

impl<S> Steps<S> {
    pub(crate) fn unlabelled() -> Self {
        Self { found: Vec::new(), with_labels: false }
    }

    pub(crate) fn labelled() -> Self {
        Self { found: Vec::new(), with_labels: true }
    }

    pub(crate) fn step(&mut self, label: impl FnOnce() -> String, to: S) {
        self.push(label, false, Ok(to));
    }

    pub(crate) fn fault(&mut self, label: impl FnOnce() -> String, to: S) {
        self.push(label, true, Ok(to));
    }

    /// Adds a step that breaks a property, or leads on.
    pub(crate) fn judged(&mut self, label: impl FnOnce() -> String, to: Result<S, Violation>) {
        self.push(label, false, to);
    }

    fn push(&mut self, label: impl FnOnce() -> String, is_fault: bool, to: Result<S, Violation>) {
        let label = if self.with_labels { label() } else { String::new() };
        self.found.push(Step { label, is_fault, to });
    }
}

/// One worker's turn in a state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) config: &'a Config,
    pub(crate) from: &'a State,
    pub(crate) me: usize,
}

impl Turn<'_> {
    pub(crate) fn locked_by_others(&self) -> Locked {
        self.from.locked_by_others(Some(self.me))
    }

    /// Returns the state after this worker went on, if nothing else changes.
    pub(crate) fn goes_on(&self, worker: Worker) -> State {
        let mut workers = self.from.workers;
        workers[self.me] = worker;
        workers.sort_unstable();
        State { workers, ..*self.from }
    }
}

//! The search: breadth first, so that a trace is as short as can be.

use std::collections::VecDeque;

use crate::properties::{Violation, stranded};
use crate::seen::Seen;
use crate::steps::{Model, Step, Steps};

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    pub(crate) found: Option<Found>,
}

/// A violation and the way to it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) violation: Violation,
    pub(crate) trace: Vec<String>,
    /// What the last state before it looks like.
    pub(crate) last: String,
}

struct Search<'a, M: Model> {
    model: &'a M,
    seen: Seen<M::State>,
    /// From which state each was reached first.
    parents: Vec<usize>,
    /// From which states each is reached without a fault, with repetitions.
    helped_from: Vec<Vec<usize>>,
    /// How many steps that are no faults lead on from each.
    ways: Vec<usize>,
    steps: usize,
}

/// Visits every state that can be reached, or those up to the first violation.
pub(crate) fn explore<M: Model>(model: &M) -> Outcome {
    let mut search = Search {
        model,
        seen: Seen::new(model.initial()),
        parents: vec![0],
        helped_from: vec![Vec::new()],
        ways: vec![0],
        steps: 0,
    };
    let mut found = None;
    let mut at = 0;
    let mut steps = Steps::unlabelled();
    // Indices are given in the order in which states are found: the states themselves are the queue.
    while found.is_none() && at < search.seen.states.len() {
        model.steps(&search.seen.states[at], &mut steps);
        found = steps.found.drain(..).find_map(|step| search.follow(at, step).err());
        at += 1;
    }
    let found = match found {
        Some(violation) => Some(search.tell(violation, at - 1, true)),
        None => search
            .stranded_state()
            .map(|state| search.tell(stranded(&model.unfinished(&search.seen.states[state])), state, false)),
    };
    Outcome { states: search.seen.states.len(), steps: search.steps, found }
}

impl<M: Model> Search<'_, M> {
    fn follow(&mut self, from: usize, step: Step<M::State>) -> Result<(), Violation> {
        self.steps += 1;
        let to = self.seen.index_of(step.to?);
        if to == self.parents.len() {
            self.parents.push(from);
            self.helped_from.push(Vec::new());
            self.ways.push(0);
        }
        if !step.is_fault {
            self.helped_from[to].push(from);
            self.ways[from] += 1;
        }
        Ok(())
    }

    /// Returns a state from which steps without faults never lead to the end, if there is one.
    fn stranded_state(&self) -> Option<usize> {
        let states = &self.seen.states;
        let mut ends_well: Vec<_> = states.iter().map(|state| self.model.is_complete(state)).collect();
        let mut queue: VecDeque<_> = (0..states.len()).filter(|state| ends_well[*state]).collect();
        while let Some(state) = queue.pop_front() {
            for before in &self.helped_from[state] {
                if !ends_well[*before] {
                    ends_well[*before] = true;
                    queue.push_back(*before);
                }
            }
        }
        let mut stranded = (0..states.len()).filter(|state| !ends_well[*state]);
        let first = stranded.next()?;
        // One in which nobody can do anything more tells most.
        Some([first].into_iter().chain(stranded).find(|state| self.ways[*state] == 0).unwrap_or(first))
    }

    /// Returns the steps that lead to a state, with their labels, and the violation after them.
    fn tell(&self, violation: Violation, last: usize, by_a_step: bool) -> Found {
        let states = &self.seen.states;
        let mut trace = Vec::new();
        if by_a_step {
            trace.extend(self.label(last, |step| step.to.is_err()));
        }
        let mut at = last;
        while at != 0 {
            let parent = self.parents[at];
            trace.extend(self.label(parent, |step| step.to.as_ref().is_ok_and(|to| *to == states[at])));
            at = parent;
        }
        trace.reverse();
        Found { violation, trace, last: self.model.describe(&states[last]) }
    }

    fn label(&self, from: usize, wanted: impl Fn(&Step<M::State>) -> bool) -> Option<String> {
        let mut steps = Steps::labelled();
        self.model.steps(&self.seen.states[from], &mut steps);
        steps.found.into_iter().find(wanted).map(|step| step.label)
    }
}

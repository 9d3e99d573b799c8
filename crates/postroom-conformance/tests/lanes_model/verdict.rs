//! Judges what the search found, and shows it.

use crate::explore::{Outcome, explore};
use crate::properties::Property;
use crate::steps::Model;

/// Names the variable that makes tests larger. Above 1, it adds configurations that take a while and some memory.
const SCALE_VARIABLE: &str = "POSTROOM_SCALE";

/// A configuration, and how many states and steps the search goes through.
#[derive(Debug)]
pub(crate) struct Case<M> {
    pub(crate) name: &'static str,
    pub(crate) model: M,
    pub(crate) states: usize,
    pub(crate) steps: usize,
}

impl<M: Model> Case<M> {
    /// Checks that no state breaks a property.
    pub(crate) fn holds(&self) {
        let outcome = self.run();
        let violation = outcome.found.as_ref().map(|found| found.violation.to_string());
        assert!(violation.is_none(), "{}: {}{}", self.name, violation.unwrap_or_default(), told(&outcome));
        self.is_as_large_as_expected(&outcome);
    }

    /// Checks that the sabotage breaks this property.
    pub(crate) fn breaks(&self, property: Property) {
        let outcome = self.run();
        let found = outcome.found.as_ref().map(|found| found.violation.property);
        assert_eq!(found, Some(property), "{}{}", self.name, told(&outcome));
        self.is_as_large_as_expected(&outcome);
    }

    fn run(&self) -> Outcome {
        let outcome = explore(&self.model);
        let verdict = outcome.found.as_ref().map_or("holds".to_owned(), |found| found.violation.to_string());
        println!("{}: {} states, {} steps: {verdict}{}", self.name, outcome.states, outcome.steps, told(&outcome));
        outcome
    }

    fn is_as_large_as_expected(&self, outcome: &Outcome) {
        let expected = (self.states, self.steps);
        assert_eq!((outcome.states, outcome.steps), expected, "states and steps of {}", self.name);
    }
}

/// Checks that these hold, and the large ones too if there is time for them.
pub(crate) fn hold<M: Model>(cases: &[Case<M>], large: &[Case<M>]) {
    cases.iter().for_each(Case::holds);
    if scale() > 1 {
        large.iter().for_each(Case::holds);
    }
}

fn scale() -> u32 {
    std::env::var(SCALE_VARIABLE).ok().and_then(|scale| scale.parse().ok()).unwrap_or(1)
}

/// Returns the trace of a violation, one step in each line.
fn told(outcome: &Outcome) -> String {
    let Some(found) = &outcome.found else { return String::new() };
    let steps = found.trace.iter().enumerate().map(|(at, label)| format!("\n  {:2}. {label}", at + 1));
    format!("{}\n  then: {}", steps.collect::<String>(), found.last)
}

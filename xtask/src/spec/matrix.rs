//! Matches requirements with results.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    catalog::Catalog,
    results::{Outcome, TestResult},
};

/// One requirement and its proofs.
#[derive(Debug, Default, Serialize)]
pub(super) struct Row {
    pub(super) id: String,
    /// The text of the requirement, if it is a section of a document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asks: Option<String>,
    /// The tests that passed, without the backend's name.
    pub(super) tests: BTreeSet<String>,
    /// The backends on which one of them passed, and the packages whose own tests passed.
    pub(super) backends: BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) later: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_applicable: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) differs: Option<String>,
    /// The backends that still need a proof, and the tests outside the matrix that did not pass.
    #[serde(skip)]
    pub(super) missing: Vec<String>,
}

/// All requirements in order, and all problems.
#[derive(Debug)]
pub(super) struct Matrix {
    pub(super) rows: Vec<Row>,
    pub(super) problems: Vec<String>,
}

impl Matrix {
    pub(super) fn collate(catalog: &Catalog, results: &[TestResult]) -> Self {
        let mut proofs: BTreeMap<&str, Vec<&TestResult>> = BTreeMap::new();
        for result in results.iter().filter(|result| result.outcome == Outcome::Passed) {
            for id in &result.proves {
                proofs.entry(id).or_default().push(result);
            }
        }
        let tested: BTreeSet<&str> = results.iter().map(|result| result.backend.as_str()).collect();
        let row = |id: String| Row::new(catalog, &tested, proofs.get(id.as_str()).map_or(&[], Vec::as_slice), id);
        let rows: Vec<_> = catalog.requirements().map(row).collect();
        let problems = result_problems(catalog, results).chain(rows.iter().filter_map(Row::problem)).collect();
        Self { rows, problems }
    }
}

impl Row {
    fn new(catalog: &Catalog, tested: &BTreeSet<&str>, proofs: &[&TestResult], id: String) -> Self {
        let tests = proofs.iter().map(|proof| proof.case().to_owned()).collect();
        let backends: BTreeSet<_> = proofs.iter().map(|proof| proof.backend.clone()).collect();
        let later = catalog.later(&id).map(str::to_owned);
        let was_left_out = |backend: &String| catalog.optional.contains(backend) && !tested.contains(backend.as_str());
        let owes = |backend: &&String| later.is_none() && !was_left_out(backend) && !backends.contains(*backend);
        let mut missing: Vec<_> = catalog.owing(&id).filter(owes).cloned().collect();
        let not_applicable = not_applicable(catalog, &id);
        let (mut asks, mut differs) = (None, None);
        if let Some(section) = catalog.section(&id) {
            let passed = |test: &String| proofs.iter().any(|proof| proof.test == *test);
            missing.extend(section.tests.iter().map(ToString::to_string).filter(|test| !passed(test)));
            (asks, differs) = (Some(section.asks.clone()), section.differs.clone());
        }
        Self { id, asks, tests, backends, later, not_applicable, differs, missing }
    }

    fn problem(&self) -> Option<String> {
        (!self.missing.is_empty()).then(|| format!("{} is not proven by {}", self.id, self.missing.join(", ")))
    }
}

/// Returns the reason with the backends it applies to: `memory, sqlite: no server`.
fn not_applicable(catalog: &Catalog, id: &str) -> Option<String> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for backend in &catalog.backends {
        if let Some(why) = catalog.not_applicable(id, backend) {
            reasons.entry(why).or_default().push(backend);
        }
    }
    let reasons: Vec<_> = reasons.iter().map(|(why, backends)| format!("{}: {why}", backends.join(", "))).collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

fn result_problems<'r>(catalog: &'r Catalog, results: &'r [TestResult]) -> impl Iterator<Item = String> + 'r {
    let failed = results.iter().filter(|result| result.outcome == Outcome::Failed);
    let failed = failed.map(|result| format!("{} failed on {}", result.case(), result.backend));
    let named = results.iter().flat_map(|result| result.proves.iter().map(move |id| (result, id)));
    let unknown = named.filter(|(_, id)| !catalog.exists(id));
    let unknown = unknown.map(|(result, id)| format!("{} names {id}, which does not exist", result.test));
    failed.chain(unknown)
}

#[cfg(test)]
mod tests;

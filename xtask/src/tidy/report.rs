//! `cargo xtask tidy --json`: reports the order and size of the sources in numbers.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use super::{
    GENERATED,
    order::{graph::Graph, table::Crate},
    root_names,
    source::{Source, numbered},
    test_code::is_test_file,
};

#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The number of entries in the order.
    modules: usize,
    /// The number of pairs in which one entry imports the other.
    edges: usize,
    cycles: usize,
    upward: Vec<Upward>,
    root_names: BTreeMap<String, usize>,
    root_names_max: usize,
    files: usize,
    median: usize,
    largest: Largest,
    lines: BTreeMap<String, Lines>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Upward {
    #[serde(rename = "crate")]
    library: String,
    from: String,
    to: String,
    path: String,
    line: usize,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Largest {
    path: String,
    lines: usize,
}

/// The lines of a crate's sources and tests. Comments in tests do not count as documentation.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Lines {
    code: usize,
    tests: usize,
    docs: usize,
    blank: usize,
}

pub(super) fn json(report: &Report) -> Result<String> {
    Ok(serde_json::to_string_pretty(report)? + "\n")
}

impl Report {
    pub(super) fn of(orders: &[Crate], sources: &[Source]) -> Self {
        let mut report = Self {
            modules: 0,
            edges: 0,
            cycles: 0,
            upward: Vec::new(),
            root_names: BTreeMap::new(),
            root_names_max: root_names::MAX,
            files: 0,
            median: 0,
            largest: Largest::default(),
            lines: BTreeMap::new(),
        };
        orders.iter().for_each(|order| report.add_order(order, sources));
        report.add_sizes(sources);
        report
    }

    fn add_order(&mut self, order: &Crate, sources: &[Source]) {
        let library = crate_of(order.folder).unwrap_or(order.folder);
        let graph = Graph::of(order, sources);
        self.modules += graph.modules.len();
        self.edges += graph.edges().len();
        self.cycles += graph.cycles().len();
        self.upward.extend(graph.upward().map(|import| Upward {
            library: library.to_owned(),
            from: graph.modules[import.from].to_owned(),
            to: graph.modules[import.to].to_owned(),
            path: import.path.to_owned(),
            line: import.line,
        }));
        self.root_names.insert(library.to_owned(), root_names::root_names(sources, order.folder).len());
    }

    fn add_sizes(&mut self, sources: &[Source]) {
        let mut lengths = Vec::new();
        for source in sources.iter().filter(|source| !GENERATED.contains(&source.path.as_str())) {
            let (Some(library), Some(folder)) = (crate_of(&source.path), source.path.split('/').nth(2)) else {
                continue;
            };
            if source.rust.is_none() || !["src", "tests"].contains(&folder) {
                continue;
            }
            self.lines.entry(library.to_owned()).or_default().add(source);
            if folder == "src" && !is_test_file(&source.path) {
                let lines = source.text.lines().count();
                lengths.push(lines);
                if lines > self.largest.lines {
                    self.largest = Largest { path: source.path.clone(), lines };
                }
            }
        }
        self.files = lengths.len();
        self.median = median(lengths);
    }
}

impl Lines {
    fn add(&mut self, source: &Source) {
        let Some(rust) = &source.rust else { return };
        let comments = rust.layers.comments.lines();
        let others = rust.layers.code.lines().zip(rust.layers.strings.lines());
        for (((line, text), comment), (code, string)) in numbered(&source.text).zip(comments).zip(others) {
            let is_comment = [code, string].iter().all(|layer| layer.trim().is_empty()) && !comment.trim().is_empty();
            match () {
                () if text.trim().is_empty() => self.blank += 1,
                () if rust.is_test(line) => self.tests += 1,
                () if is_comment => self.docs += 1,
                () => self.code += 1,
            }
        }
    }
}

/// Returns the name of the crate that contains a path.
fn crate_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.split('/').next()
}

/// Returns the median. For an even count it is the mean of the middle two, rounded down.
fn median(mut lengths: Vec<usize>) -> usize {
    lengths.sort_unstable();
    let half = lengths.len() / 2;
    match lengths.len() {
        0 => 0,
        count if count % 2 == 1 => lengths[half],
        _ => usize::midpoint(lengths[half - 1], lengths[half]),
    }
}

#[cfg(test)]
mod tests;

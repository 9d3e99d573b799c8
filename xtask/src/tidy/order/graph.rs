//! The graph of imports between the entries of the order.

use std::collections::{BTreeMap, BTreeSet};

use super::{syntax::Shown, table::Crate, tree::Tree};
use crate::tidy::source::Source;

pub(in crate::tidy) struct Graph<'a> {
    pub(in crate::tidy) modules: &'a [&'a str],
    /// The imports, sorted. Several imports of one entry in one line count once.
    pub(in crate::tidy) imports: BTreeSet<Import<'a>>,
    /// Files with code that no entry owns, and the paths of their modules.
    pub(super) without_place: Vec<(&'a Source, String)>,
    /// Entries that own no file.
    pub(super) without_file: Vec<&'a str>,
}

/// A line that imports from another entry; entries are numbered by their place in the order.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::tidy) struct Import<'a> {
    pub(in crate::tidy) path: &'a str,
    pub(in crate::tidy) line: usize,
    pub(in crate::tidy) from: usize,
    pub(in crate::tidy) to: usize,
}

impl<'a> Graph<'a> {
    pub(in crate::tidy) fn of(order: &'a Crate, sources: &'a [Source]) -> Self {
        let tree = Tree::read(sources, order.folder);
        let places = Places::of(order.modules);
        let mut graph = Self {
            modules: order.modules,
            imports: BTreeSet::new(),
            without_place: Vec::new(),
            without_file: Vec::new(),
        };
        let mut used = BTreeSet::new();
        for (source, path) in &tree.files {
            let place = places.find(path);
            used.extend(place);
            match place {
                _ if !tree.has_code(path) => {}
                Some(from) => graph.add_file(&tree, &places, (source, path), from),
                None => graph.without_place.push((source, written(path))),
            }
        }
        let unused = (0..order.modules.len()).filter(|place| !used.contains(place));
        graph.without_file = unused.map(|place| order.modules[place]).collect();
        graph
    }

    fn add_file(&mut self, tree: &Tree<'_>, places: &Places, (source, file): (&'a Source, &[String]), from: usize) {
        let mut add = |line: usize, to: Option<usize>| {
            if let Some(to) = to.filter(|to| *to != from) {
                self.imports.insert(Import { path: &source.path, line, from, to });
            }
        };
        for module in tree.modules_of(file) {
            for import in &module.uses {
                // A parent that exports its children to others does not import them.
                if import.shown == Shown::Nobody || !tree.leads_through_child(module, &import.segments) {
                    let targets = tree.imported(module, import);
                    targets.iter().for_each(|target| add(import.line, places.find(&target.module)));
                }
            }
            for path in &module.paths {
                let place = |segments: &[String]| {
                    let targets = tree.resolve(module, segments);
                    targets.iter().map(|target| places.find(&target.module)).collect::<BTreeSet<_>>()
                };
                let is_full = ["crate", "self", "super"].contains(&path.segments[0].as_str())
                    || tree.leads_through_child(module, &path.segments);
                // A name that a `use` line brought in has already been counted there.
                let counted = if is_full { BTreeSet::new() } else { place(&path.segments[..1]) };
                place(&path.segments).difference(&counted).for_each(|to| add(path.line, *to));
            }
        }
    }

    pub(in crate::tidy) fn edges(&self) -> BTreeSet<(usize, usize)> {
        self.imports.iter().map(|import| (import.from, import.to)).collect()
    }

    pub(in crate::tidy) fn upward(&self) -> impl Iterator<Item = &Import<'a>> {
        self.imports.iter().filter(|import| import.to > import.from)
    }

    /// Returns the entries that reach each other; each list follows the order.
    pub(in crate::tidy) fn cycles(&self) -> Vec<Vec<&'a str>> {
        let edges = self.edges();
        let reached: Vec<_> = (0..self.modules.len()).map(|start| reached_from(start, &edges)).collect();
        let mut cycles: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for (place, from_here) in reached.iter().enumerate() {
            // The lowest member represents the cycle.
            if let Some(first) = from_here.iter().find(|other| reached[**other].contains(&place)) {
                cycles.entry(*first).or_default().push(self.modules[place]);
            }
        }
        cycles.into_values().collect()
    }
}

fn reached_from(start: usize, edges: &BTreeSet<(usize, usize)>) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![start];
    while let Some(place) = waiting.pop() {
        let next = edges.range((place, 0)..(place + 1, 0)).map(|(_, to)| *to);
        waiting.extend(next.filter(|to| reached.insert(*to)));
    }
    reached
}

/// The place of each entry, by its path.
struct Places(BTreeMap<Vec<String>, usize>);

impl Places {
    fn of(modules: &[&str]) -> Self {
        let split = |module: &str| match module {
            "crate" => Vec::new(),
            _ => module.split("::").map(str::to_owned).collect(),
        };
        Self(modules.iter().enumerate().map(|(place, module)| (split(module), place)).collect())
    }

    /// Finds the entry with the longest path above a module. The root owns only itself.
    fn find(&self, path: &[String]) -> Option<usize> {
        let lengths = path.len().min(1)..=path.len();
        lengths.rev().find_map(|length| self.0.get(&path[..length]).copied())
    }
}

/// Formats a path as in the order.
fn written(path: &[String]) -> String {
    if path.is_empty() { "crate".to_owned() } else { path.join("::") }
}

#[cfg(test)]
mod tests;

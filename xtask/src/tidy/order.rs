//! Rule: a module of a library imports only modules that come before it in the order of [`table`].
//!
//! A file that contains only `mod` and `use` needs no place: importing a name from it counts as importing the module
//! that defines the name.

pub(super) mod graph;
pub(super) mod syntax;
pub(super) mod table;
mod tokens;
pub(super) mod tree;

use super::{
    Violation,
    source::{Source, numbered},
};
use graph::Graph;
use table::{Crate, ORDER, UNORDERED};

pub(super) fn modules_out_of_order(sources: &[Source]) -> Vec<Violation> {
    let mut violations = crates_without_order(ORDER, sources);
    violations.extend(ORDER.iter().flat_map(|order| out_of_order(order, sources)));
    violations
}

fn crates_without_order(orders: &[Crate], sources: &[Source]) -> Vec<Violation> {
    let is_known = |folder: &str| orders.iter().any(|order| order.folder == folder) || UNORDERED.contains(&folder);
    let roots = sources.iter().filter(|source| {
        let folder = source.path.strip_suffix("/lib.rs").filter(|folder| folder.ends_with("/src"));
        folder.is_some_and(|folder| folder.starts_with("crates/") && !is_known(folder))
    });
    let advice = format!("this crate has no place in the order: write its modules into {}", table::FILE);
    roots.map(|source| Violation::new(source, 1, "module-order", advice.as_str())).collect()
}

fn out_of_order(order: &Crate, sources: &[Source]) -> Vec<Violation> {
    let graph = Graph::of(order, sources);
    let mut violations = Vec::new();
    for import in graph.upward() {
        let (from, to) = (graph.modules[import.from], graph.modules[import.to]);
        let advice = format!(
            "`{from}` imports `{to}`, which comes after it in the order: \
             move what is shared down, or turn the dependency around"
        );
        violations.push(Violation { path: import.path.to_owned(), line: import.line, rule: "import", advice });
    }
    for (source, module) in &graph.without_place {
        let advice = format!("`{module}` has no place in the order: give it one in {}", table::FILE);
        violations.push(Violation::new(source, 1, "module-order", advice));
    }
    for entry in &graph.without_file {
        let advice = format!("`{entry}` is no module of {}: take it out of the order", order.folder);
        violations.push(in_table(sources, order, entry, "module-order", advice));
    }
    for cycle in graph.cycles() {
        let advice = format!("these import each other in {}: {}", order.folder, cycle.join(", "));
        violations.push(in_table(sources, order, cycle[0], "import-cycle", advice));
    }
    violations
}

/// Creates a violation at the line of the table that names the entry of a crate.
fn in_table(sources: &[Source], order: &Crate, entry: &str, rule: &'static str, advice: String) -> Violation {
    let text = sources.iter().find(|source| source.path == table::FILE).map_or("", |source| source.text.as_str());
    let from_crate = numbered(text).skip_while(|(_, text)| !text.contains(&format!("\"{}\"", order.folder)));
    let line =
        from_crate.into_iter().find(|(_, text)| text.contains(&format!("\"{entry}\""))).map_or(1, |(line, _)| line);
    Violation { path: table::FILE.to_owned(), line, rule, advice }
}

#[cfg(test)]
mod tests;

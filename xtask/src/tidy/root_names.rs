//! Rule: limits how many names a user sees at the root of a crate.

use std::collections::BTreeSet;

use super::{
    Violation,
    order::{
        syntax::{Bound, Named, Shown},
        tree::Tree,
    },
    source::Source,
};

pub(super) const MAX: usize = 45;

/// The crate that users depend on; the other crates may export to each other what they need.
const FACADE: &str = "crates/postroom/src";

pub(super) fn crowded_root(sources: &[Source]) -> Vec<Violation> {
    let root = format!("{FACADE}/lib.rs");
    let Some(source) = sources.iter().find(|source| source.path == root) else { return Vec::new() };
    let names = root_names(sources, FACADE).len();
    if names <= MAX {
        return Vec::new();
    }
    let advice = format!("{names} names at the root, at most {MAX}: move what few need into public modules");
    vec![Violation::new(source, 1, "root-names", advice)]
}

/// Returns the public names at the root of the crate in `folder`. A macro and a trait of the same name count once,
/// and names that are hidden from the documentation do not count.
pub(super) fn root_names(sources: &[Source], folder: &str) -> BTreeSet<String> {
    let tree = Tree::read(sources, folder);
    let mut names = BTreeSet::new();
    names.extend(visible(tree.exported_macros()));
    collect(sources, (&tree, folder), &[], &mut names, &mut BTreeSet::new());
    names
}

fn visible<'a>(named: impl Iterator<Item = &'a Named>) -> impl Iterator<Item = String> {
    named.filter(|named| named.shown == Shown::Everybody).map(|named| named.name.clone())
}

type Visited = BTreeSet<(String, Vec<String>)>;

fn collect(
    sources: &[Source],
    (tree, folder): (&Tree<'_>, &str),
    path: &[String],
    names: &mut BTreeSet<String>,
    visited: &mut Visited,
) {
    let Some(module) = tree.module(path) else { return };
    if !visited.insert((folder.to_owned(), path.to_vec())) {
        return;
    }
    names.extend(visible(module.items.iter().chain(&module.children)));
    for import in module.uses.iter().filter(|import| import.shown == Shown::Everybody) {
        match &import.as_what {
            Bound::Name(name) => drop(names.insert(name.clone())),
            Bound::Nothing => {}
            Bound::Everything => {
                let inside = tree.resolve(module, &import.segments).into_iter().find(|target| target.is_module);
                let other = format!("crates/{}/src", import.segments[0].replace('_', "-"));
                let outside = Tree::read(sources, &other);
                if let Some(target) = inside {
                    collect(sources, (tree, folder), &target.module, names, visited);
                } else if let Some(target) = outside.target(&import.segments[1..]) {
                    collect(sources, (&outside, &other), &target.module, names, visited);
                } else {
                    // An import from outside the workspace counts as one name.
                    names.insert(import.segments.join("::"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

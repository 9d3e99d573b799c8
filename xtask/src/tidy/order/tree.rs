//! The modules of a crate, and the meaning of paths in them.

use std::{
    collections::{BTreeMap, BTreeSet},
    slice,
};

use super::{
    syntax::{Bound, Module, Named, Shown, Use, modules},
    tokens::tokens,
};
use crate::tidy::{source::Source, test_code::is_test_file};

pub(in crate::tidy) struct Tree<'a> {
    /// Every file that is not a test, with the path of its module.
    pub(super) files: Vec<(&'a Source, Vec<String>)>,
    modules: BTreeMap<Vec<String>, Module>,
}

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::tidy) struct Target {
    pub(in crate::tidy) module: Vec<String>,
    /// Whether it is the module itself, and not something in it.
    pub(in crate::tidy) is_module: bool,
}

/// The names that are being looked up, because re-exports may form a cycle.
type Seen = BTreeSet<(Vec<String>, String)>;

impl<'a> Tree<'a> {
    pub(in crate::tidy) fn read(sources: &'a [Source], folder: &str) -> Self {
        let mut tree = Self { files: Vec::new(), modules: BTreeMap::new() };
        for source in sources {
            let (Some(rust), Some(path)) = (&source.rust, module_path(&source.path, folder)) else { continue };
            tree.modules.extend(modules(&tokens(rust), path.clone()).into_iter().map(|m| (m.path.clone(), m)));
            tree.files.push((source, path));
        }
        tree.leave_out_tests();
        tree
    }

    /// Removes files whose declaring line belongs to tests.
    fn leave_out_tests(&mut self) {
        let below = |module: &Module, name: &String| [module.path.as_slice(), slice::from_ref(name)].concat();
        let declared = self.modules.values().flat_map(|m| m.test_children.iter().map(|name| below(m, name)));
        let tests: Vec<Vec<String>> = declared.collect();
        let is_test = |path: &[String]| tests.iter().any(|test| path.starts_with(test));
        self.files.retain(|(_, path)| !is_test(path));
        self.modules.retain(|path, _| !is_test(path));
    }

    pub(in crate::tidy) fn module(&self, path: &[String]) -> Option<&Module> {
        self.modules.get(path)
    }

    /// Returns the module of a file and those inside it.
    pub(super) fn modules_of(&self, file: &[String]) -> impl Iterator<Item = &Module> {
        let is_file = |path: &[String]| self.files.iter().any(|(_, other)| other == path);
        let inside = self.modules.range(file.to_vec()..).take_while(move |(path, _)| path.starts_with(file));
        inside.map(|(_, module)| module).filter(move |module| {
            // The longest file path above a module is the file that contains it.
            (file.len()..=module.path.len()).rev().find(|length| is_file(&module.path[..*length])) == Some(file.len())
        })
    }

    pub(super) fn has_code(&self, file: &[String]) -> bool {
        self.modules_of(file).any(|module| module.has_code)
    }

    /// Returns whether a path of `module` leads through one of its own children.
    pub(super) fn leads_through_child(&self, module: &Module, segments: &[String]) -> bool {
        let rest = match segments.first().map(String::as_str) {
            Some("self") => &segments[1..],
            Some("crate") => segments[1..].strip_prefix(module.path.as_slice()).unwrap_or_default(),
            _ => segments,
        };
        rest.first().is_some_and(|first| self.is_child(&module.path, first))
    }

    /// Returns what a path in `module` means, or nothing if it belongs to another crate.
    pub(in crate::tidy) fn resolve(&self, module: &Module, segments: &[String]) -> Vec<Target> {
        self.from(&module.path, segments, &mut Seen::new())
    }

    /// Returns the module at a path from the root, even if a `use` line puts it there.
    pub(in crate::tidy) fn target(&self, segments: &[String]) -> Option<Target> {
        let targets = self.below(&[], segments, &mut Seen::new());
        targets.into_iter().find(|target| target.is_module && self.module(&target.module).is_some())
    }

    /// Returns what a `use` imports. A glob of a file with only re-exports imports everything that the file lists.
    pub(super) fn imported(&self, module: &Module, import: &Use) -> Vec<Target> {
        let targets = self.resolve(module, &import.segments);
        if import.as_what != Bound::Everything {
            return targets;
        }
        targets.into_iter().flat_map(|target| self.listed(target, &mut BTreeSet::new())).collect()
    }

    fn listed(&self, target: Target, seen: &mut BTreeSet<Vec<String>>) -> Vec<Target> {
        let list = self.module(&target.module).filter(|module| target.is_module && !module.has_code);
        let Some(list) = list else { return vec![target] };
        if !seen.insert(list.path.clone()) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for import in list.uses.iter().filter(|import| import.shown != Shown::Nobody) {
            let targets = self.resolve(list, &import.segments);
            match import.as_what {
                Bound::Everything => found.extend(targets.into_iter().flat_map(|target| self.listed(target, seen))),
                _ => found.extend(targets),
            }
        }
        found
    }

    fn is_child(&self, path: &[String], name: &str) -> bool {
        self.module(path).is_some_and(|module| module.children.iter().any(|child| child.name == name))
    }

    fn from(&self, path: &[String], segments: &[String], seen: &mut Seen) -> Vec<Target> {
        let Some((first, rest)) = segments.split_first() else { return Vec::new() };
        match first.as_str() {
            "crate" => self.below(&[], rest, seen),
            "self" => self.below(path, rest, seen),
            "super" => {
                let further = rest.iter().take_while(|segment| *segment == "super").count();
                let depth = path.len().saturating_sub(1 + further);
                self.below(&path[..depth], &rest[further..], seen)
            }
            name if self.is_child(path, name) => self.below(path, segments, seen),
            _ => self.bound(path, segments, true, seen).unwrap_or_default(),
        }
    }

    /// Returns what `segments` mean after the path of a module.
    fn below(&self, path: &[String], segments: &[String], seen: &mut Seen) -> Vec<Target> {
        match segments.split_first() {
            None => vec![Target { module: path.to_vec(), is_module: true }],
            Some((first, rest)) if self.is_child(path, first) => {
                self.below(&[path, slice::from_ref(first)].concat(), rest, seen)
            }
            Some(_) => {
                let own = || vec![Target { module: path.to_vec(), is_module: false }];
                self.bound(path, segments, false, seen).unwrap_or_else(own)
            }
        }
    }

    /// Returns what the first of `segments` is bound to in a module: an item, a `use`, or a name from a glob.
    fn bound(&self, path: &[String], segments: &[String], is_inside: bool, seen: &mut Seen) -> Option<Vec<Target>> {
        let (first, rest) = segments.split_first()?;
        let module = self.module(path)?;
        let step = (path.to_vec(), first.clone());
        if !seen.insert(step.clone()) {
            return Some(Vec::new());
        }
        let mut found = Vec::new();
        let is_item = module.items.iter().any(|item| item.name == *first);
        found.extend(is_item.then(|| Target { module: path.to_vec(), is_module: false }));
        let visible = || module.uses.iter().filter(|import| is_inside || !import.is_local);
        let mut is_bound = is_item;
        for import in visible().filter(|import| matches!(&import.as_what, Bound::Name(name) if name == first)) {
            is_bound = true;
            let targets = self.from(path, &import.segments, seen);
            found.extend(targets.into_iter().flat_map(|target| self.further(target, rest, seen)));
        }
        if !is_bound && path.is_empty() {
            found.extend(self.exported_macro(first));
        }
        if !is_bound && found.is_empty() {
            let globs = visible().filter(|import| import.as_what == Bound::Everything);
            found.extend(globs.flat_map(|glob| self.through_glob(path, glob, segments, seen)));
        }
        seen.remove(&step);
        (is_bound || !found.is_empty()).then_some(found)
    }

    fn further(&self, target: Target, rest: &[String], seen: &mut Seen) -> Vec<Target> {
        if target.is_module { self.below(&target.module, rest, seen) } else { vec![target] }
    }

    fn through_glob(&self, path: &[String], glob: &Use, segments: &[String], seen: &mut Seen) -> Vec<Target> {
        let mut found = Vec::new();
        for target in self.from(path, &glob.segments, seen).into_iter().filter(|target| target.is_module) {
            if self.is_child(&target.module, &segments[0]) {
                found.extend(self.below(&target.module, segments, seen));
            } else {
                found.extend(self.bound(&target.module, segments, false, seen).unwrap_or_default());
            }
        }
        found
    }

    fn exported_macro(&self, name: &str) -> Option<Target> {
        let mut modules = self.modules.values();
        let module = modules.find(|module| module.exported_macros.iter().any(|known| known.name == name))?;
        Some(Target { module: module.path.clone(), is_module: false })
    }

    pub(in crate::tidy) fn exported_macros(&self) -> impl Iterator<Item = &Named> {
        self.modules.values().flat_map(|module| &module.exported_macros)
    }
}

/// Returns the module path of a file of the library. Tests and programs have none.
fn module_path(file: &str, folder: &str) -> Option<Vec<String>> {
    let path = file.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".rs")?;
    if is_test_file(file) || path == "main" || path.starts_with("bin/") {
        return None;
    }
    let path = if path == "lib" { "" } else { path.strip_suffix("/mod").unwrap_or(path) };
    Some(path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests;

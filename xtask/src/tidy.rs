//! `cargo xtask tidy`: checks the style. Each rule has its own file and a line in one of the two tables below.

mod clock;
mod examples;
mod functions;
mod grab_bags;
mod ignored;
mod image;
mod layers;
mod markdown;
mod order;
mod orphans;
mod report;
mod root_names;
mod sizes;
mod sleeping;
mod source;
mod sql_text;
mod test_code;
mod unfinished;

use std::{fmt, fs, path::Path};

use anyhow::{Context, Result, bail};

use crate::{proto, run};
use report::Report;
use source::Source;

type FileRule = fn(&Source) -> Vec<Violation>;
type TreeRule = fn(&[Source]) -> Vec<Violation>;

/// Rules that check one file at a time.
const FILE_RULES: &[FileRule] = &[
    sizes::long_files,
    sizes::long_lines,
    functions::long_functions,
    ignored::ignored_tests,
    sleeping::sleeping_tests,
    grab_bags::grab_bag_names,
    unfinished::unfinished_work,
    clock::clocks_elsewhere,
    sql_text::sql_elsewhere,
    image::unencrypted_image,
    markdown::headings,
    markdown::trailing_whitespace,
];

/// Rules that need all files to check one.
const TREE_RULES: &[TreeRule] =
    &[orphans::orphan_files, examples::missing_examples, order::modules_out_of_order, root_names::crowded_root];

/// Generated files: the generator decides their style. They must still belong to a crate.
const GENERATED: &[&str] = &[proto::GENERATED];

/// One place that breaks one rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    path: String,
    line: usize,
    rule: &'static str,
    advice: String,
}

impl Violation {
    fn new(source: &Source, line: usize, rule: &'static str, advice: impl Into<String>) -> Self {
        Self { path: source.path.clone(), line, rule, advice: advice.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.advice)
    }
}

/// Checks all rules. With a path, it also writes the report there, whatever the result.
pub(crate) fn run(json: Option<&Path>) -> Result<()> {
    let sources = source::read_tree(&run::root())?;
    if let Some(path) = json {
        let report = Report::of(order::table::ORDER, &sources);
        fs::write(path, report::json(&report)?).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let violations = check(&sources);
    for violation in &violations {
        println!("{violation}");
    }
    if !violations.is_empty() {
        bail!("tidy found {} violations in {} files", violations.len(), sources.len());
    }
    println!("tidy: {} files in order", sources.len());
    Ok(())
}

fn check(sources: &[Source]) -> Vec<Violation> {
    let written: Vec<_> = sources.iter().filter(|source| !GENERATED.contains(&source.path.as_str())).collect();
    let in_files = FILE_RULES.iter().flat_map(|rule| written.iter().flat_map(|source| rule(source)));
    let in_tree = TREE_RULES.iter().flat_map(|rule| rule(sources));
    let mut violations: Vec<_> = in_files.chain(in_tree).collect();
    violations.sort();
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what `check` finds in a tree without the crates in the order.
    fn found(sources: &[Source]) -> Vec<String> {
        let in_files = check(sources).into_iter().filter(|violation| !violation.path.starts_with("xtask/"));
        in_files.map(|violation| violation.to_string()).collect()
    }

    #[test]
    fn every_rule_table_is_applied() {
        let sources = [
            Source::new("crates/a/src/lib.rs", "//! A.\n#[ignore]\nfn a() {}\n"),
            Source::new("crates/a/src/lost.rs", ""),
        ];
        let found = found(&sources);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("crates/a/src/lib.rs:1: module-order: "), "{}", found[0]);
        assert!(found[1].starts_with("crates/a/src/lib.rs:2: ignored-test: "), "{}", found[1]);
        assert!(found[2].starts_with("crates/a/src/lost.rs:1: orphan-file: "), "{}", found[2]);
    }

    #[test]
    fn generated_files_have_a_style_of_their_own_and_must_be_reached() {
        let found = found(&[Source::new(proto::GENERATED, &"a".repeat(500))]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(": orphan-file: "), "{}", found[0]);
    }
}

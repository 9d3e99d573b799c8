//! `cargo xtask tidy`: style as a test. Each rule has a file of its own and a line in one of the two tables below.

mod clock;
mod examples;
mod functions;
mod grab_bags;
mod ignored;
mod imports;
mod layers;
mod markdown;
mod orphans;
mod sizes;
mod sleeping;
mod source;
mod sql_text;
mod test_code;
mod unfinished;

use std::fmt;

use anyhow::{Result, bail};

use crate::{proto, run};
use source::Source;

type FileRule = fn(&Source) -> Vec<Violation>;
type TreeRule = fn(&[Source]) -> Vec<Violation>;

/// Rules that look at one file at a time.
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
    imports::forbidden_imports,
    markdown::headings,
    markdown::trailing_whitespace,
];

/// Rules that need every file to judge one.
const TREE_RULES: &[TreeRule] = &[orphans::orphan_files, examples::missing_examples];

/// Files that a program wrote: their style is that program's. That they belong to a crate is checked all the same.
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

pub(crate) fn run() -> Result<()> {
    let sources = source::read_tree(&run::root())?;
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

    #[test]
    fn every_rule_table_is_applied() {
        let sources = [
            Source::new("crates/a/src/lib.rs", "//! A.\n#[ignore]\nfn a() {}\n"),
            Source::new("crates/a/src/lost.rs", ""),
        ];
        let found: Vec<_> = check(&sources).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/a/src/lib.rs:2: ignored-test: "), "{}", found[0]);
        assert!(found[1].starts_with("crates/a/src/lost.rs:1: orphan-file: "), "{}", found[1]);
    }

    #[test]
    fn generated_files_have_a_style_of_their_own_and_must_be_reached() {
        let found = check(&[Source::new(proto::GENERATED, &"a".repeat(500))]);
        assert_eq!(found.iter().map(|violation| violation.rule).collect::<Vec<_>>(), ["orphan-file"]);
    }
}

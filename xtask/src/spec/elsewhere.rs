//! Runs the tests outside the matrix that the catalog names, and reads their results from the output.

use std::collections::BTreeSet;
use std::process::Stdio;

use anyhow::{Context, Result};

use super::catalog::{Catalog, TestName};
use super::results::{Outcome, TestResult};
use crate::{run, servers::Servers};

/// Returns the result of each test. They run one at a time, because not every runner accepts several names.
pub(super) fn run(catalog: &Catalog, servers: &Servers) -> Result<Vec<TestResult>> {
    let mut results = Vec::new();
    for test in catalog.tests().map(|(test, _)| test).collect::<BTreeSet<_>>() {
        eprintln!("{test}");
        let output = run::cargo(arguments(test))
            .envs(servers.variables())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot start {test}"))?;
        let result = result(catalog, test, &String::from_utf8_lossy(&output.stdout));
        if result.as_ref().is_none_or(|result| result.outcome != Outcome::Passed) {
            eprint!("{}", String::from_utf8_lossy(&output.stdout));
        }
        results.extend(result);
    }
    Ok(results)
}

/// Returns arguments for all packages, as `cargo xtask test` builds them, so that its build is reused.
fn arguments(test: &TestName) -> Vec<&str> {
    let mut args = vec!["test", "--workspace", "--all-features", "--locked", "--no-fail-fast"];
    match test.target.as_str() {
        "lib" => args.push("--lib"),
        "bin" => args.push("--bins"),
        name => args.extend(["--test", name]),
    }
    args.extend(["--", "--exact", &test.name]);
    args
}

/// Reads the result of the test from the output. A test that is missing there has no result, and proves nothing.
fn result(catalog: &Catalog, test: &TestName, output: &str) -> Option<TestResult> {
    let said = |line: &str| -> Option<String> {
        let (name, said) = line.strip_prefix("test ")?.split_once(" ... ")?;
        (name.trim() == test.name).then(|| said.trim_end().to_owned())
    };
    let outcome = match output.lines().find_map(said)?.as_str() {
        "ok" => Outcome::Passed,
        skipped if skipped.starts_with("ignored") => Outcome::Skipped,
        _ => Outcome::Failed,
    };
    let proves = catalog.tests().filter(|(other, _)| *other == test).map(|(_, id)| id.to_owned()).collect();
    Some(TestResult { test: test.to_string(), backend: test.package.clone(), proves, outcome })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CATALOG: &str = r#"{"backends":["memory"],"later":[],"not_applicable":[],"sections":[
        {"id":"SQM-1","asks":"a","on":[],"tests":["xtask/bin: tests::b","xtask/bin: tests::c"]},
        {"id":"SQM-2","asks":"a","on":[],"tests":["xtask/bin: tests::b","postroom-server/it: d"]}]}"#;

    #[test]
    fn a_test_is_judged_by_its_own_line_and_proves_all_that_name_it() {
        let catalog = Catalog::parse(CATALOG).unwrap();
        let output = "test tests::b_more ... FAILED\ntest tests::b ... ok\ntest tests::c ... ignored, no server\n";
        let all: BTreeSet<_> = catalog.tests().map(|(test, _)| test).collect();
        let results: Vec<_> = all.into_iter().filter_map(|test| result(&catalog, test, output)).collect();
        let outcomes: Vec<_> = results.iter().map(|result| (result.test.as_str(), result.outcome)).collect();
        assert_eq!(outcomes, [("xtask/bin: tests::b", Outcome::Passed), ("xtask/bin: tests::c", Outcome::Skipped)]);
        assert_eq!(results[0].proves, ["SQM-1", "SQM-2"]);
    }

    #[test]
    fn tests_are_run_by_their_exact_names() {
        let catalog = Catalog::parse(CATALOG).unwrap();
        let args: Vec<_> = catalog.tests().map(|(test, _)| arguments(test).join(" ")).collect();
        let all = "test --workspace --all-features --locked --no-fail-fast";
        assert_eq!(args[1], format!("{all} --bins -- --exact tests::c"));
        assert_eq!(args[3], format!("{all} --test it -- --exact d"));
    }
}

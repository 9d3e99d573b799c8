//! Checks that the library compiles without a warning: with none of its features, with each alone, and with all of
//! them. The first two cases are also checked with `testing`, as a program's tests see it. The library with all
//! features and `testing` is linted with the workspace.

use std::collections::BTreeMap;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::step;
use crate::run;

const LIBRARY: &str = "postroom";
const TESTING: &str = "testing";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    features: BTreeMap<String, Vec<String>>,
}

pub(super) fn check() -> Result<()> {
    let output = run::cargo(["metadata", "--no-deps", "--format-version", "1", "--locked"])
        .output()
        .context("cannot start cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    for arguments in checks_in(&output.stdout)? {
        step("features", &format!("cargo {arguments}"), || without_warnings(&arguments))?;
    }
    Ok(())
}

fn checks_in(metadata: &[u8]) -> Result<Vec<String>> {
    let metadata: Metadata = serde_json::from_slice(metadata).context("cannot read cargo's metadata")?;
    let library = metadata.packages.into_iter().find(|package| package.name == LIBRARY);
    let library = library.with_context(|| format!("the workspace has no package {LIBRARY}"))?;
    let features: Vec<_> = library.features.keys().map(String::as_str).filter(|name| *name != TESTING).collect();
    let alone = std::iter::once("").chain(features.iter().copied());
    let checks = alone.flat_map(|set| [arguments(set), arguments(&format!("{set},{TESTING}"))]);
    Ok(checks.chain([arguments(&features.join(","))]).collect())
}

/// Returns the arguments of a check. Nothing runs, so SQLite need not be fast: each combination rebuilds it in a
/// moment.
fn arguments(features: &str) -> String {
    let features = features.trim_start_matches(',');
    let quick = "--config profile.dev.package.libsqlite3-sys.opt-level=0";
    format!("check --package {LIBRARY} --no-default-features --features={features} --locked {quick}")
}

/// Runs a check and refuses warnings. A check costs half as much as clippy, but cannot refuse the warnings of one
/// package.
fn without_warnings(arguments: &str) -> Result<()> {
    let checked = run::cargo(arguments.split(' ')).stdout(Stdio::inherit()).output().context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&checked.stderr);
    eprint!("{said}");
    ensure!(checked.status.success(), "ended with {}", checked.status);
    ensure!(!has_warnings(&said), "there are warnings");
    Ok(())
}

/// Finds cargo's last line about a package with warnings: "warning: `postroom` (lib) generated 1 warning".
fn has_warnings(said: &str) -> bool {
    said.lines().any(|line| line.starts_with(&format!("warning: `{LIBRARY}` ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_then_each_alone_with_and_without_testing_then_all() {
        let metadata = br#"{"packages":[
            {"name":"other","features":{"x":[]}},
            {"name":"postroom","features":{"testing":[],"default":["rusqlite-0_39"],"rusqlite-0_39":[]}}]}"#;
        let sets = ["", "testing", "default", "default,testing", "rusqlite-0_39", "rusqlite-0_39,testing"];
        let expected: Vec<_> = sets.into_iter().chain(["default,rusqlite-0_39"]).map(arguments).collect();
        assert_eq!(checks_in(metadata).unwrap(), expected);
        assert!(expected[1].contains("--features=testing "), "{}", expected[1]);
    }

    #[test]
    fn a_missing_library_is_an_error() {
        assert!(checks_in(br#"{"packages":[]}"#).is_err());
    }

    #[test]
    fn warnings_of_the_library_are_found() {
        assert!(has_warnings(
            "warning: unused import\nwarning: `postroom` (lib) generated 1 warning (run `cargo fix`)\n"
        ));
        assert!(!has_warnings("    Checking postroom v0.1.0\nwarning: `postroom-macros` (lib) generated 1 warning\n"));
    }
}

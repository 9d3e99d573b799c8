//! The library must compile without a warning with none of its features, with each alone, and as a program's tests see
//! it, with `testing` besides; and with all of them but `testing`. With that too, it is linted with the workspace.
//!
//! Each crate of the library has features of its own, and the compiler warns of a `cfg` that names another crate's. So
//! what one crate's features do is independent of the others', and one run checks one set of each crate at a time:
//! there are as many runs as the crate with the most sets has, instead of one for each set.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::step;
use crate::run;

/// What users depend on; its features have the names of those that they pass on.
const FACADE: &str = "postroom";
/// The crates whose features the facade passes on.
const PARTS: [&str; 3] = ["postroom-core", "postroom-services", "postroom-idempotent"];
const TESTING: &str = "testing";
/// Code for tests asks for these: each is checked with `testing` besides.
const DATABASES: [&str; 4] = ["sqlite", "sqlx-0_9-postgres", "sqlx-0_9-mysql", "tiberius-0_13"];

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
    let features = |name: &str| -> Result<Vec<String>> {
        let package = metadata.packages.iter().find(|package| package.name == name);
        let package = package.with_context(|| format!("the workspace has no package {name}"))?;
        Ok(package.features.keys().filter(|feature| *feature != TESTING).cloned().collect())
    };
    let of_facade = features(FACADE)?;
    let mut sets = Vec::new();
    let mut passed_on = Vec::new();
    for part in PARTS {
        let features = features(part)?;
        sets.push(alone(&features));
        passed_on.extend(features);
    }
    let own: Vec<_> = of_facade.into_iter().filter(|feature| !passed_on.contains(feature)).collect();
    sets.push(alone(&own));
    let runs = sets.iter().map(Vec::len).max().unwrap_or_default();
    let run =
        |at: usize| sets.iter().filter_map(|sets| sets.get(at % sets.len())).flatten().cloned().collect::<Vec<_>>();
    // What the databases share has a user with all of them, and tests alone must not be that user.
    let all: BTreeSet<_> = sets.iter().flatten().flatten().filter(|feature| *feature != TESTING).cloned().collect();
    Ok((0..runs).map(run).chain([all.into_iter().collect()]).map(|set| arguments(&set)).collect())
}

/// No feature, each one alone, and those that tests ask for with `testing` besides.
fn alone(features: &[String]) -> Vec<Vec<String>> {
    let none = std::iter::once(Vec::new()).chain(features.iter().map(|feature| vec![feature.clone()]));
    let databases: Vec<_> = features.iter().filter(|feature| DATABASES.contains(&feature.as_str())).collect();
    let testing = databases.iter().map(|database| vec![(*database).clone(), TESTING.to_owned()]);
    let testing = testing.chain((!databases.is_empty()).then(|| vec![TESTING.to_owned()]));
    none.chain(testing).collect()
}

/// Nothing is run, so that SQLite need not be fast: each combination that builds it anew does so in a moment.
fn arguments(features: &[String]) -> String {
    let quick = "--config profile.dev.package.libsqlite3-sys.opt-level=0";
    format!("check --package {FACADE} --no-default-features --features={} --locked {quick}", features.join(","))
}

/// A check costs half of what clippy does, and cannot be told to refuse the warnings of one package alone.
fn without_warnings(arguments: &str) -> Result<()> {
    let checked = run::cargo(arguments.split(' ')).stdout(Stdio::inherit()).output().context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&checked.stderr);
    eprint!("{said}");
    ensure!(checked.status.success(), "ended with {}", checked.status);
    ensure!(!has_warnings(&said), "there are warnings");
    Ok(())
}

/// What cargo says in the end of a package with warnings: "warning: `postroom-core` (lib) generated 1 warning".
fn has_warnings(said: &str) -> bool {
    said.lines().any(|line| line.starts_with(&format!("warning: `{FACADE}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &[u8] = br#"{"packages":[
        {"name":"other","features":{"x":[]}},
        {"name":"postroom","features":{"testing":[],"default":[],"macros":[],"sqlite":[],"http":[],"tower":[]}},
        {"name":"postroom-core","features":{"testing":[],"sqlite":[]}},
        {"name":"postroom-services","features":{"testing":[],"http":[]}},
        {"name":"postroom-idempotent","features":{"tower":[]}}]}"#;

    #[test]
    fn one_run_checks_a_set_of_each_crate() {
        let sets = ["", "sqlite,http,tower,default", "sqlite,testing,macros", "testing,http,tower"];
        let all = "default,http,macros,sqlite,tower";
        let sets = sets.into_iter().chain([all]);
        let expected: Vec<_> =
            sets.map(|set| arguments(&set.split(',').map(str::to_owned).collect::<Vec<_>>())).collect();
        assert_eq!(checks_in(METADATA).unwrap(), expected);
    }

    #[test]
    fn every_feature_is_alone_in_its_crate_once() {
        let features: Vec<_> = ["a", "tiberius-0_13"].map(str::to_owned).into();
        let sets: Vec<_> = alone(&features).iter().map(|set| set.join("+")).collect();
        assert_eq!(sets, ["", "a", "tiberius-0_13", "tiberius-0_13+testing", "testing"]);
    }

    #[test]
    fn a_missing_crate_is_an_error() {
        assert!(checks_in(br#"{"packages":[]}"#).is_err());
    }

    #[test]
    fn warnings_of_the_library_are_found() {
        assert!(has_warnings(
            "warning: unused import\nwarning: `postroom-core` (lib) generated 1 warning (run `cargo fix`)\n"
        ));
        assert!(!has_warnings("    Checking postroom v0.1.0\nwarning: `other` (lib) generated 1 warning\n"));
    }
}

//! The library must compile without a warning with none of its features, with each alone, and with all of them; and as
//! a program's tests see it, with `testing` besides.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

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

/// The arguments of one `cargo clippy` for each combination: what it depends on is only checked, not built.
pub(super) fn checks() -> Result<Vec<String>> {
    let output = run::cargo(["metadata", "--no-deps", "--format-version", "1", "--locked"])
        .output()
        .context("cannot start cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    checks_in(&output.stdout)
}

fn checks_in(metadata: &[u8]) -> Result<Vec<String>> {
    let metadata: Metadata = serde_json::from_slice(metadata).context("cannot read cargo's metadata")?;
    let library = metadata.packages.into_iter().find(|package| package.name == LIBRARY);
    let library = library.with_context(|| format!("the workspace has no package {LIBRARY}"))?;
    let features: Vec<_> = library.features.keys().map(String::as_str).filter(|name| *name != TESTING).collect();
    let alone = features.iter().map(|feature| (*feature).to_owned());
    let sets = std::iter::once(String::new()).chain(alone).chain(std::iter::once(features.join(",")));
    Ok(sets.flat_map(|set| [check(&set), check(&format!("{set},{TESTING}"))]).collect())
}

fn check(features: &str) -> String {
    let features = features.trim_start_matches(',');
    format!("clippy --package {LIBRARY} --no-default-features --features={features} --locked -- -D warnings")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_then_each_alone_then_all_and_each_time_with_testing() {
        let metadata = br#"{"packages":[
            {"name":"other","features":{"x":[]}},
            {"name":"postroom","features":{"testing":[],"default":["rusqlite-0_39"],"rusqlite-0_39":[]}}]}"#;
        let sets = ["", "default", "rusqlite-0_39", "default,rusqlite-0_39"];
        let expected = sets.map(|set| [check(set), check(&format!("{set},testing"))]).concat();
        assert_eq!(checks_in(metadata).unwrap(), expected);
        assert!(expected[1].contains("--features=testing "), "{}", expected[1]);
    }

    #[test]
    fn a_missing_library_is_an_error() {
        assert!(checks_in(br#"{"packages":[]}"#).is_err());
    }
}

//! The library must compile with each of its features alone, and with none.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::run;

const LIBRARY: &str = "postroom";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    features: BTreeMap<String, Vec<String>>,
}

/// The arguments of one `cargo check` for each combination.
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
    let bare = format!("check --package {LIBRARY} --no-default-features --locked");
    let alone = library.features.keys().map(|feature| format!("{bare} --features {feature}"));
    Ok(std::iter::once(bare.clone()).chain(alone).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_first_then_each_alone() {
        let metadata = br#"{"packages":[
            {"name":"other","features":{"x":[]}},
            {"name":"postroom","features":{"testing":[],"default":["rusqlite-0_39"]}}]}"#;
        let bare = "check --package postroom --no-default-features --locked";
        let expected = [bare.to_owned(), format!("{bare} --features default"), format!("{bare} --features testing")];
        assert_eq!(checks_in(metadata).unwrap(), expected);
    }

    #[test]
    fn a_missing_library_is_an_error() {
        assert!(checks_in(br#"{"packages":[]}"#).is_err());
    }
}

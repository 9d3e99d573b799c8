//! The bill of materials: every crate in the binary, as CycloneDX JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::run;

/// Lists what cargo links into the binary for this target, without tests, build scripts and macros.
pub(super) fn write(target: &str) -> Result<String> {
    let tree = ["tree", "--package", "postroom-server", "--edges", "normal,no-proc-macro", "--locked"];
    let shape = ["--prefix", "depth", "--format", "{p}\t{l}", "--target", target];
    let told = run::cargo(tree.into_iter().chain(shape)).output().context("cannot start cargo tree")?;
    ensure!(told.status.success(), "cargo tree: {}", String::from_utf8_lossy(&told.stderr).trim());
    let lock = fs::read_to_string(run::root().join("Cargo.lock"))?;
    let bom = bom(&String::from_utf8_lossy(&told.stdout), &checksums(&lock))?;
    Ok(serde_json::to_string_pretty(&bom)? + "\n")
}

/// A crate as `cargo tree` names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    name: String,
    version: String,
}

impl Crate {
    /// Returns its package URL, which identifies it everywhere.
    fn purl(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version.replace('+', "%2B"))
    }
}

type Checksums = BTreeMap<Crate, String>;

/// Returns the SHA-256 of every crate from a registry.
fn checksums(lock: &str) -> Checksums {
    let packages = lock.split("[[package]]").map(|package| {
        let value = |key: &str| {
            let line = |line: &str| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"').map(str::to_owned);
            package.lines().find_map(line)
        };
        Some((Crate { name: value("name")?, version: value("version")? }, value("checksum")?))
    });
    packages.flatten().collect()
}

fn bom(tree: &str, checksums: &Checksums) -> Result<Value> {
    let mut above: Vec<Crate> = Vec::new();
    let mut licences = BTreeMap::new();
    let mut needs: BTreeMap<Crate, BTreeSet<String>> = BTreeMap::new();
    for line in tree.lines() {
        let (depth, found, licence) = read(line).with_context(|| format!("cargo tree says {line:?}"))?;
        above.truncate(depth);
        if let Some(parent) = above.last() {
            needs.entry(parent.clone()).or_default().insert(found.purl());
        }
        needs.entry(found.clone()).or_default();
        licences.insert(found.clone(), licence);
        above.push(found);
    }
    let binary = above.into_iter().next().context("cargo tree says nothing")?;
    let component = |found: &Crate, kind: &str, name: &str| {
        let mut component = json!({"type": kind, "bom-ref": found.purl(), "name": name, "version": found.version});
        if let Some(licence) = licences.get(found).filter(|licence| !licence.is_empty()) {
            component["licenses"] = json!([{ "expression": licence }]);
        }
        component["purl"] = found.purl().into();
        if let Some(checksum) = checksums.get(found) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        component
    };
    let components =
        needs.keys().filter(|found| **found != binary).map(|found| component(found, "library", &found.name));
    let dependencies = needs.iter().map(|(found, needs)| json!({"ref": found.purl(), "dependsOn": needs}));
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(&binary, "application", "postroom")},
        "components": components.collect::<Vec<_>>(),
        "dependencies": dependencies.collect::<Vec<_>>(),
    }))
}

/// Reads `2serde v1.0.228 (*)`, a tab, and the licence; some crates still write `MIT/Apache-2.0`.
fn read(line: &str) -> Option<(usize, Crate, String)> {
    let (package, licence) = line.split_once('\t')?;
    let digits = package.find(|sign: char| !sign.is_ascii_digit())?;
    let mut words = package[digits..].split(' ');
    let name = words.next()?.to_owned();
    let version = words.next()?.strip_prefix('v')?.to_owned();
    let licence = licence.trim_end_matches(" (*)").replace('/', " OR ");
    let licence = licence.split_whitespace().collect::<Vec<_>>().join(" ");
    Some((package[..digits].parse().ok()?, Crate { name, version }, licence))
}

#[cfg(test)]
mod tests;

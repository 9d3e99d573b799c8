//! `cargo xtask spec`: lists every requirement, the tests that prove it, and the backends they passed on.
//!
//! It counts what ran, not what the source says. The conformance tests write one line of JSON for each test to the
//! file in `POSTROOM_RESULTS`, and the other tests in the catalog are run by name.

mod catalog;
mod elsewhere;
mod matrix;
mod report;
mod results;

use std::{fs, io, path::Path};

use anyhow::{Context, Result, bail};

use crate::{run, servers::Servers};
use catalog::Catalog;
use matrix::Matrix;

const CATALOG: &str = "crates/postroom-conformance/requirements.json";

pub(crate) fn run(json: Option<&Path>, results: Option<&Path>) -> Result<()> {
    let catalog = fs::read_to_string(run::root().join(CATALOG)).with_context(|| format!("cannot read {CATALOG}"))?;
    let catalog = Catalog::parse(&catalog).with_context(|| format!("{CATALOG} is wrong"))?;
    let servers = Servers::start_unnamed();
    eprint!("{}", servers.missing());
    let (results, ran_well) = match results {
        Some(path) => (read(path)?, true),
        None => conformance_results(&servers)?,
    };
    let mut results = results::parse(&results)?;
    results.extend(elsewhere::run(&catalog, &servers)?);
    let matrix = Matrix::collate(&catalog, &results);

    print!("{}", report::table(&matrix));
    if let Some(path) = json {
        fs::write(path, report::json(&matrix)?).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if !matrix.problems.is_empty() {
        bail!("{} problems:\n  {}", matrix.problems.len(), matrix.problems.join("\n  "));
    }
    if !ran_well {
        bail!("the conformance tests did not end well, though no test says that it failed");
    }
    Ok(())
}

/// Returns what the conformance tests wrote, and whether cargo succeeded.
fn conformance_results(servers: &Servers) -> Result<(String, bool)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("results.jsonl");
    let status = run::cargo(["test", "--workspace", "--all-features", "--test", "matrix", "--locked"])
        .env("POSTROOM_RESULTS", &path)
        .envs(servers.variables())
        // Our own output is the table, which may be piped.
        .stdout(io::stderr())
        .status()
        .context("cannot start the conformance tests")?;
    let results = read(&path).with_context(|| format!("the conformance tests ended with {status}"))?;
    Ok((results, status.success()))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read the results in {}", path.display()))
}

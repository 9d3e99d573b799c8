//! Checks the licences, sources and known vulnerabilities of our dependencies with cargo-deny.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{step, succeed};
use crate::run;

/// The version is fixed, because its checks are a part of this repository.
const VERSION: &str = "0.20.2";
/// The checks that work without the list of known vulnerabilities.
const OFFLINE: [&str; 3] = ["bans", "licenses", "sources"];

pub(super) fn check() -> Result<()> {
    step("dependencies", "cargo deny check", || {
        let deny = installed()?;
        // The check reads the manifests of all platforms, and the builds fetch only what this one needs.
        succeed(&mut run::cargo(["fetch", "--locked"]))?;
        let fetched = deny_here(&deny).args(["fetch", "db"]).output().context("cannot start cargo-deny")?;
        let mut check = deny_here(&deny);
        // Two versions of one crate are only a warning, for people who run it by hand.
        check.args(["--log-level", "error"]);
        if fetched.status.success() {
            return succeed(check.args(["check", "--disable-fetch", "--hide-inclusion-graph"]));
        }
        succeed(check.args(["--offline", "check", "--hide-inclusion-graph"]).args(OFFLINE))?;
        println!("known flaws were not looked for: {}", reason(&fetched.stderr));
        Ok(())
    })
}

/// Returns why the list could not be fetched, in one line.
fn reason(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let cause = said.lines().find_map(|line| line.strip_prefix("fatal: "));
    cause.or_else(|| said.lines().next()).unwrap_or("the list cannot be fetched").to_owned()
}

fn deny_here(deny: &Path) -> Command {
    let mut command = Command::new(deny);
    command.current_dir(run::root());
    command
}

/// Returns the program in the target folder, which is built there once. It is built without optimisation, because a
/// check takes seconds and an optimised build takes many minutes.
fn installed() -> Result<PathBuf> {
    let folder = run::target().join("tools").join(format!("cargo-deny-{VERSION}"));
    let program = folder.join("bin/cargo-deny");
    if program.exists() {
        return Ok(program);
    }
    let building = folder.join("building");
    let status =
        run::cargo(["install", "cargo-deny", "--version", VERSION, "--locked", "--debug", "--quiet", "--root"])
            .arg(&folder)
            .arg("--target-dir")
            .arg(&building)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .status()
            .context("cannot start cargo install")?;
    if !status.success() {
        bail!("cargo-deny {VERSION} cannot be installed");
    }
    fs::remove_dir_all(&building)?;
    ensure!(program.exists(), "cargo install left no {}", program.display());
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_one_line() {
        let said = b"2026 [ERROR] failed to fetch advisory database\nCloning into 'x'\nfatal: Could not resolve host\n";
        assert_eq!(reason(said), "Could not resolve host");
        assert_eq!(reason(b"no route\nmore"), "no route");
        assert_eq!(reason(b""), "the list cannot be fetched");
    }
}

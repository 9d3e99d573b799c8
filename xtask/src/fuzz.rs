//! `cargo xtask fuzz`: looks for inputs that break a promise of the wire, with the stable toolchain.

use std::{
    env, fs,
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use crate::run;

/// The folder of the fuzzers, with one file for each.
const TARGETS: &str = "fuzz/fuzz_targets";
/// Committed inputs, which the library's tests replay.
const CORPUS: &str = "fuzz/corpus";
/// Inputs that runs on this machine found; git ignores them.
const FOUND: &str = "fuzz/found";
const ALL: &str = "all";

/// Runs one fuzzer or all of them, each for this long. Without a name, it lists them.
pub(crate) fn run(name: Option<&str>, seconds: u32) -> Result<ExitCode> {
    let targets = targets()?;
    let Some(name) = name else {
        println!("{}\n{ALL}", targets.join("\n"));
        return Ok(ExitCode::SUCCESS);
    };
    let chosen = chosen(&targets, name)?;
    let missing = missing();
    ensure!(missing.is_empty(), "the fuzzers cannot run:\n{}", missing.join("\n"));
    for target in chosen {
        fuzz(target, seconds)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn targets() -> Result<Vec<String>> {
    let entries = fs::read_dir(run::root().join(TARGETS)).with_context(|| format!("cannot list {TARGETS}"))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names = names.collect::<Result<Vec<_>>>()?;
    let mut targets: Vec<_> = names.iter().filter_map(|name| name.strip_suffix(".rs")).map(str::to_owned).collect();
    targets.sort();
    Ok(targets)
}

fn chosen<'a>(targets: &'a [String], name: &str) -> Result<Vec<&'a str>> {
    let chosen: Vec<_> = targets.iter().map(String::as_str).filter(|target| name == ALL || name == *target).collect();
    if chosen.is_empty() {
        bail!("there is no fuzzer {name:?}; there are {}, and {ALL}", targets.join(", "));
    }
    Ok(chosen)
}

/// Returns what must be installed first, one line for each program.
fn missing() -> Vec<String> {
    let compiler = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let mut missing = Vec::new();
    if !answers(&mut run::cargo(["fuzz", "--version"])) {
        missing.push("cargo-fuzz is not installed: cargo install cargo-fuzz --locked".to_owned());
    }
    if !answers(Command::new(&compiler).arg("--version")) {
        missing.push(format!("there is no C++ compiler {compiler}: install one, or name it in CXX"));
    }
    missing
}

fn answers(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn fuzz(target: &str, seconds: u32) -> Result<()> {
    // New inputs are written to the first of the two folders.
    let folders = [FOUND, CORPUS].map(|folder| format!("{folder}/{target}"));
    fs::create_dir_all(run::root().join(&folders[0])).with_context(|| format!("cannot create {}", folders[0]))?;
    // Sanitizers need another toolchain, and the library has no unsafe code for them to check.
    let mut cargo = run::cargo(["fuzz", "run", target, "--sanitizer", "none"]);
    cargo.args(&folders).args(["--", &format!("-max_total_time={seconds}"), "-print_final_stats=1"]);
    let status = cargo.status().context("cannot start cargo fuzz")?;
    ensure!(status.success(), "{target} failed: the input stands above, and in fuzz/artifacts/{target}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_chosen_by_name_and_all_by_all() {
        let targets = ["envelope", "headers"].map(str::to_owned);
        assert_eq!(chosen(&targets, "headers").unwrap(), ["headers"]);
        assert_eq!(chosen(&targets, "all").unwrap(), ["envelope", "headers"]);
        let refusal = chosen(&targets, "header").unwrap_err().to_string();
        assert!(refusal.contains("envelope, headers, and all"), "{refusal}");
    }

    #[test]
    fn every_target_is_known_to_cargo_and_has_inputs() {
        let manifest = fs::read_to_string(run::root().join("fuzz/Cargo.toml")).unwrap();
        let targets = targets().unwrap();
        assert!(targets.len() >= 4, "{targets:?}");
        for target in targets {
            assert!(manifest.contains(&format!("path = \"fuzz_targets/{target}.rs\"")), "{target}");
            assert!(run::root().join(CORPUS).join(&target).is_dir(), "{target}");
        }
    }
}

//! `cargo xtask callgrind`: compares the instructions of macro-generated code with those of handwritten code.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::run;

/// Macro-generated code may cost at most this many percent more.
const LIMIT: f64 = 2.0;
/// Counts what runs inside the program's `counted`, and keeps no file.
const RUNNER: &str = "valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=*counted*";

pub(crate) fn run() -> Result<()> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        postroom_testbed::install_package("valgrind").context("valgrind is missing: install it")?;
    }
    println!("{:<10} {:>14} {:>14} {:>8}", "", "by hand", "by macro", "more");
    let mut is_over = false;
    // Building a message takes so few instructions that a single additional move shows, so it has no limit.
    for (what, has_limit) in [("message", false), ("send", true), ("receive", true)] {
        let (hand, macros) = (instructions(what, "hand")?, instructions(what, "macro")?);
        let more = (macros / hand - 1.0) * 100.0;
        println!("{what:<10} {hand:>14} {macros:>14} {more:>7.2}%");
        is_over |= has_limit && more > LIMIT;
    }
    ensure!(!is_over, "what the macros write costs more than {LIMIT} % more");
    Ok(())
}

fn instructions(what: &str, how: &str) -> Result<f64> {
    let runner = format!("target.'cfg(all())'.runner = '{RUNNER}'");
    let mut args = vec!["--config", &runner, "bench", "--locked", "--package", "postroom", "--bench", "macro_cost"];
    args.extend(["--no-default-features", "--features", "macros", "--", what, how]);
    let output = run::cargo(args).output().context("cannot start cargo bench")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("cargo bench failed: {}", said.trim());
    }
    let count = said.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, count)| count.trim());
    count.and_then(|count| count.parse().ok()).with_context(|| format!("callgrind counted nothing: {}", said.trim()))
}

//! `cargo xtask test`: runs every test, shows the output as it comes, and counts.

mod clients;
mod tally;
mod tools;

use std::{
    env,
    io::{self, BufRead, BufReader, Read, Write},
    process::{ExitCode, Stdio},
    thread,
};

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::{
    run::{self, Stopwatch},
    servers::Servers,
};
use tally::Tally;
use tools::Tools;

/// The tests of these packages need no server, or start their own.
const WITHOUT_SERVERS: &[&str] = &["xtask", "postroom-testbed", "postroom-tracing"];

pub(crate) fn run(only: Option<&str>, filters: &[String]) -> Result<ExitCode> {
    let watch = Stopwatch::start();
    // The compiler waits for the processors, while servers and tools wait for the disk and the network.
    let (built, servers, tools) = thread::scope(|scope| {
        let build = scope.spawn(|| build(only));
        let (servers, tools) = (start_servers(only, runs_in_ci()), install_tools(only, runs_in_ci()));
        (build.join(), servers, tools)
    });
    built.map_err(|_| anyhow!("the build panicked"))??;
    let (servers, tools) = (servers?, tools?);
    let mut cargo = run::cargo(arguments(only, filters));
    cargo.envs(servers.variables()).envs(tools.variables()).stdout(Stdio::piped());
    let mut child = cargo.spawn().context("cannot start cargo test")?;
    let output = child.stdout.take().context("cargo test has no output")?;
    let mut tally = stream(output, io::stdout().lock())?;
    let status = child.wait()?;
    if only.is_none() && filters.is_empty() {
        clients::run(&servers.variables().collect::<Vec<_>>(), &mut tally, io::stdout().lock())?;
    }

    print!("{}", tally.summary());
    println!("in {}", run::readable(watch.elapsed()));
    if !status.success() {
        print!("{}", servers.keep_logs()?);
    }
    judge(&tally, runs_in_ci())?;
    Ok(if tally.failed > 0 { ExitCode::FAILURE } else { run::exit_code(status) })
}

/// Builds everything that `cargo test` runs, except for the examples of the documentation.
fn build(only: Option<&str>) -> Result<()> {
    let status = run::cargo(arguments(only, &[])).arg("--no-run").status().context("cannot start cargo test")?;
    ensure!(status.success(), "the tests cannot be built");
    Ok(())
}

/// Starts the servers that the environment does not already name. The tests of a missing server are skipped.
fn start_servers(only: Option<&str>, ci: bool) -> Result<Servers> {
    if only.is_some_and(|package| WITHOUT_SERVERS.contains(&package)) {
        return Ok(Servers::default());
    }
    let servers = Servers::start_unnamed();
    if ci && !servers.missing().is_empty() {
        bail!("a server is missing, and in CI each is needed:\n{}", servers.missing().trim_end());
    }
    eprint!("{}", servers.missing());
    Ok(servers)
}

/// Installs third-party programs for the tests of the node, unless the environment already names them.
fn install_tools(only: Option<&str>, ci: bool) -> Result<Tools> {
    if only.is_some_and(|package| package != "postroom-server") {
        return Ok(Tools::default());
    }
    let tools = Tools::install_unnamed();
    if ci && !tools.missing().is_empty() {
        bail!("a program is missing, and in CI each is needed:\n{}", tools.missing().trim_end());
    }
    eprint!("{}", tools.missing());
    Ok(tools)
}

fn arguments(only: Option<&str>, filters: &[String]) -> Vec<String> {
    // Without --no-fail-fast the first failing test file would hide the count of all later ones.
    let mut args = vec!["test", "--all-features", "--locked", "--no-fail-fast"];
    match only {
        Some(package) => args.extend(["--package", package]),
        None => args.push("--workspace"),
    }
    if !filters.is_empty() {
        args.push("--");
        args.extend(filters.iter().map(String::as_str));
    }
    args.into_iter().map(str::to_owned).collect()
}

/// Copies the output line by line and counts the results in it.
fn stream(output: impl Read, mut copy: impl Write) -> Result<Tally> {
    let mut lines = BufReader::new(output);
    let mut tally = Tally::default();
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        copy.write_all(&line)?;
        copy.flush()?;
        tally.read(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(tally)
}

/// Fails for problems that cargo does not count as a failure.
fn judge(tally: &Tally, ci: bool) -> Result<()> {
    if tally.ran() == 0 {
        bail!("no test ran");
    }
    if ci && tally.skipped > tally.optional() {
        bail!("a test may not be skipped in CI:\n{}", tally.skipped_names());
    }
    Ok(())
}

fn runs_in_ci() -> bool {
    env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_packages_unless_one_is_named() {
        let all = ["test", "--all-features", "--locked", "--no-fail-fast", "--workspace"];
        assert_eq!(arguments(None, &[]), all);
        let one = ["test", "--all-features", "--locked", "--no-fail-fast", "--package", "postroom", "--", "claim"];
        assert_eq!(arguments(Some("postroom"), &["claim".to_owned()]), one);
    }

    #[test]
    fn a_run_without_tests_fails() {
        assert!(judge(&Tally::default(), false).is_err());
    }

    #[test]
    fn a_skipped_test_fails_only_in_ci() {
        let output = "test slow ... ignored, needs a server\ntest result: ok. 3 passed; 0 failed; 1 ignored;\n";
        let mut copy = Vec::new();
        let tally = stream(output.as_bytes(), &mut copy).unwrap();
        assert_eq!(copy, output.as_bytes());
        assert!(judge(&tally, false).is_ok());
        let refusal = judge(&tally, true).unwrap_err().to_string();
        assert!(refusal.contains("slow: needs a server"), "{refusal}");
        let optional = output.replace("needs a server", "optional: needs what nobody can install");
        assert!(judge(&stream(optional.as_bytes(), &mut Vec::new()).unwrap(), true).is_ok());
    }
}

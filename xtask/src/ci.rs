//! `cargo xtask ci`: runs all checks except the tests, one named step after another.

mod dependencies;
mod features;

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{
    proto,
    run::{self, Stopwatch},
    tidy,
};

pub(crate) fn run() -> Result<()> {
    let watch = Stopwatch::start();
    cargo_step("format", "fmt --all --check", &[])?;
    cargo_step("clippy", "clippy --workspace --all-targets --all-features --locked -- -D warnings", &[])?;
    step("tidy", "cargo xtask tidy", || tidy::run(None))?;
    step("proto", "cargo xtask proto --check", proto::check)?;
    features::check()?;
    let strict = [("RUSTDOCFLAGS", "-D warnings")];
    cargo_step("documentation", "doc --workspace --lib --no-deps --all-features --locked", &strict)?;
    dependencies::check()?;
    println!("\nci passed in {}", run::readable(watch.elapsed()));
    Ok(())
}

fn cargo_step(name: &str, arguments: &str, variables: &[(&str, &str)]) -> Result<()> {
    let mut command = run::cargo(arguments.split(' '));
    command.envs(variables.iter().copied());
    step(name, &rerun(arguments, variables), || succeed(&mut command))
}

/// Returns the command line that runs the step again.
fn rerun(arguments: &str, variables: &[(&str, &str)]) -> String {
    let variables: String = variables.iter().map(|(name, value)| format!("{name}=\"{value}\" ")).collect();
    format!("{variables}cargo {arguments}")
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    if !status.success() {
        bail!("ended with {status}");
    }
    Ok(())
}

fn step(name: &str, rerun: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("\n== {name}: {rerun}");
    let watch = Stopwatch::start();
    if let Err(error) = work() {
        bail!("step `{name}` failed: {error:#}\nrun it again with: {rerun}");
    }
    println!("== {name}: passed in {}", run::readable(watch.elapsed()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_names_itself_and_how_to_run_it_again() {
        let failed = step("clippy", "cargo clippy --workspace", || bail!("ended with 101")).unwrap_err();
        let message = format!("{failed:#}");
        assert!(message.contains("step `clippy` failed"), "{message}");
        assert!(message.contains("cargo clippy --workspace"), "{message}");
        assert!(message.contains("ended with 101"), "{message}");
    }

    #[test]
    fn a_step_that_succeeds_lets_the_next_one_run() {
        assert!(step("tidy", "cargo xtask tidy", || Ok(())).is_ok());
    }

    #[test]
    fn rerun_shows_the_variables() {
        let line = rerun("doc --no-deps", &[("RUSTDOCFLAGS", "-D warnings")]);
        assert_eq!(line, "RUSTDOCFLAGS=\"-D warnings\" cargo doc --no-deps");
    }
}

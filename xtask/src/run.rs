//! Runs cargo from the root of the workspace, and measures how long it takes.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

const PROGRAMS: &str = "postroom-conformance";

/// Returns the folder of the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    // The variable names the running checkout; a target folder that two checkouts share may contain the other's
    // binary.
    let xtask = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    xtask.parent().map_or_else(|| xtask.clone(), Path::to_path_buf)
}

/// Returns the folder that cargo builds in.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns a cargo command that starts in the root of the workspace.
pub(crate) fn cargo<A: AsRef<str>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    for arg in args {
        command.arg(arg.as_ref());
    }
    command
}

/// Runs one of the conformance programs with the caller's arguments and returns its exit code.
pub(crate) fn program(name: &str, options: &[&str], args: &[String]) -> Result<ExitCode> {
    let status = cargo(["run", "--package", PROGRAMS, "--bin", name])
        .args(options)
        .arg("--")
        .args(args)
        .status()
        .with_context(|| format!("cannot start {name}"))?;
    Ok(exit_code(status))
}

/// Converts the child's exit code to ours. A child that was ended by a signal has none and counts as a failure.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Measures wall time.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "how long a build takes is told by the real clock")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Formats a duration for people: `4.2 s`, `3 min 07 s`.
pub(crate) fn readable(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        return format!("{:.1} s", duration.as_secs_f64());
    }
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_readable() {
        assert_eq!(readable(Duration::from_millis(4_230)), "4.2 s");
        assert_eq!(readable(Duration::from_secs(187)), "3 min 07 s");
    }

    #[test]
    fn root_holds_the_workspace() {
        assert!(root().join("xtask/Cargo.toml").is_file());
    }
}

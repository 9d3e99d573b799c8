//! Programs of others that tests run, in a folder that is gone when the tests are over.

use std::path::{Path, PathBuf};
use std::{env, process::Command};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// Where schemathesis is: it asks a node everything that the description allows, and what it does not.
const VARIABLE: &str = "POSTROOM_TEST_SCHEMATHESIS";
/// One version: what it asks is a part of the test.
const PACKAGE: &str = "schemathesis==4.32.5";

/// The programs that could be installed, and why the others could not.
#[derive(Debug, Default)]
pub(super) struct Tools {
    installed: Option<(TempDir, PathBuf)>,
    refusal: Option<String>,
}

impl Tools {
    /// Those that the environment does not name already.
    pub(super) fn install_unnamed() -> Self {
        if env::var_os(VARIABLE).is_some() {
            return Self::default();
        }
        match install() {
            Ok(installed) => Self { installed: Some(installed), refusal: None },
            Err(error) => Self {
                installed: None,
                refusal: Some(format!("schemathesis cannot be installed, name one in {VARIABLE}: {error:#}\n")),
            },
        }
    }

    /// The variables that tell the tests of them.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.installed.iter().map(|(_, program)| (VARIABLE, program.as_path()))
    }

    /// One line for each that is missing.
    pub(super) fn missing(&self) -> &str {
        self.refusal.as_deref().unwrap_or_default()
    }
}

fn install() -> Result<(TempDir, PathBuf)> {
    let folder = tempfile::Builder::new().prefix("postroom-tools-").tempdir()?;
    let bin = folder.path().join("bin");
    run(Command::new("python3").args(["-m", "venv"]).arg(folder.path()))?;
    run(Command::new(bin.join("pip")).args(["install", "--quiet", "--disable-pip-version-check", PACKAGE]))?;
    let program = bin.join("schemathesis");
    ensure!(program.exists(), "pip left no {}", program.display());
    Ok((folder, program))
}

fn run(command: &mut Command) -> Result<()> {
    let ran = command.output().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    ensure!(ran.status.success(), "{}", said.lines().last().unwrap_or("it failed without a word"));
    Ok(())
}
